//! How long each slice of a backlog takes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use postrider_core::clock::{Clock, Instant};
use postrider_relay::{Observer, Step, Stop, SystemClock};

/// What the issues ask of the last slice, against the first.
pub(crate) const AT_LEAST: f64 = 0.9;
pub(crate) const SLICES: usize = 10;

/// Notes when each slice was published, and stops the relay behind the last.
pub(crate) struct Watch {
    clock: SystemClock,
    stop: Stop,
    slice: usize,
    published: AtomicUsize,
    marks: Mutex<Vec<Instant>>,
}

impl Watch {
    pub(crate) fn new(stop: &Stop, pending: usize) -> Self {
        Self {
            clock: SystemClock::new(),
            stop: stop.clone(),
            slice: pending / SLICES,
            published: AtomicUsize::new(0),
            marks: Mutex::default(),
        }
    }

    /// In seconds.
    pub(crate) fn spans(&self) -> Vec<f64> {
        let marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        marks.windows(2).map(|pair| pair[1].since(pair[0]).as_secs_f64()).collect()
    }
}

impl Observer for Watch {
    fn saw(&self, step: &Step<'_>) {
        let Step::Published { .. } = step else { return };
        let before = self.published.fetch_add(1, Ordering::Relaxed);
        if before == 0 || (before + 1).is_multiple_of(self.slice) {
            let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
            marks.push(self.clock.instant());
            if marks.len() > SLICES {
                self.stop.stop();
            }
        }
    }
}
