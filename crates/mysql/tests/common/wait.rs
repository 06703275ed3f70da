//! Letting real time pass, where a server's own clock decides.

use std::time::Duration;

pub async fn nap(span: Duration) {
    tokio::time::sleep(span).await;
}
