//! Looks on while relays run.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use postrider_relay::{Observer, Step};

use crate::clock::Timeline;

/// Looks on: how much memory a relay holds, and how it ended.
#[derive(Default)]
pub(super) struct Watch {
    pub(super) timeline: Timeline,
    pub(super) bytes_held_most: AtomicUsize,
    pub(super) steps: Mutex<Vec<String>>,
    pub(super) traced: bool,
    pub(super) failures: Mutex<Vec<String>>,
}

impl Observer for Watch {
    fn saw(&self, step: &Step<'_>) {
        if let Step::Claimed { bytes_held, .. } = step {
            self.bytes_held_most.fetch_max(*bytes_held, Ordering::Relaxed);
        }
        if self.traced {
            self.note(format!("{step:?}"));
        }
    }
}

impl Watch {
    pub(super) fn fail(&self, why: &str) {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).push(why.to_string());
    }

    pub(super) fn note(&self, step: String) {
        let at = self.timeline.now().as_secs_f64();
        self.steps.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{at:10.4} {step}"));
    }
}
