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

#[derive(Clone, Debug, Default)]
pub(super) struct Net {
    closed: BTreeMap<i64, Closed>,
    due: BTreeSet<(Timestamp, i64)>,
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
    pub(super) fn close(&mut self, first: i64, last: i64, at: Timestamp) {
        let fresh = Closed { last, at, looks: 0 };
        let before = self.closed.range(..first).next_back().map(|(start, closed)| (*start, *closed));
        match before {
            Some((start, closed)) if closed == (Closed { last: first - 1, ..fresh }) => {
                self.put(start, fresh);
            }
            _ if self.closed.len() >= CLOSED_GAPS_MAX => self.unwatched += 1,
            _ => self.put(first, fresh),
        }
    }

    /// Stops watching a range: it is open again.
    pub(super) fn forget(&mut self, first: i64, last: i64) {
        while let Some((start, closed)) = self.closed.range(..=last).next_back().map(|(f, c)| (*f, *c)) {
            if closed.last < first {
                break;
            }
            self.drop_range(start, &closed);
            if start < first {
                self.put(start, Closed { last: first - 1, ..closed });
            }
            if last < closed.last {
                self.put(last + 1, closed);
            }
        }
    }

    pub(super) fn contains(&self, id: i64) -> bool {
        self.around(id).is_some()
    }

    /// Takes an id out that has appeared after all.
    pub(super) fn found(&mut self, id: i64) -> bool {
        let Some((first, closed)) = self.around(id) else { return false };
        self.drop_range(first, &closed);
        if first < id {
            self.put(first, Closed { last: id - 1, ..closed });
        }
        if id < closed.last {
            self.put(id + 1, closed);
        }
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
            self.drop_range(first, &closed);
            if closed.looks + 1 < AGAIN_AFTER.len() {
                self.put(first, Closed { looks: closed.looks + 1, ..closed });
            }
        }
    }

    fn around(&self, id: i64) -> Option<(i64, Closed)> {
        let (first, closed) = self.closed.range(..=id).next_back()?;
        (closed.last >= id).then_some((*first, *closed))
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
