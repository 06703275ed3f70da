//! Tend: the chores, each at its own interval, by one instance at a time.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use postrider_core::clock::Clock;
use postrider_core::source::SourceError;
use postrider_core::store::{Filter, Store};

use crate::stop::{Stop, Waiter};

/// One chore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Chore {
    /// Gives back what dead holders left.
    Reap,
    /// Deletes published entries that are older than this.
    Prune {
        /// How long they are kept.
        keep: Duration,
    },
}

impl Chore {
    fn name(&self) -> &'static str {
        match self {
            Self::Reap => "reap",
            Self::Prune { .. } => "prune",
        }
    }
}

/// Does the chores of one outbox beside a relay.
pub struct Tend {
    /// Whose.
    pub store: Arc<dyn Store>,
    /// Which, and how often.
    pub chores: Vec<(Chore, Duration)>,
    /// Time.
    pub clock: Arc<dyn Clock>,
}

/// A chore's turn ends after this at most, so that a dead instance's chore is taken over.
const AT_MOST: Duration = Duration::from_secs(60);
/// How often a turn is asked for.
const LOOK: Duration = Duration::from_secs(1);

impl Tend {
    /// Tends until it is stopped.
    pub async fn run(&self, stop: &Stop) {
        while !stop.asked() {
            for (chore, every) in &self.chores {
                if let Err(error) = self.take_turn(chore, *every, stop).await {
                    tracing::debug!(chore = chore.name(), %error, "the chore is left for the next turn");
                }
            }
            let asked = std::future::poll_fn(|cx| stop.poll_asked(Waiter::Tend, cx));
            match select(self.clock.sleep(LOOK), asked).await {
                Either::Left(_) | Either::Right(_) => {}
            }
        }
    }

    /// Does a chore if it is due and nobody else does; answers how many entries it touched.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn take_turn(&self, chore: &Chore, every: Duration, stop: &Stop) -> Result<u64, SourceError> {
        let Some(turn) = self.store.take_turn(chore.name(), AT_MOST).await? else { return Ok(0) };
        let until = self.clock.instant() + AT_MOST;
        let mut touched = 0;
        match chore {
            Chore::Reap => {
                touched = self.store.reap().await?;
                if touched > 0 {
                    tracing::warn!(entries = touched, "took back entries whose holder died");
                }
            }
            Chore::Prune { keep } => {
                let filter = Filter { older_than: Some(*keep), ..Filter::default() };
                // In batches, so that writers get their turn in between, and never past the at-most time.
                while !stop.asked() && self.clock.instant() < until {
                    let batch = self.store.prune(&filter, false).await?;
                    touched += batch;
                    if batch == 0 {
                        break;
                    }
                }
            }
        }
        self.store.end_turn(turn, every).await?;
        Ok(touched)
    }
}
