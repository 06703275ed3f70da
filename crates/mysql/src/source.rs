//! The source: what the relay takes entries from, in the layout's way.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, Weak};

use postrider_core::layout::Way;
use postrider_core::source::{Ask, Claim, Claimed, Source, SourceError, SourceFeatures};
use postrider_core::{Fault, Settlement};

use crate::config::Config;
use crate::cursor::{self, CursorHold, CursorSource};
use crate::fault::{classed, fault};
use crate::fitness::{require_dead, require_fit};
use crate::hold::{HoldHold, HoldSource};
use crate::lease::{LeaseHold, LeaseSource};
use crate::migrate::require_side;
use crate::session::Session;
use crate::status::{Owners, may_list};
use crate::table::{Table, inspect};

/// Opens an outbox for a relay.
///
/// # Errors
/// When the database cannot be reached, the table does not fit its layout or its way of claiming, Postrider's own tables
/// are missing, or where to begin is not said.
pub async fn open_source(config: &Config) -> Result<MysqlSource, Fault> {
    config.validate()?;
    let config = Arc::new(config.clone());
    let (mut session, table, owners) = examine(&config).await?;
    if config.layout.way == Way::Cursor {
        // At the first opening where to begin is decided; later it is known, and ids that went backwards stop the relay.
        cursor::adopt(&mut session, &config, &table).await?;
    }
    let opened = Opened::new(&config, table, owners);
    let features = match &opened.way {
        Inner::Cursor(way) => way.features(),
        Inner::Lease(way) => way.features(),
        Inner::Hold(way) => way.features(),
    };
    Ok(MysqlSource {
        config,
        opened: RwLock::new(vec![Arc::new(opened)]),
        unfit: AtomicBool::new(false),
        features,
    })
}

/// The table, if a relay can work on it as it is now; and what can be told of those who draw its ids.
async fn examine(config: &Arc<Config>) -> Result<(Session, Table, Owners), Fault> {
    let mut session = Session::open(config).await?;
    let table = inspect(&mut session, config).await?;
    require_fit(config, &table)?;
    require_dead(&mut session, config).await?;
    require_side(&mut session, config).await?;
    if config.layout.way == Way::Cursor {
        cursor::require_fit(&mut session, config, &table).await?;
    }
    let owners = may_list(&mut session, config, &table).await;
    let owners = owners.map_err(|error| fault(&config.place(), error))?;
    Ok((session, table, owners))
}

/// A MySQL or MariaDB outbox in one relay's hands. A table that changes while it is claimed from, or a right that is taken away,
/// ends nothing: what is wrong is told with each call, and claiming goes on once it is mended.
pub struct MysqlSource {
    config: Arc<Config>,
    /// The last is claimed with; those before it have claims to settle yet.
    opened: RwLock<Vec<Arc<Opened>>>,
    /// A statement did not fit the table any more: it is looked at before the next claim.
    unfit: AtomicBool,
    features: SourceFeatures,
}

/// A way of claiming, with the statements that fit the table as it was found.
struct Opened {
    table: Table,
    way: Inner,
}

enum Inner {
    Cursor(Box<CursorSource>),
    Lease(Box<LeaseSource>),
    Hold(Box<HoldSource>),
}

impl Opened {
    fn new(config: &Arc<Config>, table: Table, owners: Owners) -> Self {
        let found = table.clone();
        let way = match config.layout.way {
            Way::Cursor => Inner::Cursor(Box::new(CursorSource::new(config, table))),
            Way::Hold => Inner::Hold(Box::new(HoldSource::new(config, table))),
            Way::Lease | Way::Log => Inner::Lease(Box::new(LeaseSource::new(config, table, owners))),
        };
        Self { table: found, way }
    }
}

impl MysqlSource {
    fn opened(&self) -> Option<Arc<Opened>> {
        self.opened.read().unwrap_or_else(PoisonError::into_inner).last().cloned()
    }

    /// What to claim with. After a statement that did not fit, the table is looked at first; one that is another than it was
    /// needs other statements, and what was claimed with the old ones is theirs to settle.
    async fn fit(&self) -> Result<Arc<Opened>, SourceError> {
        let known = self.opened().ok_or(SourceError::Fenced)?;
        if !self.unfit.load(Ordering::SeqCst) {
            return Ok(known);
        }
        let (_, table, owners) = examine(&self.config).await.map_err(classed)?;
        self.unfit.store(false, Ordering::SeqCst);
        if table == known.table {
            return Ok(known);
        }
        let opened = Arc::new(Opened::new(&self.config, table, owners));
        let mut all = self.opened.write().unwrap_or_else(PoisonError::into_inner);
        all.retain(|earlier| Arc::weak_count(earlier) > 0);
        all.push(Arc::clone(&opened));
        Ok(opened)
    }

    /// What a statement's failure comes from is told by the table, better than by the statement.
    async fn told(&self, error: SourceError) -> SourceError {
        if !matches!(error, SourceError::Unfit(_)) {
            return error;
        }
        self.unfit.store(true, Ordering::SeqCst);
        match examine(&self.config).await {
            Ok(_) => error,
            Err(fault) => classed(fault),
        }
    }
}

/// A claim of this source.
#[derive(Debug)]
pub struct Hold {
    held: Held,
    /// What it was made with, as long as the source is there.
    opened: Weak<Opened>,
}

#[derive(Debug)]
enum Held {
    Cursor(CursorHold),
    Lease(LeaseHold),
    Hold(Box<HoldHold>),
}

impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Opened").field("engine", &self.table.engine).finish_non_exhaustive()
    }
}

impl Source for MysqlSource {
    type Hold = Hold;

    fn features(&self) -> SourceFeatures {
        self.features
    }

    async fn claim(&self, ask: &Ask) -> Result<Claimed<Hold>, SourceError> {
        let opened = self.fit().await?;
        let claimed = match &opened.way {
            Inner::Cursor(way) => way.claim(ask).await.map(|claimed| held(claimed, &opened, Held::Cursor)),
            Inner::Lease(way) => way.claim(ask).await.map(|claimed| held(claimed, &opened, Held::Lease)),
            Inner::Hold(way) => {
                way.claim(ask).await.map(|claimed| held(claimed, &opened, |hold| Held::Hold(Box::new(hold))))
            }
        };
        match claimed {
            Ok(claimed) => Ok(claimed),
            Err(error) => Err(self.told(error).await),
        }
    }

    async fn extend(&self, hold: &mut Hold) -> Result<(), SourceError> {
        let opened = hold.opened.upgrade().ok_or(SourceError::Fenced)?;
        match (&opened.way, &mut hold.held) {
            (Inner::Cursor(way), Held::Cursor(hold)) => way.extend(hold).await,
            (Inner::Lease(way), Held::Lease(hold)) => way.extend(hold).await,
            (Inner::Hold(way), Held::Hold(hold)) => way.extend(hold).await,
            _ => Err(SourceError::Fenced),
        }
    }

    async fn settle(&self, hold: &mut Hold, settlements: &[(usize, Settlement)]) -> Result<(), SourceError> {
        let opened = hold.opened.upgrade().ok_or(SourceError::Fenced)?;
        let settled = match (&opened.way, &mut hold.held) {
            (Inner::Cursor(way), Held::Cursor(hold)) => way.settle(hold, settlements).await,
            (Inner::Lease(way), Held::Lease(hold)) => way.settle(hold, settlements).await,
            (Inner::Hold(way), Held::Hold(hold)) => way.settle(hold, settlements).await,
            _ => Err(SourceError::Fenced),
        };
        match settled {
            Ok(()) => Ok(()),
            Err(error) => Err(self.told(error).await),
        }
    }

    async fn release(&self, hold: Hold) -> Result<(), SourceError> {
        let opened = hold.opened.upgrade().ok_or(SourceError::Fenced)?;
        match (&opened.way, hold.held) {
            (Inner::Cursor(way), Held::Cursor(hold)) => way.release(hold).await,
            (Inner::Lease(way), Held::Lease(hold)) => way.release(hold).await,
            (Inner::Hold(way), Held::Hold(hold)) => way.release(*hold).await,
            _ => Err(SourceError::Fenced),
        }
    }

    async fn retire(&self) -> Result<(), SourceError> {
        let Some(opened) = self.opened() else { return Ok(()) };
        match &opened.way {
            Inner::Cursor(way) => way.retire().await,
            Inner::Lease(way) => way.retire().await,
            Inner::Hold(way) => way.retire().await,
        }
    }
}

fn held<H>(claimed: Claimed<H>, opened: &Arc<Opened>, wrap: impl FnOnce(H) -> Held) -> Claimed<Hold> {
    match claimed {
        Claimed::Batch(Claim { hold, entries, more }) => {
            let hold = Hold { held: wrap(hold), opened: Arc::downgrade(opened) };
            Claimed::Batch(Claim { hold, entries, more })
        }
        Claimed::Nothing(idle) => Claimed::Nothing(idle),
        Claimed::Standby => Claimed::Standby,
    }
}
