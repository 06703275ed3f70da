//! Following an append-only table by id, with everything that did not go straight through kept beside it.
//!
//! A pure state machine that every cursor source shares. The source does the I/O, in this order:
//! 1. [`Cursor::look`], ask the database who is alive, [`Cursor::check`] (only where ids commit out of order);
//! 2. [`Cursor::reading`] says what to read; all of it in **one** statement, in id order;
//! 3. each row is offered to a [`Scan`], which says whether it is handed out; [`Scan::finish`];
//! 4. [`Cursor::settle`] takes what became of the rows;
//! 5. [`Cursor::write`] says what to persist, in one transaction under the fence; [`Cursor::applied`] when that is done.
//!
//! Memory may run ahead of the database, never the other way round: a write that failed is made again by the next
//! [`Cursor::write`], and [`Cursor::load`] from the last write that succeeded is always safe. What is persisted covers
//! every committed id: published, an exception, in a parked range, in an open gap, or above the position.

mod begin;
mod draft;
mod exceptions;
mod loaded;
mod outs;
mod reading;
mod saved;
mod scan;
mod settle;
#[cfg(test)]
mod tests;
mod write;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use jiff::Timestamp;

use crate::gaps::{Check, ClosedGap, GapLedger, Look, Owner};
use crate::layout::RetryRuns;
use crate::route::Kind;
use crate::source::{Idle, SourceError};
use crate::{Fault, Key, limits};
use exceptions::Exceptions;
use outs::Outs;
use write::Ink;

pub use begin::{BACKWARDS, Begin, Found, Standing, TeamPosition, missing};
pub use draft::Draft;
pub use loaded::{Loaded, Offered, SETTLED, Taken, offer_all};
pub use reading::{RangeRead, Reading};
pub use saved::{Exception, ParkedRange, Saved, Shelf};
pub use scan::{Offer, Row, Scan, Scanned};
pub use write::Write;

/// What a cursor is told once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Whether a dead entry holds its key (`on_dead = "hold"`) or lets it go on.
    pub hold_dead: bool,
    /// Whether ids may commit out of order, so that gaps are kept.
    pub gaps: bool,
    /// Exceptions before nothing more is parked.
    pub exceptions_max: usize,
    /// Parked ranges before no further kind is parked.
    pub ranges_max: usize,
    /// Open gaps before reading on stops.
    pub gaps_max: usize,
    /// When due retries are looked for, and how many at once; none means with every reading (B8).
    pub retry_runs: Option<RetryRuns>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            hold_dead: true,
            gaps: true,
            exceptions_max: limits::PARKED_ENTRIES_MAX,
            ranges_max: limits::PARKED_RANGES_MAX,
            gaps_max: limits::GAPS_MAX,
            retry_runs: None,
        }
    }
}

/// How far a table was read, and all that did not go straight through.
#[derive(Clone, Debug)]
pub struct Cursor {
    settings: Settings,
    /// Rows up to here were looked at.
    read: i64,
    /// The highest id that was published since this cursor was loaded: nothing up to it is read twice.
    published: i64,
    claims: u64,
    out: Outs,
    /// Released rows that are to be read again by their ids.
    returned: BTreeMap<i64, Origin>,
    exceptions: Exceptions,
    /// Per parked kind: rows from here on have not been looked at since the kind was parked.
    lanes: BTreeMap<Arc<Kind>, i64>,
    ledger: GapLedger,
    /// Due retries are not looked for before this.
    next_run: Option<Timestamp>,
    full: bool,
    ink: Ink,
}

/// A row that was handed out and is not settled.
#[derive(Clone, Debug)]
struct Out {
    claim: u64,
    origin: Origin,
    key: OutKey,
    retries: u32,
}

/// The key of a row in hand, which is needed only if the row is kept beside the position.
#[derive(Clone, Debug)]
pub enum OutKey {
    /// It is this.
    Known(Option<Key>),
    /// It is to be found there, by the row's place.
    Later(Arc<dyn Keyed>, usize),
}

/// Finds the keys of rows that were not decoded yet.
pub trait Keyed: Send + Sync + std::fmt::Debug {
    /// The key of the row at this place.
    fn key(&self, at: usize) -> Option<Key>;
}

impl OutKey {
    /// A copy that keeps no batch alive.
    fn owned(&self) -> Option<Key> {
        match self {
            Self::Known(key) => key.as_ref().map(Key::owned),
            Self::Later(keyed, at) => keyed.key(*at).as_ref().map(Key::owned),
        }
    }
}

/// What answers for a row in the database until it is settled.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Origin {
    /// The position stays before it.
    New,
    /// Its exception.
    Exception,
    /// The parked range of its kind.
    Range(Arc<Kind>),
    /// The gap it was seen in.
    Gap,
}

impl Cursor {
    /// Starts from what was persisted.
    #[must_use]
    pub fn load(saved: Saved, settings: Settings) -> Self {
        let mut ink = Ink::new(&saved);
        // What lies above will be read, and noted, again; as it stands it must not outlive the next position.
        if saved.gaps.iter().any(|gap| *gap.end() > saved.position) {
            ink.gaps_changed();
        }
        let below = |ids: &RangeInclusive<i64>| {
            (*ids.start() <= saved.position).then(|| *ids.start()..=*ids.end().min(&saved.position))
        };
        let mut ledger = GapLedger::default();
        let watched = saved
            .closed
            .iter()
            .filter_map(|ClosedGap { ids, at }| Some(ClosedGap { ids: below(ids)?, at: *at }));
        ledger.watch(watched);
        let above = saved.closed.iter().filter(|closed| *closed.ids.end() > saved.position);
        ink.closed_changed(above.map(|closed| *closed.ids.start()));
        saved.gaps.iter().filter_map(below).for_each(|gap| ledger.note(gap));
        Self {
            settings,
            read: saved.position,
            published: saved.position,
            claims: 0,
            out: Outs::default(),
            returned: BTreeMap::new(),
            ledger,
            exceptions: Exceptions::new(saved.exceptions, settings.hold_dead),
            lanes: saved.ranges.into_iter().map(|range| (Arc::new(range.kind), range.first)).collect(),
            next_run: None,
            full: false,
            ink,
        }
    }

    /// Takes over what an operator's verb changed in the database: call it before a reading and before settling, in the
    /// same transaction, whenever a verb ran since. What is out stays out, and what became of a row and is yet to be written
    /// wins; a scan's parking does not, because nothing became of that row.
    pub fn reload(&mut self, exceptions: Vec<Exception>) {
        let all = self.exceptions.drain();
        let unwritten: BTreeMap<i64, Exception> = all
            .filter(|exception| self.ink.is_unwritten(exception.id))
            .map(|exception| (exception.id, exception))
            .collect();
        let parked = |id| unwritten.get(&id).is_some_and(|exception| exception.shelf == Shelf::Parked);
        let changed: Vec<Exception> = exceptions
            .into_iter()
            .filter(|exception| !self.ink.is_unwritten(exception.id) || parked(exception.id))
            .collect();
        self.exceptions = Exceptions::new(unwritten.into_values().chain(changed), self.settings.hold_dead);
    }

    /// Refuses to go on when the table's highest id ever, as the database tells it, lies below what was read.
    ///
    /// # Errors
    /// [`SourceError::Broken`] when ids went backwards: a restore, a failover, a truncated table.
    pub fn verify(&self, highest: i64) -> Result<(), SourceError> {
        if highest >= self.read {
            return Ok(());
        }
        Err(SourceError::Broken(Fault::new(
            "outbox",
            format!("ids went backwards: rows up to id {} were read, the table is at {highest}", self.read),
            "the table was restored, truncated or its sequence reset: compare it with what was published, then set \
             start = \"beginning\", \"now\" or an id",
        )))
    }

    /// Taken before the database is asked who is alive; none while no gap is open.
    pub fn look(&mut self) -> Option<Look> {
        (!self.ledger.is_empty()).then(|| self.ledger.look())
    }

    /// Takes the owners that were alive after `look`; hand the check to the next [`Cursor::reading`].
    pub fn check(&mut self, look: Look, alive: impl IntoIterator<Item = Owner>) -> Check {
        self.ledger.check(look, alive)
    }

    /// Who may fill gaps goes by other names from now on: all that are open get their owners anew.
    pub fn forget_owners(&mut self) {
        self.ledger.forget_owners();
    }

    /// Why nothing is handed out.
    #[must_use]
    pub fn idle(&self, now: Timestamp) -> Idle {
        Idle {
            more: false,
            due_in: self
                .exceptions
                .next_due()
                .map(|due| self.next_run.map_or(due, |run| run.max(due)))
                .map(|due| now.duration_until(due).try_into().unwrap_or_default()),
            due: self.exceptions.next_due().is_some_and(|due| due <= now),
            gaps_open: self.ledger.ids_open(),
            full: self.full,
            elsewhere: false,
        }
    }

    /// Rows that appeared where a gap had been closed (`late_after_close`).
    #[must_use]
    pub fn late_after_close(&self) -> u64 {
        self.ledger.late_after_close()
    }

    /// Everything up to here is published or kept beside the position.
    #[must_use]
    pub fn position(&self) -> i64 {
        let out = self.out.iter().find(|(_, out)| out.origin == Origin::New).map(|(id, _)| id);
        let returned = self.returned.iter().find(|(_, origin)| **origin == Origin::New).map(|(id, _)| *id);
        let lowest = [out, returned].into_iter().flatten().min();
        lowest.map_or(self.read, |lowest| lowest.saturating_sub(1).min(self.read))
    }
}
