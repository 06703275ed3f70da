//! A deterministic executor: which task goes next is the seed's choice, and time passes only when none can.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use postrider_core::clock::BoxFuture;

use crate::chance::Chance;
use crate::clock::Timeline;

/// A task's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskNo(u64);

/// Runs tasks one poll at a time.
pub struct Executor {
    timeline: Timeline,
    chance: Chance,
    tasks: BTreeMap<TaskNo, Task>,
    next: u64,
}

struct Task {
    future: BoxFuture<'static, ()>,
    flag: Arc<Flag>,
    paused: bool,
}

struct Flag {
    ready: AtomicBool,
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.ready.store(true, Ordering::Relaxed);
    }
}

impl Executor {
    /// An executor without tasks.
    #[must_use]
    pub fn new(timeline: &Timeline, chance: Chance) -> Self {
        Self { timeline: timeline.clone(), chance, tasks: BTreeMap::new(), next: 0 }
    }

    /// Adds a task; it is polled first when the seed says so.
    pub fn start(&mut self, future: BoxFuture<'static, ()>) -> TaskNo {
        let number = TaskNo(self.next);
        self.next += 1;
        let flag = Arc::new(Flag { ready: AtomicBool::new(true) });
        self.tasks.insert(number, Task { future, flag, paused: false });
        number
    }

    /// Kills a task where it stands, as `kill -9` would: its future is dropped between two polls.
    pub fn kill(&mut self, number: TaskNo) {
        self.tasks.remove(&number);
    }

    /// Stops a task without its knowledge, as SIGSTOP would, or lets it go on.
    pub fn pause(&mut self, number: TaskNo, paused: bool) {
        if let Some(task) = self.tasks.get_mut(&number) {
            task.paused = paused;
        }
    }

    /// Whether a task has not ended yet.
    #[must_use]
    pub fn alive(&self, number: TaskNo) -> bool {
        self.tasks.contains_key(&number)
    }

    /// Polls one task that can go on; if there is none, lets time pass to the next timer, but not past `until`.
    pub fn step(&mut self, until: Duration) {
        let ready: Vec<TaskNo> = self
            .tasks
            .iter()
            .filter(|(_, task)| !task.paused && task.flag.ready.load(Ordering::Relaxed))
            .map(|(number, _)| *number)
            .collect();
        if ready.is_empty() {
            let to = self.timeline.next_timer().map_or(until, |timer| timer.min(until));
            return self.timeline.advance(to);
        }
        let chosen = ready[usize::try_from(self.chance.below(ready.len() as u64)).unwrap_or(0)];
        let Some(task) = self.tasks.get_mut(&chosen) else { return };
        task.flag.ready.store(false, Ordering::Relaxed);
        let waker = Waker::from(Arc::clone(&task.flag));
        if let Poll::Ready(()) = task.future.as_mut().poll(&mut Context::from_waker(&waker)) {
            self.tasks.remove(&chosen);
        }
    }
}
