//! Waiting for a condition, with a deadline.

use std::time::Duration;

/// The server makes its list of transactions anew only when nobody has asked for it for a tenth of a second.
const LOOK_EVERY: Duration = Duration::from_millis(200);
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

/// Asks until there is an answer.
pub(crate) async fn answer<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let mut found = None;
    until_async(what, async || {
        found = ask().await;
        found.is_some()
    })
    .await;
    found.unwrap()
}
