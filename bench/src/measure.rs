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
}

/// Runs something and says what it cost.
pub(crate) fn cost<E>(run: impl FnOnce() -> Result<(), E>) -> Result<Cost, E> {
    let clock = SystemClock::new();
    let (wall, cpu) = (clock.instant(), cpu_time());
    run()?;
    Ok(Cost { wall: clock.instant().since(wall), cpu: cpu_time().saturating_sub(cpu) })
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
    }))
}

fn median(values: impl Iterator<Item = Duration>) -> Duration {
    let mut values: Vec<Duration> = values.collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or_default()
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let (seconds, nanos) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Duration::new(seconds.unwrap_or(0), nanos.unwrap_or(0))
}
