//! The source: what the relay takes entries from.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, Weak};

use postrider_core::source::{Ask, Claim, Claimed, Source, SourceError, SourceFeatures};
use postrider_core::{Fault, Settlement};

use crate::config::Config;
use crate::fault::classed;
use crate::fitness::{require_dead, require_fit};
use crate::lease::{LeaseHold, LeaseSource};
use crate::migrate::require_side;
use crate::session::Session;
use crate::table::{Table, inspect};

/// Opens an outbox for a relay.
///
/// # Errors
/// When the database cannot be reached, the table does not fit its layout or its way of claiming, or Postrider's own tables
/// are missing.
pub async fn open_source(config: &Config) -> Result<MysqlSource, Fault> {
    config.validate()?;
    let config = Arc::new(config.clone());
    let opened = Opened::new(&config, examine(&config).await?);
    let features = opened.way.features();
    Ok(MysqlSource {
        config,
        opened: RwLock::new(vec![Arc::new(opened)]),
        unfit: AtomicBool::new(false),
        features,
    })
}

/// The table, if a relay can work on it as it is now.
async fn examine(config: &Arc<Config>) -> Result<Table, Fault> {
    let mut session = Session::open(config).await?;
    let table = inspect(&mut session, config).await?;
    require_fit(config, &table)?;
    require_dead(&mut session, config).await?;
    require_side(&mut session, config).await?;
    Ok(table)
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
    way: LeaseSource,
}

impl Opened {
    fn new(config: &Arc<Config>, table: Table) -> Self {
        Self { way: LeaseSource::new(config, table.clone()), table }
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
        let table = examine(&self.config).await.map_err(classed)?;
        self.unfit.store(false, Ordering::SeqCst);
        if table == known.table {
            return Ok(known);
        }
        let opened = Arc::new(Opened::new(&self.config, table));
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
    held: LeaseHold,
    /// What it was made with, as long as the source is there.
    opened: Weak<Opened>,
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
        match opened.way.claim(ask).await {
            Ok(Claimed::Batch(Claim { hold: held, entries, more })) => {
                let hold = Hold { held, opened: Arc::downgrade(&opened) };
                Ok(Claimed::Batch(Claim { hold, entries, more }))
            }
            Ok(Claimed::Nothing(idle)) => Ok(Claimed::Nothing(idle)),
            Ok(Claimed::Standby) => Ok(Claimed::Standby),
            Err(error) => Err(self.told(error).await),
        }
    }

    async fn extend(&self, hold: &mut Hold) -> Result<(), SourceError> {
        let opened = hold.opened.upgrade().ok_or(SourceError::Fenced)?;
        opened.way.extend(&mut hold.held).await
    }

    async fn settle(&self, hold: &mut Hold, settlements: &[(usize, Settlement)]) -> Result<(), SourceError> {
        let opened = hold.opened.upgrade().ok_or(SourceError::Fenced)?;
        match opened.way.settle(&mut hold.held, settlements).await {
            Ok(()) => Ok(()),
            Err(error) => Err(self.told(error).await),
        }
    }

    async fn release(&self, hold: Hold) -> Result<(), SourceError> {
        let opened = hold.opened.upgrade().ok_or(SourceError::Fenced)?;
        opened.way.release(hold.held).await
    }

    async fn retire(&self) -> Result<(), SourceError> {
        match self.opened() {
            Some(opened) => opened.way.retire().await,
            None => Ok(()),
        }
    }
}
