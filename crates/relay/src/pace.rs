//! When to claim next.

use std::time::Duration;

use postrider_core::clock::Instant;

use crate::settings::Poll;

/// The wait of a standby between looks at the lease.
const STANDBY: Duration = Duration::from_millis(250);
/// After so long without an entry, an adaptive pace looks half as often: a relay that has nothing to do is to cost next to nothing.
const LONG_IDLE: Duration = Duration::from_secs(10);
/// The first and the longest wait after the database did not answer.
const AWAY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

#[derive(Debug)]
pub(crate) struct Pace {
    poll: Poll,
    next: Instant,
    idle_for: Duration,
    worked_at: Instant,
    away_for: Duration,
}

impl Pace {
    pub(crate) fn new(poll: Poll, now: Instant) -> Self {
        Self { poll, next: now, idle_for: Duration::ZERO, worked_at: now, away_for: Duration::ZERO }
    }

    /// When the next claim is due.
    pub(crate) fn next(&self) -> Instant {
        self.next
    }

    /// There may be something to claim now.
    pub(crate) fn hurry(&mut self, now: Instant) {
        self.next = self.next.min(now);
    }

    /// A claim brought entries.
    pub(crate) fn worked(&mut self, now: Instant, more: bool) {
        self.idle_for = Duration::ZERO;
        self.worked_at = now;
        self.next = match self.poll {
            _ if more => now,
            Poll::Adaptive { busy, .. } => now + busy,
            Poll::Every(interval) => now + interval,
        };
    }

    /// A claim brought nothing; a waiting entry may be due before the next poll.
    pub(crate) fn idled(&mut self, now: Instant, due_in: Option<Duration>) {
        let wait = match self.poll {
            Poll::Adaptive { busy, idle } => {
                let most = if now.since(self.worked_at) < LONG_IDLE { idle } else { idle * 2 };
                self.idle_for = (self.idle_for * 2).clamp(busy, most);
                self.idle_for
            }
            Poll::Every(interval) => interval,
        };
        self.next = now + due_in.map_or(wait, |due| due.max(Duration::from_millis(1)).min(wait));
    }

    /// Another relay holds the lease.
    pub(crate) fn stood_by(&mut self, now: Instant) {
        self.next = now + STANDBY;
    }

    /// The database did not answer: how long to wait before asking again, ever longer.
    pub(crate) fn away(&mut self) -> Duration {
        self.away_for = (self.away_for * 2).clamp(AWAY.0, AWAY.1);
        self.away_for
    }

    /// The database did not answer a claim.
    pub(crate) fn delay(&mut self, until: Instant) {
        self.next = until;
    }

    /// The database answered: says whether it had been away.
    pub(crate) fn back(&mut self) -> bool {
        !std::mem::take(&mut self.away_for).is_zero()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUSY: Duration = Duration::from_millis(2);
    const IDLE: Duration = Duration::from_millis(20);

    fn settled_wait(pace: &mut Pace, now: Instant) -> Duration {
        for _ in 0..10 {
            pace.idled(now, None);
        }
        pace.next().since(now)
    }

    /// F3: a commit is seen within the shortest of waits while events come, and an outbox without any is looked at rarely.
    #[test]
    fn waits_grow_with_idleness_and_are_short_again_with_the_first_entry() {
        let start = Instant::default();
        let mut pace = Pace::new(Poll::Adaptive { busy: BUSY, idle: IDLE }, start);
        assert_eq!(settled_wait(&mut pace, start + Duration::from_secs(9)), IDLE);
        let later = start + Duration::from_secs(11);
        assert_eq!(settled_wait(&mut pace, later), IDLE * 2);
        pace.worked(later, false);
        assert_eq!(pace.next().since(later), BUSY);
        assert_eq!(settled_wait(&mut pace, later + Duration::from_secs(1)), IDLE);
    }
}
