//! An outbox in memory, with all four ways of claiming.

mod database;
mod follow;
mod hold;
mod status;
mod store;
mod trouble;
mod view;
mod writer;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use postrider_core::Settlement;
use postrider_core::clock::Clock;
use postrider_core::layout::RetryRuns;
use postrider_core::source::{Ask, Claimed, Settles, Source, SourceError, SourceFeatures};

use crate::chance::Chance;
use database::Database;
use follow::Follower;

pub use database::{Recorded, RowState};
pub use hold::SimHold;
pub use store::SimStore;
pub use trouble::Trouble;
pub use writer::Writer;

/// How entries are claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By id after the position, with a gap ledger.
    Cursor,
    /// By status, with leases.
    Lease,
    /// By status, with row locks in an open transaction.
    Hold,
    /// In commit order, settled by prefix.
    Log,
}

/// Ways in which a source may be broken, so that the checkers can be seen to notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// Ids that were passed unseen are never looked for again.
    GapsForgotten,
    /// Open gaps are kept in memory only.
    GapsNotPersisted,
    /// Gaps are closed without asking who is alive.
    GapsClosedTooEarly,
    /// A relay that lost its lease settles all the same.
    StaleSettle,
    /// What a claim leaves unsettled is never given back.
    ReleaseForgotten,
    /// An entry that waits for its retry does not hold its key.
    RetryOvertakes,
}

/// What an outbox is told once.
#[derive(Clone, Copy, Debug)]
pub struct OutboxSettings {
    /// How entries are claimed.
    pub way: Way,
    /// Whether a dead entry holds its key.
    pub hold_dead: bool,
    /// Whether order is kept; without, several holders claim side by side.
    pub ordered: bool,
    /// How long a lease holds.
    pub lease_ttl: Duration,
    /// Whether retries are a job of their own (by cursor), and when it runs.
    pub retry_runs: Option<RetryRuns>,
    /// How it is broken, if so.
    pub flaw: Option<Flaw>,
}

impl Default for OutboxSettings {
    fn default() -> Self {
        Self {
            way: Way::Cursor,
            hold_dead: true,
            ordered: true,
            lease_ttl: Duration::from_secs(10),
            retry_runs: None,
            flaw: None,
        }
    }
}

/// A database with one outbox, shared by writers, relays and checkers.
#[derive(Clone)]
pub struct Outbox {
    database: Arc<Mutex<Database>>,
    clock: Arc<dyn Clock>,
    chance: Arc<Mutex<Chance>>,
    settings: OutboxSettings,
}

impl Outbox {
    /// An empty outbox. `clock` is the database's own.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, settings: OutboxSettings, chance: Chance) -> Self {
        let database = Arc::new(Mutex::new(Database::default()));
        Self { database, clock, chance: Arc::new(Mutex::new(chance)), settings }
    }

    /// Begins a transaction; dropped without a commit, it is rolled back.
    #[must_use]
    pub fn begin(&self) -> Writer {
        Writer::new(self)
    }

    /// A holder of its own.
    #[must_use]
    pub fn source(&self, holder: &str) -> SimSource {
        SimSource {
            outbox: self.clone(),
            session: self.lock().connect(holder),
            follower: Mutex::default(),
            tokens: Mutex::default(),
        }
    }

    /// What operators and chores see.
    #[must_use]
    pub fn store(&self) -> SimStore {
        SimStore::new(self)
    }

    /// Makes a row unreadable as an event.
    pub fn corrupt(&self, id: i64) {
        if let Some(row) = self.lock().rows.get_mut(&id) {
            row.flaw = Some(postrider_core::entry::Flaw("its payload is no text".into()));
        }
    }

    /// Loses the next reply, whose work is done.
    pub fn lose_next_reply(&self) {
        self.lock().reply_lost_next = true;
    }

    /// How likely answers are lost or late, and whether there are any.
    pub fn set_trouble(&self, trouble: Trouble) {
        self.lock().trouble = trouble;
    }

    /// Everything in the table that was committed.
    #[must_use]
    pub fn recorded(&self) -> Vec<Recorded> {
        let database = self.lock();
        let views = view::views(&database, &self.settings, self.clock.now()).into_iter();
        let recorded = views.filter_map(|view| {
            let row = database.rows.get(&view.id)?;
            let (event, key) = (row.envelope.id.clone(), row.key.clone());
            Some(Recorded { event, key, state: view.state, retries: view.retries })
        });
        recorded.collect()
    }

    /// Entries that a cursor keeps one by one beside its position.
    #[must_use]
    pub fn exceptions(&self) -> usize {
        self.lock().saved.exceptions.len()
    }

    /// Entries that were in two hands at once, in words.
    #[must_use]
    pub fn overlaps(&self) -> Vec<String> {
        self.lock().overlaps.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Database> {
        self.database.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One relay's view of an [`Outbox`]. Dropping it is what the database sees of a relay that dies.
pub struct SimSource {
    outbox: Outbox,
    session: u64,
    follower: Mutex<Option<Follower>>,
    /// Claims that the relay knows of.
    tokens: Mutex<HashSet<u64>>,
}

impl SimSource {
    fn knows(&self, token: u64) -> bool {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner).contains(&token)
    }

    fn forget(&self, token: u64) {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner).remove(&token);
    }
}

impl Drop for SimSource {
    fn drop(&mut self) {
        let session_bound = matches!(self.outbox.settings.way, Way::Hold);
        self.outbox.lock().disconnect(self.session, session_bound);
    }
}

impl Source for SimSource {
    type Hold = SimHold;

    fn features(&self) -> SourceFeatures {
        let OutboxSettings { way, ordered, lease_ttl, .. } = self.outbox.settings;
        let settles = match way {
            Way::Cursor | Way::Lease => Settles::Each,
            Way::Hold => Settles::AtRelease,
            Way::Log => Settles::Prefix,
        };
        SourceFeatures { ordered, settles, wakes: false, lease_ttl }
    }

    async fn claim(&self, ask: &Ask) -> Result<Claimed<SimHold>, SourceError> {
        let claimed = self
            .outbox
            .call(|database, now| match self.outbox.settings.way {
                Way::Cursor | Way::Log => follow::claim(self, database, now, ask),
                Way::Lease | Way::Hold => status::claim(self, database, now, ask),
            })
            .await?;
        if let Some(follower) = self.follower.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            follower.confirm();
        }
        if let Claimed::Batch(claim) = &claimed {
            self.tokens.lock().unwrap_or_else(PoisonError::into_inner).insert(claim.hold.token);
        }
        Ok(claimed)
    }

    async fn extend(&self, hold: &mut SimHold) -> Result<(), SourceError> {
        self.outbox.call(|database, now| hold::extend(self, database, now, hold)).await
    }

    async fn settle(
        &self,
        hold: &mut SimHold,
        settlements: &[(usize, Settlement)],
    ) -> Result<(), SourceError> {
        self.outbox
            .call(|database, now| match self.outbox.settings.way {
                Way::Cursor | Way::Log => follow::settle(self, database, now, hold, settlements),
                Way::Lease | Way::Hold => status::settle(self, database, now, hold, settlements),
            })
            .await
    }

    async fn release(&self, mut hold: SimHold) -> Result<(), SourceError> {
        // Whatever becomes of the call, this claim is over: an open transaction ends with its connection.
        self.forget(hold.token);
        self.outbox
            .call(|database, now| match self.outbox.settings.way {
                Way::Cursor | Way::Log => follow::release(self, database, now, &mut hold),
                Way::Lease | Way::Hold => status::release(self, database, now, &mut hold),
            })
            .await
    }

    async fn retire(&self) -> Result<(), SourceError> {
        let work = |database: &mut Database, _| {
            database.retire(self.session);
            Ok(())
        };
        self.outbox.call(work).await
    }
}
