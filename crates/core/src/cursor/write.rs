//! What is to be persisted: the difference between memory and the last write that succeeded.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use super::{Cursor, Exception, Origin, ParkedRange, Saved};
use crate::gaps::ClosedGap;

/// One transaction. Writing it twice changes nothing twice; writes are made one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The position.
    pub position: i64,
    /// All gaps, if they changed.
    pub gaps: Option<Vec<RangeInclusive<i64>>>,
    /// Closed gaps to insert or replace, by their first ids.
    pub closed: Vec<ClosedGap>,
    /// The first ids of closed gaps to delete, where they exist.
    pub reopened: Vec<i64>,
    /// Exceptions to insert or replace.
    pub upserts: Vec<Exception>,
    /// Exceptions to delete, where they exist.
    pub deletes: Vec<i64>,
    /// All parked ranges, if they changed.
    pub ranges: Option<Vec<ParkedRange>>,
    stamp: u64,
}

impl Write {
    /// Does to `saved` what the database does: for simulated ones, and for tests.
    pub fn apply(&self, saved: &mut Saved) {
        saved.position = self.position;
        if let Some(gaps) = &self.gaps {
            saved.gaps.clone_from(gaps);
        }
        if let Some(ranges) = &self.ranges {
            saved.ranges.clone_from(ranges);
        }
        let closed = |first: &i64| self.closed.iter().any(|closed| closed.ids.start() == first);
        saved.closed.retain(|known| !closed(known.ids.start()) && !self.reopened.contains(known.ids.start()));
        saved.closed.extend(self.closed.iter().cloned());
        let gone: BTreeSet<i64> =
            self.upserts.iter().map(|upsert| upsert.id).chain(self.deletes.iter().copied()).collect();
        saved.exceptions.retain(|exception| !gone.contains(&exception.id));
        saved.exceptions.extend(self.upserts.iter().cloned());
    }
}

/// What was written last, and what has changed since.
#[derive(Clone, Debug)]
pub(super) struct Ink {
    /// Counts writes: a change is done with once a write that began later has succeeded.
    stamp: u64,
    position: i64,
    ranges: Vec<ParkedRange>,
    gaps: Option<u64>,
    closed: BTreeMap<i64, u64>,
    exceptions: BTreeMap<i64, u64>,
}

impl Ink {
    pub(super) fn new(saved: &Saved) -> Self {
        let mut ranges = saved.ranges.clone();
        ranges.sort_by(|one, other| one.kind.cmp(&other.kind));
        let (closed, exceptions) = Default::default();
        Self { stamp: 0, position: saved.position, ranges, gaps: None, closed, exceptions }
    }

    pub(super) fn gaps_changed(&mut self) {
        self.gaps = Some(self.stamp);
    }

    pub(super) fn closed_changed(&mut self, firsts: impl IntoIterator<Item = i64>) {
        self.closed.extend(firsts.into_iter().map(|first| (first, self.stamp)));
    }

    pub(super) fn exception_changed(&mut self, id: i64) {
        self.exceptions.insert(id, self.stamp);
    }

    pub(super) fn is_unwritten(&self, id: i64) -> bool {
        self.exceptions.contains_key(&id)
    }
}

impl Cursor {
    /// What is to be persisted now, if anything. Ask after settling, and after a scan that handed nothing out.
    pub fn write(&mut self) -> Option<Write> {
        let position = self.position().max(self.ink.position);
        let ranges = self.parked_ranges();
        let ranges = (ranges != self.ink.ranges).then_some(ranges);
        let unchanged = self.ink.exceptions.is_empty() && self.ink.gaps.is_none() && ranges.is_none();
        if unchanged && position == self.ink.position {
            return None;
        }
        // A gap is closed, or found open after all, together with what is open; one that was watched for long enough goes with
        // whatever is written next.
        self.ink.closed_changed(self.ledger.closed_changed());
        let firsts = self.ink.closed.keys();
        let closed: Vec<ClosedGap> =
            firsts.clone().filter_map(|first| self.ledger.closed_at(*first)).collect();
        let reopened = firsts.filter(|first| self.ledger.closed_at(**first).is_none()).copied().collect();
        let ids = self.ink.exceptions.keys();
        let upserts = ids.clone().filter_map(|id| self.exceptions.get(*id)).collect();
        let deletes = ids.filter(|id| !self.exceptions.contains(**id)).copied().collect();
        let gaps = self.ink.gaps.map(|_| self.saved_gaps());
        let stamp = self.ink.stamp;
        let write = Write { position, gaps, closed, reopened, upserts, deletes, ranges, stamp };
        self.ink.stamp += 1;
        Some(write)
    }

    /// The write is durable. One that was not is made again by the next [`Cursor::write`].
    pub fn applied(&mut self, write: Write) {
        let ink = &mut self.ink;
        ink.position = ink.position.max(write.position);
        ink.exceptions.retain(|_, stamp| *stamp > write.stamp);
        ink.gaps = ink.gaps.filter(|stamp| *stamp > write.stamp);
        ink.closed.retain(|_, stamp| *stamp > write.stamp);
        ink.ranges = write.ranges.unwrap_or_else(|| std::mem::take(&mut ink.ranges));
    }

    /// Open gaps, and what was seen in one and is not settled.
    fn saved_gaps(&self) -> Vec<RangeInclusive<i64>> {
        let out = self.out.iter().filter(|(_, out)| out.origin == Origin::Gap).map(|(id, _)| id);
        let returned = self.returned.iter().filter(|(_, origin)| **origin == Origin::Gap).map(|(id, _)| *id);
        let mut gaps = self.ledger.saved();
        gaps.extend(out.chain(returned).map(|id| id..=id));
        gaps.sort_by_key(|gap| *gap.start());
        crate::gaps::merged(gaps)
    }

    /// Each parked kind from the first row that is not settled.
    fn parked_ranges(&self) -> Vec<ParkedRange> {
        if self.lanes.is_empty() {
            return Vec::new();
        }
        let mut firsts = self.lanes.clone();
        let out = self.out.iter().map(|(id, out)| (id, &out.origin));
        for (id, origin) in out.chain(self.returned.iter().map(|(id, origin)| (*id, origin))) {
            if let Origin::Range(kind) = origin
                && let Some(first) = firsts.get_mut(kind)
            {
                *first = id.min(*first);
            }
        }
        firsts.into_iter().map(|(kind, first)| ParkedRange { kind: (*kind).clone(), first }).collect()
    }
}
