//! Ids that a cursor passed without seeing them: they may still commit.
//!
//! A gap closes only when no transaction that was alive after it was noted is alive any more, and a read made after that
//! check does not show it. The types force that order: [`GapLedger::look`], ask who is alive, [`GapLedger::check`], read,
//! [`GapLedger::conclude`].

mod net;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::RangeInclusive;
use std::sync::Arc;

use jiff::Timestamp;

use crate::Text;
pub use net::ClosedGap;
use net::Net;

/// A transaction that may have drawn ids: PostgreSQL's virtual transaction, MySQL's (thread, start).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner {
    /// Who: opaque to the ledger.
    pub name: Text,
    /// Tells apart two owners that bear one name after each other.
    pub epoch: u64,
}

/// Ranges of ids that were passed unseen, with those who may still fill them.
///
/// ```
/// use jiff::Timestamp;
/// use postrider_core::gaps::GapLedger;
/// let mut ledger = GapLedger::default();
/// ledger.note(3..=4);
/// let look = ledger.look();
/// let check = ledger.check(look, []); // nobody is alive: 3 and 4 are visible now, or never
/// ledger.seen(4); // the read after the check shows 4
/// ledger.conclude(check, &[4], i64::MAX, Timestamp::UNIX_EPOCH);
/// assert_eq!(ledger.ids_open(), 0);
/// ```
#[derive(Clone, Debug, Default)]
pub struct GapLedger {
    open: BTreeMap<i64, Gap>,
    looks: u64,
    net: Net,
}

#[derive(Clone, Debug)]
struct Gap {
    last: i64,
    /// Looks taken before it was noted: a look that is older knows nothing of its owners.
    noted: u64,
    owners: Option<Arc<BTreeSet<Owner>>>,
}

/// A moment before the living owners are asked for.
#[derive(Debug)]
#[must_use = "ask for the living owners now, then check"]
pub struct Look(u64);

/// Gaps that nobody alive can fill any more: what the next read does not show is closed.
#[derive(Clone, Debug)]
#[must_use = "read, then conclude"]
pub struct Check {
    look: u64,
    closable: Vec<RangeInclusive<i64>>,
}

impl GapLedger {
    /// What was persisted. Who may fill it is not known any more: it stays open until owners are noted anew.
    pub fn load(saved: impl IntoIterator<Item = RangeInclusive<i64>>) -> Self {
        let mut ledger = Self::default();
        saved.into_iter().for_each(|range| ledger.note(range));
        ledger
    }

    /// Watches ranges again that were closed before: what was due meanwhile is looked at first.
    pub fn watch(&mut self, closed: impl IntoIterator<Item = ClosedGap>) {
        closed.into_iter().for_each(|closed| self.net.watch(&closed));
    }

    /// The closed range that begins here, if one is watched.
    #[must_use]
    pub fn closed_at(&self, first: i64) -> Option<ClosedGap> {
        self.net.get(first)
    }

    /// Where closed ranges began or begin that have changed since this was last asked: what is to be persisted of them.
    pub fn closed_changed(&mut self) -> impl Iterator<Item = i64> {
        std::mem::take(&mut self.net.changed).into_iter()
    }

    /// What is to be persisted of what is open.
    #[must_use]
    pub fn saved(&self) -> Vec<RangeInclusive<i64>> {
        merged(self.open.iter().map(|(first, gap)| *first..=gap.last))
    }

    /// Notes ids that were passed unseen; what is open already keeps its owners.
    pub fn note(&mut self, range: RangeInclusive<i64>) {
        let (mut next, last) = (*range.start(), *range.end());
        self.net.forget(next, last);
        let known: Vec<_> = self.touching(next, last).map(|(first, gap)| (first, gap.last)).collect();
        for (known_first, known_last) in known.into_iter().rev() {
            if next < known_first {
                self.insert(next, known_first - 1, self.looks, None);
            }
            next = next.max(known_last.saturating_add(1));
        }
        if next <= last {
            self.insert(next, last, self.looks, None);
        }
    }

    /// Takes an id out: it has been seen, and somebody else answers for it now. Says whether it was here.
    pub fn seen(&mut self, id: i64) -> bool {
        let open = self.contains(id);
        self.cut(id, id);
        self.net.found(id) || open
    }

    /// Whether an id is open, or closed and still watched.
    #[must_use]
    pub fn watches(&self, id: i64) -> bool {
        self.contains(id) || self.net.contains(id)
    }

    /// Forgets every gap above an id: it will be read, and noted, again.
    pub fn forget_above(&mut self, id: i64) {
        self.cut(id.saturating_add(1), i64::MAX);
    }

    /// What the next read must ask for: open gaps, and closed ones whose time has come to be looked at again.
    #[must_use]
    pub fn asked(&self, now: Timestamp) -> Vec<RangeInclusive<i64>> {
        let mut ranges = self.saved();
        let due = self.net.due(now);
        if !due.is_empty() {
            ranges.extend(due);
            ranges.sort_by_key(|range| *range.start());
            ranges = merged(ranges);
        }
        ranges
    }

    /// Taken *before* the living owners are asked for, so that no gap gets owners from before it was noted.
    pub fn look(&mut self) -> Look {
        self.looks += 1;
        Look(self.looks - 1)
    }

    /// Takes the owners found alive after `look`: a gap without owners gets them, the others lose those that ended.
    pub fn check(&mut self, look: Look, alive: impl IntoIterator<Item = Owner>) -> Check {
        let alive = Arc::new(alive.into_iter().collect::<BTreeSet<_>>());
        let mut left: HashMap<*const BTreeSet<Owner>, Arc<BTreeSet<Owner>>> = HashMap::new();
        let mut closable = Vec::new();
        for (first, gap) in &mut self.open {
            match &mut gap.owners {
                Some(owners) => {
                    let still = left
                        .entry(Arc::as_ptr(owners))
                        .or_insert_with(|| Arc::new(owners.intersection(&alive).cloned().collect()));
                    *owners = Arc::clone(still);
                }
                None if gap.noted <= look.0 => gap.owners = Some(Arc::clone(&alive)),
                None => {}
            }
            if gap.owners.as_ref().is_some_and(|owners| owners.is_empty()) {
                closable.push(*first..=gap.last);
            }
        }
        self.coalesce();
        Check { look: look.0, closable }
    }

    /// Forgets who may fill what is open: the database calls them by other names from now on. It stays open until owners are
    /// noted anew.
    pub fn forget_owners(&mut self) {
        for gap in self.open.values_mut() {
            gap.owners = None;
        }
    }

    /// Closes what the check found ownerless and the read that followed it does not show. `ids_seen` are the ids that
    /// the read showed; it was complete up to `through`.
    pub fn conclude(&mut self, check: Check, ids_seen: &[i64], through: i64, now: Timestamp) {
        let seen: BTreeSet<i64> = ids_seen.iter().copied().collect();
        for range in check.closable {
            let last = (*range.end()).min(through);
            let closed: Vec<_> = self
                .touching(*range.start(), last)
                .filter(|(_, gap)| gap.noted <= check.look)
                .map(|(first, gap)| (first.max(*range.start()), gap.last.min(last)))
                .collect();
            for (first, last) in closed {
                without(first, last, &seen).for_each(|(first, last)| {
                    self.cut(first, last);
                    self.net.close(first, last, now);
                });
            }
        }
    }

    /// Closed ranges that a read, asked at `asked_at` and complete up to `through`, has looked at again.
    pub fn looked_again(&mut self, asked_at: Timestamp, through: i64) {
        self.net.looked_again(asked_at, through);
    }

    /// Ranges that are open.
    #[must_use]
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Whether nothing is open.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Ids that may still commit.
    #[must_use]
    pub fn ids_open(&self) -> u64 {
        self.open.iter().map(|(first, gap)| gap.last.abs_diff(*first) + 1).sum()
    }

    /// Rows that appeared where a gap had been closed: somebody draws ids before the INSERT.
    #[must_use]
    pub fn late_after_close(&self) -> u64 {
        self.net.late
    }

    /// Closed ranges that are not watched because there are too many.
    #[must_use]
    pub fn unwatched(&self) -> u64 {
        self.net.unwatched
    }

    fn contains(&self, id: i64) -> bool {
        self.open.range(..=id).next_back().is_some_and(|(_, gap)| gap.last >= id)
    }

    /// Gaps that share an id with the range, the highest first.
    fn touching(&self, first: i64, last: i64) -> impl Iterator<Item = (i64, &Gap)> {
        let below = (first <= last).then(|| self.open.range(..=last).rev()).into_iter().flatten();
        below.take_while(move |(_, gap)| gap.last >= first).map(|(first, gap)| (*first, gap))
    }

    fn cut(&mut self, first: i64, last: i64) {
        let hit: Vec<i64> = self.touching(first, last).map(|(first, _)| first).collect();
        for start in hit {
            let Some(gap) = self.open.remove(&start) else { continue };
            if start < first {
                self.insert(start, first - 1, gap.noted, gap.owners.clone());
            }
            if gap.last > last {
                self.insert(last + 1, gap.last, gap.noted, gap.owners);
            }
        }
    }

    fn insert(&mut self, first: i64, last: i64, noted: u64, owners: Option<Arc<BTreeSet<Owner>>>) {
        self.open.insert(first, Gap { last, noted, owners });
    }

    /// Neighbours with the same owners become one range.
    fn coalesce(&mut self) {
        let mut whole: BTreeMap<i64, Gap> = BTreeMap::new();
        for (first, gap) in std::mem::take(&mut self.open) {
            match whole.last_entry() {
                Some(mut before) if before.get().joins(first, &gap) => {
                    let before = before.get_mut();
                    before.last = gap.last;
                    before.noted = before.noted.max(gap.noted);
                }
                _ => drop(whole.insert(first, gap)),
            }
        }
        self.open = whole;
    }
}

impl Gap {
    fn joins(&self, first: i64, next: &Self) -> bool {
        // Unowned gaps of different looks stay apart: the older one may get its owners earlier.
        let alike = if self.owners.is_none() { self.noted == next.noted } else { true };
        self.last.checked_add(1) == Some(first) && alike && self.owners == next.owners
    }
}

/// Sorted ranges, neighbours joined.
pub(crate) fn merged(ranges: impl IntoIterator<Item = RangeInclusive<i64>>) -> Vec<RangeInclusive<i64>> {
    let mut whole: Vec<RangeInclusive<i64>> = Vec::new();
    for range in ranges {
        match whole.last_mut() {
            Some(before) if before.end().saturating_add(1) >= *range.start() => {
                *before = *before.start()..=*before.end().max(range.end());
            }
            _ => whole.push(range),
        }
    }
    whole
}

/// The parts of a range that hold none of the ids.
fn without(first: i64, last: i64, ids: &BTreeSet<i64>) -> impl Iterator<Item = (i64, i64)> {
    let mut start = first;
    let mut parts = Vec::new();
    if first <= last {
        for id in ids.range(first..=last) {
            parts.push((start, id - 1));
            start = id + 1;
        }
        parts.push((start, last));
    }
    parts.into_iter().filter(|(first, last)| first <= last)
}
