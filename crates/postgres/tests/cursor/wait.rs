//! Waiting for a condition, with a deadline.

use std::time::Duration;

const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Long enough for a busy machine: only what is broken takes that long.
const DEADLINE: Duration = Duration::from_secs(120);

/// Lets others go on for a moment.
pub(crate) async fn nap(milliseconds: u64) {
    tokio::time::sleep(Duration::from_millis(milliseconds)).await;
}

/// Looks until the condition holds.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let look = async {
        while !holds() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    assert!(
        tokio::time::timeout(DEADLINE, look).await.is_ok(),
        "waited {} s in vain: {what}",
        DEADLINE.as_secs()
    );
}

/// The same for a condition that is asked for.
pub(crate) async fn until_async(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let look = async {
        while !holds().await {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    let waited = tokio::time::timeout(DEADLINE, look).await;
    assert!(waited.is_ok(), "waited {} s in vain: {what}", DEADLINE.as_secs());
}
