//! What the relay lets the demo see: how many, how fast, which ones.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use postrider_core::clock::Clock;
use postrider_relay::{Observer, Step};

use super::latency::Latencies;
use crate::human::age;
use crate::log::Steps;

/// Arrivals that the view can show.
const RECENT_MAX: usize = 16;

/// Counts what arrives.
pub(crate) struct Tally {
    clock: Arc<dyn Clock>,
    seen: Mutex<Seen>,
}

#[derive(Clone, Default)]
pub(crate) struct Seen {
    pub(crate) published: u64,
    pub(crate) latencies: Latencies,
    /// The newest last.
    pub(crate) recent: VecDeque<Arrival>,
}

#[derive(Clone)]
pub(crate) struct Arrival {
    pub(crate) event_type: String,
    pub(crate) order: String,
    pub(crate) latency: Duration,
}

impl Tally {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, seen: Mutex::default() }
    }

    pub(crate) fn seen(&self) -> Seen {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Observer for Tally {
    fn saw(&self, step: &Step<'_>) {
        Steps::default().saw(step);
        let Step::Published { entry, .. } = step else { return };
        let latency = age(entry.envelope.time, self.clock.now());
        let mut seen = self.lock();
        seen.published += 1;
        seen.latencies.add(latency);
        if seen.recent.len() == RECENT_MAX {
            seen.recent.pop_front();
        }
        seen.recent.push_back(Arrival {
            event_type: entry.envelope.event_type.to_string(),
            order: entry.envelope.aggregate_id.to_string(),
            latency,
        });
    }
}
