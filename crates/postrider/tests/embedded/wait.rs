//! The one place where these tests pause: between two looks at a condition, until its deadline.

use std::time::{Duration, Instant};

const DEADLINE: Duration = Duration::from_secs(60);

#[track_caller]
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) -> impl Future<Output = ()> {
    let started = Instant::now();
    async move {
        while !holds() {
            assert!(started.elapsed() < DEADLINE, "waited {DEADLINE:?} for {what}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}
