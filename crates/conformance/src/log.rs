//! What many writers committed and what a reader saw of it, for tests of late commits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What was committed, and what a reader saw.
#[derive(Debug, Default)]
pub struct Log {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    committed: BTreeSet<i64>,
    seen: Vec<Seen>,
    /// What a relay had in its hands when it died.
    died_with: BTreeSet<i64>,
}

/// A row as a reader saw it: its id, its key and the key's version.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Its id.
    pub id: i64,
    /// Its key.
    pub key: String,
    /// The key's version.
    pub version: i64,
}

impl Log {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// These were committed.
    pub fn commit(&self, ids: &[i64]) {
        self.inner().committed.extend(ids);
    }

    /// These were seen.
    pub fn see(&self, seen: impl IntoIterator<Item = Seen>) {
        self.inner().seen.extend(seen);
    }

    /// A relay died with these in its hands.
    pub fn die(&self, ids: impl IntoIterator<Item = i64>) {
        self.inner().died_with.extend(ids);
    }

    /// How often something was seen again, and what of it nobody died with.
    #[must_use]
    pub fn repeated(&self) -> (usize, Vec<i64>) {
        let inner = self.inner();
        let mut known = BTreeSet::new();
        let again = inner.seen.iter().map(|seen| seen.id).filter(|id| !known.insert(*id)).collect::<Vec<_>>();
        let unexplained = again.iter().copied().filter(|id| !inner.died_with.contains(id)).collect();
        (again.len(), unexplained)
    }

    /// What was committed and never seen.
    #[must_use]
    pub fn lost(&self) -> Vec<i64> {
        let inner = self.inner();
        let seen: BTreeSet<i64> = inner.seen.iter().map(|seen| seen.id).collect();
        inner.committed.difference(&seen).copied().collect()
    }

    /// What was seen and never committed.
    #[must_use]
    pub fn ghosts(&self) -> Vec<i64> {
        let inner = self.inner();
        inner.seen.iter().map(|seen| seen.id).filter(|id| !inner.committed.contains(id)).collect()
    }

    /// Of locked keys, what came before its predecessor. A repetition is none.
    #[must_use]
    pub fn inverted(&self) -> Vec<Seen> {
        let mut last: BTreeMap<String, i64> = BTreeMap::new();
        let mut inverted = Vec::new();
        for seen in self.inner().seen.iter().filter(|seen| seen.key.starts_with('k')) {
            let before = last.entry(seen.key.clone()).or_default();
            match seen.version - *before {
                1 => *before = seen.version,
                ..=0 => {}
                _ => inverted.push(seen.clone()),
            }
        }
        inverted
    }
}

/// A small generator: the same chances in every run.
#[derive(Debug)]
pub struct Chance(u64);

impl Chance {
    /// One for each seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next number below a bound.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}
