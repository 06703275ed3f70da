//! Closed gaps, read again for a day: what still appears there drew its id outside the INSERT.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::time::Duration;

use jiff::Timestamp;

use crate::limits::CLOSED_GAPS_MAX;

/// When a closed range is read again, counted from its closing.
const AGAIN_AFTER: [Duration; 4] = [
    Duration::from_secs(60),
    Duration::from_secs(600),
    Duration::from_secs(3_600),
    Duration::from_secs(86_400),
];

/// Ids that were given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClosedGap {
    /// The ids.
    pub ids: RangeInclusive<i64>,
    /// When, by the database's clock.
    pub at: Timestamp,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Net {
    closed: BTreeMap<i64, Closed>,
    due: BTreeSet<(Timestamp, i64)>,
    /// The first ids of ranges that came, went or grew.
    pub(super) changed: BTreeSet<i64>,
    pub(super) late: u64,
    pub(super) unwatched: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Closed {
    last: i64,
    at: Timestamp,
    looks: usize,
}

impl Closed {
    fn due(&self) -> Timestamp {
        self.at.saturating_add(AGAIN_AFTER[self.looks]).unwrap_or(Timestamp::MAX)
    }
}

impl Net {
    /// How often it was looked at is not known any more: once too often does no harm.
    pub(super) fn watch(&mut self, closed: &ClosedGap) {
        if self.closed.len() < CLOSED_GAPS_MAX {
            self.put(*closed.ids.start(), Closed { last: *closed.ids.end(), at: closed.at, looks: 0 });
        } else {
            self.unwatched += 1;
        }
    }

    pub(super) fn get(&self, first: i64) -> Option<ClosedGap> {
        self.closed.get(&first).map(|closed| ClosedGap { ids: first..=closed.last, at: closed.at })
    }

    pub(super) fn close(&mut self, first: i64, last: i64, at: Timestamp) {
        let fresh = Closed { last, at, looks: 0 };
        let before = self.closed.range(..first).next_back().map(|(start, closed)| (*start, *closed));
        match before {
            Some((start, closed)) if closed == (Closed { last: first - 1, ..fresh }) => {
                self.change(start, Some(fresh));
            }
            _ if self.closed.len() >= CLOSED_GAPS_MAX => self.unwatched += 1,
            _ => self.change(first, Some(fresh)),
        }
    }

    /// Stops watching a range: it is open again.
    pub(super) fn forget(&mut self, first: i64, last: i64) {
        while let Some((start, closed)) = self.closed.range(..=last).next_back().map(|(f, c)| (*f, *c)) {
            if closed.last < first {
                break;
            }
            self.split(start, &closed, first, last);
        }
    }

    pub(super) fn contains(&self, id: i64) -> bool {
        self.around(id).is_some()
    }

    /// Takes an id out that has appeared after all.
    pub(super) fn found(&mut self, id: i64) -> bool {
        let Some((first, closed)) = self.around(id) else { return false };
        self.split(first, &closed, id, id);
        self.late += 1;
        true
    }

    pub(super) fn due(&self, now: Timestamp) -> Vec<RangeInclusive<i64>> {
        let due = self.due.iter().take_while(|(due, _)| *due <= now);
        due.filter_map(|(_, first)| self.closed.get(first).map(|closed| *first..=closed.last)).collect()
    }

    pub(super) fn looked_again(&mut self, asked_at: Timestamp, through: i64) {
        let due: Vec<i64> =
            self.due.iter().take_while(|(due, _)| *due <= asked_at).map(|(_, first)| *first).collect();
        for first in due {
            let Some(closed) = self.closed.get(&first).copied().filter(|closed| closed.last <= through)
            else {
                continue;
            };
            // Looks that were missed while nobody ran are made up for by one.
            let due = |looks: &usize| Closed { looks: *looks, ..closed }.due() > asked_at;
            match (closed.looks + 1..AGAIN_AFTER.len()).find(due) {
                Some(looks) => {
                    self.drop_range(first, &closed);
                    self.put(first, Closed { looks, ..closed });
                }
                None => self.change(first, None),
            }
        }
    }

    fn around(&self, id: i64) -> Option<(i64, Closed)> {
        let (first, closed) = self.closed.range(..=id).next_back()?;
        (closed.last >= id).then_some((*first, *closed))
    }

    /// Takes ids out of a range that was closed.
    fn split(&mut self, start: i64, closed: &Closed, first: i64, last: i64) {
        self.change(start, (start < first).then(|| Closed { last: first - 1, ..*closed }));
        if last < closed.last {
            self.change(last + 1, Some(*closed));
        }
    }

    /// What is to be persisted.
    fn change(&mut self, first: i64, closed: Option<Closed>) {
        if let Some(before) = self.closed.get(&first).copied() {
            self.drop_range(first, &before);
        }
        if let Some(closed) = closed {
            self.put(first, closed);
        }
        self.changed.insert(first);
    }

    fn put(&mut self, first: i64, closed: Closed) {
        self.due.insert((closed.due(), first));
        self.closed.insert(first, closed);
    }

    fn drop_range(&mut self, first: i64, closed: &Closed) {
        self.due.remove(&(closed.due(), first));
        self.closed.remove(&first);
    }
}
