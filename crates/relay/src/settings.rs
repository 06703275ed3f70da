//! What a relay can be told.

use std::time::Duration;

use postrider_core::layout::{Interval, Layout};
use postrider_core::{breaker, limits, retry};

/// How a relay runs. The defaults are what most want.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Entries in one claim and in one publish call.
    pub batch_entries: usize,
    /// Bytes held in claims at once.
    pub in_flight_bytes: usize,
    /// How long a publish call may take before what is unanswered is unknown.
    pub publish_deadline: Duration,
    /// How long verdicts may wait for company before they are settled.
    pub settle_linger: Duration,
    /// When to look for new entries.
    pub poll: Poll,
    /// What follows a failed try.
    pub retry: retry::Policy,
    /// When a sink or a topic is left alone.
    pub breaker: breaker::Settings,
    /// How long a stop may take.
    pub stop_timeout: Duration,
    /// Ends when nothing is left to do, or when the broker has been away for this long.
    pub until_empty: Option<Duration>,
}

/// When to look for new entries. A full claim is always followed by the next at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Poll {
    /// Soon after work, ever later without.
    Adaptive {
        /// The wait after a claim that brought something.
        busy: Duration,
        /// The longest wait; twice that after ten seconds without an entry.
        idle: Duration,
    },
    /// At the layout's own interval.
    Every(Duration),
}

impl Default for Poll {
    fn default() -> Self {
        Self::Adaptive { busy: Duration::from_millis(2), idle: Duration::from_millis(20) }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            batch_entries: limits::BATCH_ENTRIES,
            in_flight_bytes: limits::IN_FLIGHT_BYTES,
            publish_deadline: limits::PUBLISH_DEADLINE,
            settle_linger: Duration::from_millis(20),
            poll: Poll::default(),
            retry: retry::Policy::default(),
            breaker: breaker::Settings::default(),
            stop_timeout: limits::STOP_TIMEOUT,
            until_empty: None,
        }
    }
}

impl Settings {
    /// What a layout sets by itself: interval, batch and retries.
    #[must_use]
    pub fn of(layout: &Layout) -> Self {
        let poll = match layout.interval {
            Interval::Every(span) => Poll::Every(span),
            Interval::Adaptive => Poll::default(),
        };
        Self { batch_entries: layout.batch, poll, retry: layout.retry.clone(), ..Self::default() }
    }
}
