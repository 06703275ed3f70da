//! What one sink sends to one partition goes and is answered in turn, as on one connection.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// A connection to one partition; clones are the same.
#[derive(Clone, Default)]
pub(super) struct Lane(Arc<Mutex<Turns>>);

#[derive(Default)]
struct Turns {
    next: u64,
    unwritten: BTreeSet<u64>,
    unanswered: BTreeSet<u64>,
    wakers: Vec<Waker>,
}

/// A place in the lane; dropped, it lets the next one go on.
pub(super) struct Turn {
    lane: Lane,
    number: u64,
}

impl Lane {
    /// Queues behind everything that was sent before.
    pub(super) fn enter(&self) -> Turn {
        let mut turns = self.turns();
        let number = turns.next;
        turns.next += 1;
        turns.unwritten.insert(number);
        turns.unanswered.insert(number);
        Turn { lane: self.clone(), number }
    }

    fn turns(&self) -> MutexGuard<'_, Turns> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn {
    /// Resolves when everything before it is written or gone.
    pub(super) async fn to_write(&self) {
        self.wait(|turns| turns.unwritten.first() == Some(&self.number)).await;
    }

    /// Resolves when everything before it is answered or gone.
    pub(super) async fn to_answer(&self) {
        self.wait(|turns| turns.unanswered.first() == Some(&self.number)).await;
    }

    /// Whether everything before it is written or gone.
    pub(super) fn may_write(&self) -> bool {
        self.lane.turns().unwritten.first() == Some(&self.number)
    }

    /// It is written: the next one may.
    pub(super) fn written(&self) {
        let mut turns = self.lane.turns();
        turns.unwritten.remove(&self.number);
        wake(turns);
    }

    async fn wait(&self, mine: impl Fn(&Turns) -> bool) {
        poll_fn(|context| {
            let mut turns = self.lane.turns();
            if mine(&turns) {
                return Poll::Ready(());
            }
            turns.wakers.push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut turns = self.lane.turns();
        turns.unwritten.remove(&self.number);
        turns.unanswered.remove(&self.number);
        wake(turns);
    }
}

fn wake(mut turns: MutexGuard<'_, Turns>) {
    let wakers = std::mem::take(&mut turns.wakers);
    drop(turns);
    wakers.into_iter().for_each(Waker::wake);
}
