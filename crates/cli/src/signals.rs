//! SIGTERM and Ctrl-C: the first asks, the second insists.

use std::time::Duration;

use postrider_relay::Stop;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::human::span;
use crate::output::note;

/// Asks for a graceful stop at the first signal and resolves at the second.
pub(crate) async fn stop_twice(stop: &Stop, within: Duration) {
    let Some(mut signals) = Signals::new() else { return std::future::pending().await };
    signals.next().await;
    note(&format!(
        "Stopping: what is in flight is finished or given back (at most {}). Once more ends at once.",
        span(within)
    ));
    stop.stop();
    signals.next().await;
    note("Ended at once: what was in flight comes again when the lease expires.");
}

/// Resolves at the first signal.
pub(crate) async fn first() {
    match Signals::new() {
        Some(mut signals) => signals.next().await,
        None => std::future::pending().await,
    }
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// None where the system has no signals to give: then they do what they do by default.
    fn new() -> Option<Self> {
        let terminate = signal(SignalKind::terminate()).ok()?;
        let interrupt = signal(SignalKind::interrupt()).ok()?;
        Some(Self { terminate, interrupt })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
