//! The one place where the tests pause: between two looks at a condition.

use std::time::Duration;

/// Nothing that a test waits for takes longer, however slow the machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// Waits for a condition, with a deadline.
#[track_caller]
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    assert!(comes_to_hold(DEADLINE, &mut holds), "waited {DEADLINE:?} for {what}");
}

/// How long something takes.
#[expect(clippy::disallowed_methods, reason = "a test of the real binary measures real time")]
pub(crate) fn timed<T>(action: impl FnOnce() -> T) -> (T, Duration) {
    let start = std::time::Instant::now();
    let done = action();
    (done, start.elapsed())
}

/// Whether a condition comes to hold within a while.
#[expect(clippy::disallowed_methods, reason = "a test of the real binary waits in real time")]
pub(crate) fn comes_to_hold(within: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let start = std::time::Instant::now();
    while !holds() {
        if start.elapsed() > within {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}
