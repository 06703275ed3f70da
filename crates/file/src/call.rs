//! One piece of work on its way to the writer's thread, and its answer on the way back. Either side may leave.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use futures_util::task::AtomicWaker;
use postrider_core::clock::BoxFuture;

/// The caller's half. When it is dropped the work is given up.
pub(crate) struct Call<T>(Arc<Shared<T>>);

/// The thread's half. When it is dropped without an answer the caller hears how far it came.
pub(crate) struct Work<T>(Arc<Shared<T>>);

/// How far a piece of work came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Nothing was done.
    Queued,
    /// It waits for the file to become free.
    Waiting,
    /// Bytes may be on their way.
    Writing,
    /// The thread ended before any byte was on its way.
    Gone,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    waker: AtomicWaker,
}

enum State<T> {
    At(Stage),
    Answered(T),
    /// The caller left.
    GivenUp,
    /// The thread left.
    Lost(Stage),
}

/// Both halves of a new piece of work.
pub(crate) fn call<T>() -> (Call<T>, Work<T>) {
    let shared = Arc::new(Shared { state: Mutex::new(State::At(Stage::Queued)), waker: AtomicWaker::new() });
    (Call(shared.clone()), Work(shared))
}

impl<T> Call<T> {
    /// The answer; or, when `time_is_up` comes first, how far the work came: it is then given up.
    pub(crate) async fn answer(self, mut time_is_up: BoxFuture<'_, ()>) -> Result<T, Stage> {
        poll_fn(|context| {
            self.0.waker.register(context.waker());
            if let Some(end) = self.0.end() {
                return Poll::Ready(end);
            }
            time_is_up.as_mut().poll(context).map(|()| self.give_up())
        })
        .await
    }

    fn give_up(&self) -> Result<T, Stage> {
        let mut state = self.0.lock();
        match std::mem::replace(&mut *state, State::GivenUp) {
            State::Answered(answer) => Ok(answer),
            State::At(stage) | State::Lost(stage) => Err(stage),
            State::GivenUp => Err(Stage::Queued),
        }
    }
}

impl<T> Drop for Call<T> {
    fn drop(&mut self) {
        let _ = self.give_up();
    }
}

impl<T> Work<T> {
    /// Goes on to a stage; false when the caller has left.
    pub(crate) fn enter(&self, stage: Stage) -> bool {
        let mut state = self.0.lock();
        let wanted = matches!(*state, State::At(_));
        if wanted {
            *state = State::At(stage);
        }
        wanted
    }

    /// Answers; false when the caller has left.
    pub(crate) fn finish(self, answer: T) -> bool {
        let mut state = self.0.lock();
        let wanted = matches!(*state, State::At(_));
        if wanted {
            *state = State::Answered(answer);
        }
        wanted
    }
}

impl<T> Drop for Work<T> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        if let State::At(stage) = *state {
            *state = State::Lost(if stage == Stage::Writing { stage } else { Stage::Gone });
        }
        drop(state);
        self.0.waker.wake();
    }
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self) -> Option<Result<T, Stage>> {
        let mut state = self.lock();
        match std::mem::replace(&mut *state, State::GivenUp) {
            State::Answered(answer) => Some(Ok(answer)),
            State::Lost(stage) => Some(Err(stage)),
            State::GivenUp => Some(Err(Stage::Queued)),
            at @ State::At(_) => {
                *state = at;
                None
            }
        }
    }
}
