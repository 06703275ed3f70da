//! A database that answers late, not at all, or after having done what it was asked.

use std::sync::PoisonError;
use std::time::Duration;

use jiff::Timestamp;
use postrider_core::Fault;
use postrider_core::source::SourceError;

use super::Outbox;
use super::database::Database;

/// How a database misbehaves.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Trouble {
    /// Away: nothing is done, nobody is answered.
    pub away: bool,
    /// How often a reply is lost; half of the time after the work was done.
    pub reply_lost: f64,
    /// How often an answer is late.
    pub slow: f64,
    /// How late at most.
    pub slow_most: Duration,
}

impl Outbox {
    /// One call to the database, with all that may go wrong. `work` runs at most once, between two awaits.
    pub(super) async fn call<T>(
        &self,
        work: impl FnOnce(&mut Database, Timestamp) -> Result<T, SourceError>,
    ) -> Result<T, SourceError> {
        let late = self.lateness();
        if let Some(late) = late {
            self.clock.sleep(late / 2).await;
        }
        let (lost_before, lost_after) = self.losses();
        if lost_before || self.lock().trouble.away {
            return Err(unreachable());
        }
        let answer = work(&mut self.lock(), self.clock.now());
        let lost_after = std::mem::take(&mut self.lock().reply_lost_next) || lost_after;
        if let Some(late) = late {
            self.clock.sleep(late / 2).await;
        }
        if lost_after { Err(unreachable()) } else { answer }
    }

    fn lateness(&self) -> Option<Duration> {
        let Trouble { slow, slow_most, .. } = self.lock().trouble;
        let mut chance = self.chance.lock().unwrap_or_else(PoisonError::into_inner);
        chance.probability(slow).then(|| slow_most.mul_f64(chance.unit()))
    }

    fn losses(&self) -> (bool, bool) {
        let share = self.lock().trouble.reply_lost / 2.0;
        let mut chance = self.chance.lock().unwrap_or_else(PoisonError::into_inner);
        (chance.probability(share), chance.probability(share))
    }
}

fn unreachable() -> SourceError {
    SourceError::Unreachable(Fault::new("simulated database", "no answer", "wait"))
}
