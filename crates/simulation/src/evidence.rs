//! What is left when a world has ended: the checkers look at nothing else.

use std::collections::HashMap;

use postrider_core::State;

use crate::scenario::Scenario;

/// What writers wrote, what the broker has, what the outbox says.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// How the world was made.
    pub scenario: Scenario,
    /// Every event that a writer tried to append.
    pub written: Vec<Written>,
    /// What the broker accepted, in the order in which it did.
    pub accepted: Vec<Accepted>,
    /// How often a message failed through its own fault, by event.
    pub own_failures: HashMap<String, u32>,
    /// What the outbox says in the end, by event.
    pub stored: HashMap<String, Stored>,
    /// The most bytes that a relay held.
    pub bytes_held_most: usize,
    /// The largest entry.
    pub entry_bytes_most: usize,
    /// Entries that were in two hands at once, in words.
    pub overlaps: Vec<String>,
    /// Relays that ended with an error, in words.
    pub failures: Vec<String>,
    /// Every step in words, where it was asked for.
    pub steps: Vec<String>,
    /// Whether everything was done before the world ended.
    pub finished: bool,
}

/// An event that a writer tried to append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The event's id.
    pub event: String,
    /// Its key.
    pub key: String,
    /// Its topic.
    pub topic: String,
    /// Its place within its key.
    pub place: u64,
    /// Whether it was committed.
    pub committed: bool,
    /// Whether the broker can never take it.
    pub poison: bool,
}

/// A message that the broker accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The event's id.
    pub event: String,
    /// Its topic.
    pub topic: String,
    /// Which relay sent it.
    pub relay: String,
    /// A hash of its bytes.
    pub bytes: u64,
}

/// What the outbox says of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Its state.
    pub state: State,
    /// Retries scheduled.
    pub retries: u32,
}

impl Evidence {
    /// Events that the broker has, each at its first appearance.
    pub fn firsts(&self) -> impl Iterator<Item = &Accepted> {
        let mut seen = std::collections::HashSet::new();
        self.accepted.iter().filter(move |accepted| seen.insert(&accepted.event))
    }

    /// Events that were committed.
    pub fn committed(&self) -> impl Iterator<Item = &Written> {
        self.written.iter().filter(|written| written.committed)
    }

    /// What was written, by event.
    #[must_use]
    pub fn by_event(&self) -> HashMap<&str, &Written> {
        self.written.iter().map(|written| (&*written.event, written)).collect()
    }
}
