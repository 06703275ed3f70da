//! Time that passes when nothing else can happen.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use postrider_simulation::clock::Timeline;

thread_local! {
    static TIMELINE: Timeline = Timeline::default();
}

/// This test's time: each test has a thread of its own.
pub(crate) fn timeline() -> Timeline {
    TIMELINE.with(Timeline::clone)
}

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs a future; when it waits, time goes on to the next timer.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let flag = Arc::new(Flag(AtomicBool::new(false)));
    let waker = Waker::from(Arc::clone(&flag));
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        if !flag.0.swap(false, Ordering::Relaxed) {
            let timer = timeline().next_timer().expect("it waits for something that never comes");
            timeline().advance(timer);
        }
    }
}
