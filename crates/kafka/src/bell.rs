//! Wakes the calls when something has happened that one of them may wait for.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// Rung by the threads; each call listens anew whenever it is polled.
#[derive(Default)]
pub(crate) struct Bell(Mutex<Vec<Waker>>);

impl Bell {
    /// Wakes this one at the next ring. To be called before looking at what one waits for.
    pub(crate) fn listen(&self, waker: &Waker) {
        let mut wakers = self.lock();
        if !wakers.iter().any(|known| known.will_wake(waker)) {
            wakers.push(waker.clone());
        }
    }

    /// Wakes everybody.
    pub(crate) fn ring(&self) {
        let wakers = std::mem::take(&mut *self.lock());
        wakers.into_iter().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Waker>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
