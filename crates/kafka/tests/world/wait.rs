//! Running a test to its end, and the pace of a load.

use std::time::Duration;

/// Runs a test's future to its end.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    const PATIENCE: Duration = Duration::from_secs(120);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        tokio::time::timeout(PATIENCE, future).await.expect("a test ends within two minutes")
    })
}

/// Lets a moment pass.
pub(crate) async fn moment(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}
