//! Simulated time: it passes only when nobody can do anything without it.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use postrider_core::clock::{BoxFuture, Clock, Instant};

/// The time that all clocks of a world share.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    now: Duration,
    timers: BTreeMap<(Duration, u64), Waker>,
    next: u64,
}

impl Timeline {
    /// Time since the world began.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.lock().now
    }

    /// When the next timer rings.
    #[must_use]
    pub fn next_timer(&self) -> Option<Duration> {
        self.lock().timers.keys().next().map(|(at, _)| *at)
    }

    /// Lets time pass, and wakes whoever slept until then.
    pub fn advance(&self, to: Duration) {
        let mut inner = self.lock();
        inner.now = inner.now.max(to);
        let later = inner.timers.split_off(&(to, u64::MAX));
        let due = std::mem::replace(&mut inner.timers, later);
        drop(inner);
        for waker in due.into_values() {
            waker.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One machine's clock on a timeline: its wall time may jump, its monotonic time does not.
#[derive(Clone, Debug)]
pub struct SimClock {
    timeline: Timeline,
    offset: Arc<Mutex<SignedDuration>>,
}

impl SimClock {
    /// A clock that shows the timeline's time.
    #[must_use]
    pub fn new(timeline: &Timeline) -> Self {
        Self { timeline: timeline.clone(), offset: Arc::default() }
    }

    /// Makes the wall time jump, for every clone of this clock.
    pub fn jump(&self, by: SignedDuration) {
        let mut offset = self.offset.lock().unwrap_or_else(PoisonError::into_inner);
        *offset = offset.saturating_add(by);
    }
}

impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        // An arbitrary day, so that jumps back stay within what a timestamp can show.
        const EPOCH_SECONDS: i64 = 1_800_000_000;
        let offset = *self.offset.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = SignedDuration::try_from(self.timeline.now()).unwrap_or(SignedDuration::MAX);
        let since_epoch =
            SignedDuration::from_secs(EPOCH_SECONDS).saturating_add(passed).saturating_add(offset);
        Timestamp::from_duration(since_epoch).unwrap_or(Timestamp::MAX)
    }

    fn instant(&self) -> Instant {
        Instant(self.timeline.now())
    }

    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()> {
        let until = self.timeline.now().saturating_add(span);
        Box::pin(Sleep { timeline: self.timeline.clone(), until, timer: None })
    }
}

struct Sleep {
    timeline: Timeline,
    until: Duration,
    timer: Option<u64>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let timeline = self.timeline.clone();
        let mut inner = timeline.lock();
        if inner.now >= self.until {
            return Poll::Ready(());
        }
        let number = self.timer.unwrap_or_else(|| {
            inner.next += 1;
            inner.next
        });
        self.timer = Some(number);
        inner.timers.insert((self.until, number), cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(number) = self.timer {
            self.timeline.lock().timers.remove(&(self.until, number));
        }
    }
}
