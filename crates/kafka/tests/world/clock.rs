//! A clock that runs ahead, so that a deadline of half a minute is a matter of seconds.

use std::time::Duration;

use jiff::Timestamp;
use postrider_core::clock::{BoxFuture, Clock, Instant};
use postrider_relay::SystemClock;

/// So many times as quick as the real one.
#[derive(Clone)]
pub(crate) struct QuickClock {
    real: SystemClock,
    speed: u32,
}

impl QuickClock {
    pub(crate) fn new(speed: u32) -> Self {
        Self { real: SystemClock::new(), speed }
    }
}

impl Clock for QuickClock {
    fn now(&self) -> Timestamp {
        self.real.now()
    }

    fn instant(&self) -> Instant {
        Instant(self.real.instant().0 * self.speed)
    }

    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()> {
        self.real.sleep(span / self.speed)
    }
}
