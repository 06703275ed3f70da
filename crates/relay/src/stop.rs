//! Asking a relay to stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use futures_util::task::AtomicWaker;

/// A handle to stop a relay gracefully: what was claimed is settled or released first. Clones share one state.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    asked: AtomicBool,
    wakers: [AtomicWaker; 2],
}

/// Who waits for a stop: one relay, and the chores beside it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Waiter {
    Relay,
    Tend,
}

impl Stop {
    /// A handle that nobody has used yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks for a graceful stop; may be called from any thread, any number of times.
    pub fn stop(&self) {
        self.shared.asked.store(true, Ordering::Release);
        for waker in &self.shared.wakers {
            waker.wake();
        }
    }

    /// Whether a stop was asked for.
    #[must_use]
    pub fn asked(&self) -> bool {
        self.shared.asked.load(Ordering::Acquire)
    }

    pub(crate) fn poll_asked(&self, waiter: Waiter, cx: &mut Context<'_>) -> Poll<()> {
        self.shared.wakers[waiter as usize].register(cx.waker());
        if self.asked() { Poll::Ready(()) } else { Poll::Pending }
    }
}
