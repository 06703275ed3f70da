//! What a relay holds back, and how a claim asks for it row by row.

use std::collections::{HashMap, HashSet};

use super::{Destination, Kind, Router};
use crate::{Entry, Key, Text};

/// What a relay holds back at the moment: keys that it has yet to settle, and destinations whose breaker is not closed.
#[derive(Clone, Debug, Default)]
pub struct Holds {
    /// Keys with an entry whose failure is not settled yet.
    pub keys: HashSet<Key>,
    /// How many entries may go to a destination: zero while its breaker is open, a few while it is tried.
    pub allowances: HashMap<Destination, u32>,
    /// How many may go to any topic of a sink.
    pub sink_allowances: HashMap<Text, u32>,
    /// Whether the only sink is being tried: what is behind its key is left unread until that is trusted again.
    pub all_on_trial: bool,
}

/// Why an entry is not handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// Its key is held: park it by (key, id).
    Key,
    /// Its route is held: park its kind as a range.
    Route,
}

/// Holds as one claim asks them: allowances are used up as entries pass.
#[derive(Debug)]
pub struct Gate<'a> {
    holds: &'a Holds,
    router: &'a Router,
    passed: HashMap<Destination, u32>,
    passed_by_sink: HashMap<Text, u32>,
}

impl<'a> Gate<'a> {
    /// A gate for one claim.
    #[must_use]
    pub fn new(holds: &'a Holds, router: &'a Router) -> Self {
        Self { holds, router, passed: HashMap::new(), passed_by_sink: HashMap::new() }
    }

    /// Whether an entry may be handed out now; if so, it is counted.
    ///
    /// # Errors
    /// Why it is held.
    pub fn pass(&mut self, entry: &Entry) -> Result<(), Hold> {
        self.pass_by(entry.key.as_ref(), || Kind::of(&entry.envelope))
    }

    /// The same by what decides it; the kind is asked for only if it matters.
    ///
    /// # Errors
    /// Why it is held.
    pub fn pass_by(&mut self, key: Option<&Key>, kind: impl FnOnce() -> Kind) -> Result<(), Hold> {
        if key.is_some_and(|key| self.holds_key(key)) {
            return Err(Hold::Key);
        }
        if self.routes_free() {
            return Ok(());
        }
        self.pass_kind(&kind())
    }

    /// Whether anything of a kind may be handed out now, without counting it.
    #[must_use]
    pub fn open(&self, kind: &Kind) -> bool {
        if self.routes_free() {
            return true;
        }
        // What has no route goes nowhere: it passes, and the relay buries it with the reason.
        self.router.route(kind).map_or(true, |to| self.left(&to) > 0)
    }

    /// Whether a kind's destination is away or being tried, so that it takes a few entries at most.
    #[must_use]
    pub fn tries(&self, kind: &Kind) -> bool {
        let is_tried = |to: Destination| {
            self.holds.allowances.contains_key(&to) || self.holds.sink_allowances.contains_key(&to.sink)
        };
        !self.routes_free() && self.router.route(kind).is_ok_and(is_tried)
    }

    /// Whether the only sink is being tried.
    #[must_use]
    pub fn tries_all(&self) -> bool {
        self.holds.all_on_trial
    }

    /// Whether a key is held.
    #[must_use]
    pub fn holds_key(&self, key: &Key) -> bool {
        self.holds.keys.contains(key)
    }

    /// Whether any key is held.
    #[must_use]
    pub fn holds_keys(&self) -> bool {
        !self.holds.keys.is_empty()
    }

    fn routes_free(&self) -> bool {
        self.holds.allowances.is_empty() && self.holds.sink_allowances.is_empty()
    }

    fn left(&self, to: &Destination) -> u32 {
        let topic = self.holds.allowances.get(to).map(|most| most.saturating_sub(count(&self.passed, to)));
        let sink = self
            .holds
            .sink_allowances
            .get(&to.sink)
            .map(|most| most.saturating_sub(count(&self.passed_by_sink, &to.sink)));
        topic.unwrap_or(u32::MAX).min(sink.unwrap_or(u32::MAX))
    }

    fn pass_kind(&mut self, kind: &Kind) -> Result<(), Hold> {
        let Ok(to) = self.router.route(kind) else { return Ok(()) };
        if self.left(&to) == 0 {
            return Err(Hold::Route);
        }
        *self.passed_by_sink.entry(to.sink.clone()).or_default() += 1;
        *self.passed.entry(to).or_default() += 1;
        Ok(())
    }
}

fn count<K: std::hash::Hash + Eq>(passed: &HashMap<K, u32>, key: &K) -> u32 {
    passed.get(key).copied().unwrap_or(0)
}
