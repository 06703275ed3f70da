//! What a broker is like, and what can go wrong with it.

use std::collections::BTreeSet;
use std::time::Duration;

use postrider_core::{Text, limits};

/// What does not change while a broker lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Partitions of each topic.
    pub partitions: u32,
    /// What the sinks say of themselves.
    pub ordered_stream: bool,
    /// Calls under way at once.
    pub calls_max: usize,
    /// Messages that a call attempts before it waits for their answers.
    pub window_entries: usize,
    /// A longer payload is rejected.
    pub payload_bytes_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            partitions: 3,
            ordered_stream: true,
            calls_max: limits::PUBLISHES_OPEN_MAX,
            window_entries: 64,
            payload_bytes_max: limits::PAYLOAD_BYTES,
        }
    }
}

/// Faults by their probability. The default has none: the broker is then an in-memory sink.
///
/// What travels together to one partition in one call is a parcel.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faults {
    /// The longest time that a parcel takes there and back; each is drawn, so that answers of different keys overtake each
    /// other.
    pub latency_max: Duration,
    /// How often a parcel is slow.
    pub slow: f64,
    /// How much longer a slow parcel takes, at most, on its way there or back.
    pub slow_max: Duration,
    /// How often a parcel's reply is lost after the write: `Unknown`, but in the log.
    pub reply_lost_after_write: f64,
    /// How often a parcel is lost before the write: `Unknown`, and not in the log.
    pub reply_lost_before_write: f64,
    /// Whether a loss may begin at any message of a parcel; otherwise it is the whole parcel.
    pub losses_partial: bool,
    /// How often one message is lost although its partition answers others.
    pub own_silence: f64,
    /// How often one message fails for a reason that passes.
    pub transient: f64,
    /// How often a partition has no leader when a parcel comes.
    pub partition_busy: f64,
    /// Events, by id, that are always rejected.
    pub poison: BTreeSet<Text>,
    /// Whether a poisoned event is rejected with its whole parcel, so that the culprit is not known.
    pub poison_in_company: bool,
}

/// A broker, or a part of it, that is away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outage {
    /// One topic, or everything.
    pub topic: Option<Text>,
    /// Whether nobody answers; otherwise messages are refused as busy.
    pub silent: bool,
}

impl Outage {
    /// Everything refuses.
    #[must_use]
    pub fn whole() -> Self {
        Self { topic: None, silent: false }
    }

    /// One topic refuses.
    pub fn of_topic(topic: impl Into<Text>) -> Self {
        Self { topic: Some(topic.into()), silent: false }
    }

    /// The same, but without an answer.
    #[must_use]
    pub fn silently(mut self) -> Self {
        self.silent = true;
        self
    }

    pub(super) fn strikes(&self, topic: &str) -> bool {
        self.topic.as_deref().is_none_or(|struck| struck == topic)
    }
}
