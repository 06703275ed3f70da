//! Waiting for a condition, with a deadline.

use std::time::{Duration, Instant};

const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Long enough for a busy machine: only what is broken takes that long.
pub(crate) const DEADLINE: Duration = Duration::from_secs(90);

/// Looks until the condition holds; panics with what was waited for when it takes far too long. It blocks the thread.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    assert!(within_deadline(&mut holds), "waited {} s in vain: {what}", DEADLINE.as_secs());
}

/// Whether the condition held in time.
pub(crate) fn within_deadline(mut holds: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    loop {
        if holds() {
            return true;
        }
        if start.elapsed() > DEADLINE {
            return false;
        }
        std::thread::sleep(LOOK_EVERY);
    }
}
