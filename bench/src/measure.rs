//! What a run costs, and the medians of interleaved runs.

use std::time::Duration;

use postrider_core::clock::Clock;
use postrider_relay::SystemClock;
use rustix::time::{ClockId, clock_gettime};

/// What one run cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    pub(crate) wall: Duration,
    /// Of all threads of this process.
    pub(crate) cpu: Duration,
    /// Of the busiest thread: what the wall time comes to where every thread has a core of its own.
    pub(crate) busiest: Duration,
}

/// Runs something and says what it cost. It answers what the busiest thread took that it started.
pub(crate) fn cost<E>(run: impl FnOnce() -> Result<Duration, E>) -> Result<Cost, E> {
    let clock = SystemClock::new();
    let (wall, cpu, own) = (clock.instant(), time(ClockId::ProcessCPUTime), time(ClockId::ThreadCPUTime));
    let other = run()?;
    Ok(Cost {
        wall: clock.instant().since(wall),
        cpu: time(ClockId::ProcessCPUTime).saturating_sub(cpu),
        busiest: time(ClockId::ThreadCPUTime).saturating_sub(own).max(other),
    })
}

/// What the busiest thread whose name begins like this has taken so far.
pub(crate) fn busiest(name: &str) -> Duration {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let named = threads.map(|thread| thread.path()).filter(|thread| {
        std::fs::read_to_string(thread.join("comm")).is_ok_and(|comm| comm.starts_with(name))
    });
    let taken = named.filter_map(|thread| {
        let stat = std::fs::read_to_string(thread.join("schedstat")).ok()?;
        stat.split(' ').next()?.parse().ok().map(Duration::from_nanos)
    });
    taken.max().unwrap_or_default()
}

/// One way of doing the same work, over and over.
pub(crate) type Way<'a, E> = Box<dyn FnMut() -> Result<Cost, E> + 'a>;

/// The median cost of each way. They take turns, so that a busy machine slows all of them alike; the first turn of each only
/// warms the caches.
pub(crate) fn interleave<E, const N: usize>(runs: usize, mut ways: [Way<'_, E>; N]) -> Result<[Cost; N], E> {
    let mut costs: [Vec<Cost>; N] = std::array::from_fn(|_| Vec::with_capacity(runs));
    for turn in 0..=runs {
        for (way, costs) in ways.iter_mut().zip(&mut costs) {
            let cost = way()?;
            if turn > 0 {
                costs.push(cost);
            }
        }
    }
    Ok(costs.map(|costs| Cost {
        wall: median(costs.iter().map(|cost| cost.wall)),
        cpu: median(costs.iter().map(|cost| cost.cpu)),
        busiest: median(costs.iter().map(|cost| cost.busiest)),
    }))
}

fn median(values: impl Iterator<Item = Duration>) -> Duration {
    let mut values: Vec<Duration> = values.collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or_default()
}

fn time(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    let (seconds, nanos) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Duration::new(seconds.unwrap_or(0), nanos.unwrap_or(0))
}
