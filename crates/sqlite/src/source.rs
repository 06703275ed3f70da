//! The source: what the relay takes entries from.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use postrider_core::clock::Clock;
use postrider_core::cursor::Taken;
use postrider_core::layout::Way;
use postrider_core::source::{Ask, Claim, Claimed, Settles, Source, SourceError, SourceFeatures};
use postrider_core::{Fault, Settlement};
use rusqlite::Connection;

use crate::adopt::adopt;
use crate::config::Config;
use crate::connection::{Worker, log_ahead, open};
use crate::cursor::CursorWay;
use crate::fault::fault;
use crate::file::{OpenFile, not_yet};
use crate::lease::LeaseWay;
use crate::table::inspect;

/// Opens an outbox for a relay.
///
/// # Errors
/// When the file is not there or is no database, the table does not fit its layout, or where to begin is not said.
pub fn open_source(config: &Config, clock: Arc<dyn Clock>) -> Result<SqliteSource, Fault> {
    config.validate()?;
    config.start.map_or(Ok(()), |start| start.fits(&config.layout, &config.place()))?;
    let opened = Opened::new(config, clock.now())?;
    let state = State { config: config.clone(), clock, files: 1, opened: Some(opened) };
    let worker = Worker::start("postrider-sqlite", config.place(), state)?;
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
    /// Which file it is of: one that took another's place counts its claims and fences anew.
    pub(crate) file: u64,
    /// Whether every entry of it is known to be settled: then there is nothing left to write for it.
    pub(crate) settled: bool,
}

impl Hold {
    /// A claim of the file that is open.
    pub(crate) fn new(claim: i64, fence: i64) -> Self {
        Self { claim, fence, file: 0, settled: false }
    }

    pub(crate) fn number(&self) -> u64 {
        self.claim.unsigned_abs()
    }

    fn copy(&self) -> Self {
        Self { claim: self.claim, fence: self.fence, file: self.file, settled: self.settled }
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

    fn hold(&mut self) -> Option<&mut Hold> {
        match self {
            Self::Unread { hold, .. } => Some(hold),
            Self::Claimed(Claimed::Batch(claim)) => Some(&mut claim.hold),
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
    config: Config,
    clock: Arc<dyn Clock>,
    /// Files that were opened at this path.
    files: u64,
    /// None after the file is gone, until there is one again.
    opened: Option<Opened>,
}

/// A file that is open, and all that is known of it.
struct Opened {
    file: OpenFile,
    connection: Connection,
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
        // A claim that nobody waits for any more would be held until its lease ends.
        let give_back = |state: &mut State, mut answer: Answer| {
            if let Some(hold) = answer.hold() {
                let _ = state.release(hold);
            }
        };
        self.worker.run_or_undo(move |state| state.claim(&ask), give_back).await.map(Answer::claimed)
    }

    async fn extend(&self, hold: &mut Hold) -> Result<(), SourceError> {
        let hold = hold.copy();
        self.worker
            .run(move |state| {
                let now = state.clock.now();
                let Opened { connection, holding, .. } = state.of(&hold)?;
                match holding {
                    Holding::Lease(way) => way.extend(connection, now, &hold),
                    Holding::Cursor(way) => way.extend(connection, now, &hold),
                }
            })
            .await
    }

    async fn settle(&self, hold: &mut Hold, settlements: &[(usize, Settlement)]) -> Result<(), SourceError> {
        let (copy, settlements) = (hold.copy(), settlements.to_vec());
        hold.settled = self
            .worker
            .run(move |state| {
                let now = state.clock.now();
                let Opened { connection, holding, .. } = state.of(&copy)?;
                match holding {
                    Holding::Lease(way) => way.settle(connection, now, &copy, &settlements)?,
                    Holding::Cursor(way) => way.settle(connection, now, &copy, &settlements)?,
                }
                Ok(match holding {
                    Holding::Lease(way) => way.is_settled(&copy),
                    Holding::Cursor(way) => way.is_settled(&copy),
                })
            })
            .await?;
        Ok(())
    }

    async fn release(&self, hold: Hold) -> Result<(), SourceError> {
        // All of it was written with its last settlement: the thread only has to forget it, and nobody waits for that.
        if hold.settled {
            self.worker.post(move |state| drop(state.release(&hold)));
            return Ok(());
        }
        self.worker.run(move |state| state.release(&hold)).await
    }

    async fn retire(&self) -> Result<(), SourceError> {
        self.worker
            .run(|state| {
                let now = state.clock.now();
                let Some(Opened { connection, holding, .. }) = &mut state.opened else { return Ok(()) };
                match holding {
                    Holding::Lease(way) => way.retire(connection, now),
                    Holding::Cursor(way) => way.retire(connection),
                }
            })
            .await
    }
}

impl State {
    /// Where nothing is found, the path is looked at: the rows may be written to a file that took this one's place.
    fn claim(&mut self, ask: &Ask) -> Result<Answer, SourceError> {
        let now = self.clock.now();
        if let Some(opened) = &mut self.opened {
            let mut answer = opened.claim(now, ask);
            let hold = answer.as_mut().ok().and_then(Answer::hold);
            if hold.is_some() || !opened.file.is_replaced(now) {
                hold.into_iter().for_each(|hold| hold.file = self.files);
                return answer;
            }
            self.opened = None;
        }
        self.files += 1;
        let opened = Opened::new(&self.config, now).map_err(|fault| not_yet(&self.config.path, fault))?;
        let mut answer = self.opened.insert(opened).claim(now, ask);
        if let Some(hold) = answer.as_mut().ok().and_then(Answer::hold) {
            hold.file = self.files;
        }
        answer
    }

    /// What a hold is of. A claim on a file that was replaced is void.
    fn of(&mut self, hold: &Hold) -> Result<&mut Opened, SourceError> {
        self.opened.as_mut().filter(|_| hold.file == self.files).ok_or(SourceError::Fenced)
    }

    fn release(&mut self, hold: &Hold) -> Result<(), SourceError> {
        let now = self.clock.now();
        let Ok(Opened { connection, holding, .. }) = self.of(hold) else { return Ok(()) };
        match holding {
            Holding::Lease(way) => way.release(connection, now, hold),
            Holding::Cursor(way) => way.release(connection, hold),
        }
    }
}

impl Opened {
    fn new(config: &Config, now: Timestamp) -> Result<Self, Fault> {
        let file = OpenFile::new(&config.path, now);
        let mut connection = open(config)?;
        log_ahead(&connection).map_err(|error| fault(&config.place(), error))?;
        let table = inspect(&connection, config)?;
        adopt(&mut connection, config)?;
        let id_counts = table.id_counts(&config.layout);
        let holding = match (&config.layout.status, config.layout.way) {
            (Some(words), Way::Lease) => {
                Holding::Lease(Box::new(LeaseWay::new(config, words.clone(), id_counts)))
            }
            _ => Holding::Cursor(Box::new(CursorWay::new(config)?)),
        };
        Ok(Self { file, connection, holding })
    }

    fn claim(&mut self, now: Timestamp, ask: &Ask) -> Result<Answer, SourceError> {
        match &mut self.holding {
            Holding::Lease(way) => way.claim(&mut self.connection, now, ask).map(Answer::Claimed),
            Holding::Cursor(way) => way.claim(&mut self.connection, now, ask),
        }
    }
}
