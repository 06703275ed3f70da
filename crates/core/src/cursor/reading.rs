//! What one claim reads.

use std::ops::RangeInclusive;
use std::sync::Arc;

use jiff::Timestamp;

use super::{Cursor, Origin};
use crate::gaps::Check;
use crate::route::{Gate, Kind};

/// What to read: **one** statement, the union of all four parts, in id order, at most `limit` rows. A row that two parts
/// name may come twice.
#[derive(Debug)]
pub struct Reading {
    /// Rows with these ids, in order.
    pub ids: Vec<i64>,
    /// Rows in these ranges of ids.
    pub gaps: Vec<RangeInclusive<i64>>,
    /// Rows of these kinds in these ranges.
    pub ranges: Vec<RangeRead>,
    /// Rows above this id.
    pub after: i64,
    /// Rows at most.
    pub limit: usize,
    pub(super) now: Timestamp,
    pub(super) check: Option<Check>,
    pub(super) opened: Vec<Arc<Kind>>,
}

/// Rows of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeRead {
    /// The kind.
    pub kind: Kind,
    /// Ids from here.
    pub first: i64,
    /// Ids up to here.
    pub last: i64,
}

impl Cursor {
    /// What the next scan reads. `now` is the database's time; `check` was made before, so that what this reading does
    /// not show may be closed. A reading is scanned before the next one is made; settling in between does no harm.
    pub fn reading(
        &mut self,
        now: Timestamp,
        limit: usize,
        gate: &Gate<'_>,
        check: Option<Check>,
    ) -> Reading {
        self.wake(now);
        self.rewind();
        let opened: Vec<Arc<Kind>> = self.lanes.keys().filter(|kind| gate.open(kind)).cloned().collect();
        let ranges = opened.iter().map(|kind| RangeRead {
            kind: Kind::clone(kind),
            first: self.lanes[kind],
            last: self.read,
        });
        Reading {
            ids: self.ids(limit, gate),
            gaps: if self.settings.gaps { self.ledger.asked(now) } else { Vec::new() },
            ranges: ranges.filter(|range| range.first <= range.last).collect(),
            after: self.read,
            limit,
            now,
            check,
            opened,
        }
    }

    /// Finds what has become due; where retries are a job of their own, when that is to run.
    fn wake(&mut self, now: Timestamp) {
        match self.settings.retry_runs {
            None => {
                self.exceptions.wake(now, usize::MAX);
            }
            Some(_) if self.next_run.is_some_and(|run| now < run) => {}
            Some(runs) => {
                if self.exceptions.wake(now, runs.entries) > 0 {
                    self.next_run = now.checked_add(runs.every).ok();
                }
            }
        }
    }

    /// Rows that came back and have nothing behind them that is out or published are read as if for the first time:
    /// nothing was ever written for them.
    fn rewind(&mut self) {
        let top = self.out.last_id().map_or(self.published, |id| self.published.max(id));
        let Some(from) = top.checked_add(1) else { return };
        let fresh = self.returned.range(from..).find(|(_, origin)| **origin == Origin::New);
        let Some(first) = fresh.map(|(id, _)| *id) else { return };
        self.returned.split_off(&first);
        self.read = first.saturating_sub(1);
        self.ledger.forget_above(self.read);
        self.ink.gaps_changed();
    }

    fn ids(&self, limit: usize, gate: &Gate<'_>) -> Vec<i64> {
        let mut ids = self.exceptions.ready(limit, gate, |id| self.out.contains(id));
        // What lies above is read anyway.
        ids.retain(|id| *id <= self.read);
        // All of these, however many: one that were left out would be overtaken by a new row of its key.
        let again = self.returned.iter().filter(|(_, origin)| match origin {
            Origin::Range(kind) => gate.open(kind),
            _ => true,
        });
        ids.extend(again.map(|(id, _)| *id));
        ids.sort_unstable();
        ids.dedup();
        ids
    }
}
