//! Time is an argument.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use jiff::Timestamp;

/// A boxed future, for traits that are used as objects.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A point on the monotonic clock: only differences mean anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(pub Duration);

impl Instant {
    /// How long after `earlier` this is; zero when it is not.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl std::ops::Add<Duration> for Instant {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span))
    }
}

/// Wall time for people and databases, monotonic time for waiting, and sleep.
pub trait Clock: Send + Sync {
    /// Wall time: may jump.
    fn now(&self) -> Timestamp;
    /// Monotonic time: never goes back.
    fn instant(&self) -> Instant;
    /// Resolves after a while.
    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()>;
}
