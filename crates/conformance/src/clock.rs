//! A clock that stands still until a test moves it.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use jiff::Timestamp;
use postrider_core::clock::{BoxFuture, Clock, Instant};

/// Wall and monotonic time start at zero and move together, by hand. Clones are the same clock.
#[derive(Clone, Debug, Default)]
pub struct ManualClock {
    time: Arc<Mutex<Time>>,
}

#[derive(Debug, Default)]
struct Time {
    now: Duration,
    sleepers: Vec<Waker>,
}

impl ManualClock {
    /// Moves time on and wakes whoever slept.
    pub fn advance(&self, span: Duration) {
        let mut time = self.time();
        time.now += span;
        let sleepers = std::mem::take(&mut time.sleepers);
        drop(time);
        sleepers.into_iter().for_each(Waker::wake);
    }

    fn time(&self) -> MutexGuard<'_, Time> {
        self.time.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH + self.time().now
    }

    fn instant(&self) -> Instant {
        Instant(self.time().now)
    }

    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()> {
        let clock = self.clone();
        let until = clock.instant() + span;
        Box::pin(poll_fn(move |context| {
            let mut time = clock.time();
            if Instant(time.now) >= until {
                return Poll::Ready(());
            }
            time.sleepers.push(context.waker().clone());
            Poll::Pending
        }))
    }
}
