//! The source: what the relay takes entries from.

use std::sync::Arc;
use std::time::Duration;

use postrider_core::clock::Clock;
use postrider_core::layout::Way;
use postrider_core::source::{Ask, Claim, Claimed, Settles, Source, SourceError, SourceFeatures};
use postrider_core::{Fault, Settlement};
use rusqlite::Connection;

use crate::adopt::adopt;
use crate::config::Config;
use crate::connection::{Worker, open};
use crate::cursor::CursorWay;
use crate::lease::LeaseWay;
use crate::loaded::Taken;
use crate::table::inspect;

/// Opens an outbox for a relay.
///
/// # Errors
/// When the file is not there or is no database, the table does not fit its layout, or where to begin is not said.
pub fn open_source(config: &Config, clock: Arc<dyn Clock>) -> Result<SqliteSource, Fault> {
    config.validate()?;
    let mut connection = open(config)?;
    let table = inspect(&connection, config)?;
    adopt(&mut connection, config)?;
    let id_counts = table.id_counts(&config.layout);
    let holding = match (&config.layout.status, config.layout.way) {
        (Some(words), Way::Lease) => {
            Holding::Lease(Box::new(LeaseWay::new(config, words.clone(), id_counts)))
        }
        _ => Holding::Cursor(Box::new(CursorWay::new(config)?)),
    };
    let worker = Worker::start("postrider-sqlite", config.place(), State { connection, clock, holding })?;
    Ok(SqliteSource { worker, ordered: config.keeps_order(), lease_ttl: config.lease_ttl })
}

/// A SQLite outbox in one relay's hands.
pub struct SqliteSource {
    worker: Worker<State>,
    ordered: bool,
    lease_ttl: Duration,
}

/// A claim of this source.
#[derive(Debug)]
pub struct Hold {
    pub(crate) claim: i64,
    pub(crate) fence: i64,
}

impl Hold {
    pub(crate) fn number(&self) -> u64 {
        self.claim.unsigned_abs()
    }

    fn copy(&self) -> Self {
        Self { claim: self.claim, fence: self.fence }
    }
}

/// What the thread answers to a claim.
pub(crate) enum Answer {
    Claimed(Claimed<Hold>),
    /// Rows that are yet to be decoded: on the relay's thread, while this one reads on.
    Unread {
        hold: Hold,
        rows: Taken,
        more: bool,
    },
}

impl Answer {
    fn claimed(self) -> Claimed<Hold> {
        match self {
            Self::Claimed(claimed) => claimed,
            Self::Unread { hold, rows, more } => {
                Claimed::Batch(Claim { hold, entries: rows.entries(), more })
            }
        }
    }

    fn hold(&self) -> Option<&Hold> {
        match self {
            Self::Unread { hold, .. } => Some(hold),
            Self::Claimed(Claimed::Batch(claim)) => Some(&claim.hold),
            Self::Claimed(_) => None,
        }
    }
}

impl From<Claimed<Hold>> for Answer {
    fn from(claimed: Claimed<Hold>) -> Self {
        Self::Claimed(claimed)
    }
}

struct State {
    connection: Connection,
    clock: Arc<dyn Clock>,
    holding: Holding,
}

enum Holding {
    Lease(Box<LeaseWay>),
    Cursor(Box<CursorWay>),
}

impl Source for SqliteSource {
    type Hold = Hold;

    fn features(&self) -> SourceFeatures {
        SourceFeatures {
            ordered: self.ordered,
            settles: Settles::Each,
            wakes: false,
            lease_ttl: self.lease_ttl,
        }
    }

    async fn claim(&self, ask: &Ask) -> Result<Claimed<Hold>, SourceError> {
        let ask = ask.clone();
        let claim = move |state: &mut State| {
            let now = state.clock.now();
            match &mut state.holding {
                Holding::Lease(way) => way.claim(&mut state.connection, now, &ask).map(Answer::Claimed),
                Holding::Cursor(way) => way.claim(&mut state.connection, now, &ask),
            }
        };
        // A claim that nobody waits for any more would be held until its lease ends.
        let give_back = |state: &mut State, answer: Answer| {
            if let Some(hold) = answer.hold() {
                let _ = state.release(hold);
            }
        };
        self.worker.run_or_undo(claim, give_back).await.map(Answer::claimed)
    }

    async fn extend(&self, hold: &mut Hold) -> Result<(), SourceError> {
        let hold = hold.copy();
        self.worker
            .run(move |state| {
                let now = state.clock.now();
                match &mut state.holding {
                    Holding::Lease(way) => way.extend(&mut state.connection, now, &hold),
                    Holding::Cursor(way) => way.extend(&mut state.connection, now, &hold),
                }
            })
            .await
    }

    async fn settle(&self, hold: &mut Hold, settlements: &[(usize, Settlement)]) -> Result<(), SourceError> {
        let (hold, settlements) = (hold.copy(), settlements.to_vec());
        self.worker
            .run(move |state| {
                let now = state.clock.now();
                match &mut state.holding {
                    Holding::Lease(way) => way.settle(&mut state.connection, now, &hold, &settlements),
                    Holding::Cursor(way) => way.settle(&mut state.connection, now, &hold, &settlements),
                }
            })
            .await
    }

    async fn release(&self, hold: Hold) -> Result<(), SourceError> {
        self.worker.run(move |state| state.release(&hold)).await
    }

    async fn retire(&self) -> Result<(), SourceError> {
        self.worker
            .run(|state| {
                let now = state.clock.now();
                match &mut state.holding {
                    Holding::Lease(way) => way.retire(&mut state.connection, now),
                    Holding::Cursor(way) => way.retire(&mut state.connection),
                }
            })
            .await
    }
}

impl State {
    fn release(&mut self, hold: &Hold) -> Result<(), SourceError> {
        let now = self.clock.now();
        match &mut self.holding {
            Holding::Lease(way) => way.release(&mut self.connection, now, hold),
            Holding::Cursor(way) => way.release(&mut self.connection, hold),
        }
    }
}
