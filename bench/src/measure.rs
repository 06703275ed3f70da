//! What a run costs, and the medians of interleaved runs.

use std::ops::Add;
use std::time::Duration;

use postrider_core::clock::Clock;
use postrider_relay::SystemClock;
use rustix::time::{ClockId, clock_gettime};

/// What one run cost.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    pub(crate) wall: Duration,
    /// Of all threads of this process.
    pub(crate) cpu: Duration,
    /// Of the busiest thread: what the wall time comes to where every thread has a core of its own.
    pub(crate) busiest: Duration,
    /// Of all processes of the database's server, where it has one.
    pub(crate) database: Duration,
    /// What that server wrote ahead.
    pub(crate) wal_bytes: u64,
    /// Of the broker, where there is one.
    pub(crate) broker: Duration,
}

impl Add for Cost {
    type Output = Self;

    /// One after the other.
    fn add(self, other: Self) -> Self {
        Self {
            wall: self.wall + other.wall,
            cpu: self.cpu + other.cpu,
            busiest: self.busiest + other.busiest,
            database: self.database + other.database,
            wal_bytes: self.wal_bytes + other.wal_bytes,
            broker: self.broker + other.broker,
        }
    }
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
        ..Cost::default()
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

/// What each turn of a way cost.
#[derive(Debug, Default)]
pub(crate) struct Costs(Vec<Cost>);

/// They take turns, so that a busy machine slows all of them alike, and each turn begins with another one, so that none
/// always comes behind the same. The first turn of each only warms the caches.
pub(crate) fn interleave<E, const N: usize>(runs: usize, mut ways: [Way<'_, E>; N]) -> Result<[Costs; N], E> {
    let mut costs: [Costs; N] = std::array::from_fn(|_| Costs::default());
    for turn in 0..=runs {
        for place in 0..N {
            let way = (turn + place) % N;
            let cost = ways[way]()?;
            if turn > 0 {
                costs[way].0.push(cost);
            }
        }
    }
    Ok(costs)
}

impl Costs {
    /// What both cost one after the other, turn by turn.
    pub(crate) fn one_after_the_other(&self, other: &Self) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(one, other)| *one + *other).collect())
    }

    /// The median of one figure.
    pub(crate) fn median(&self, figure: impl Fn(&Cost) -> Duration) -> f64 {
        median(self.0.iter().map(|cost| figure(cost).as_secs_f64()))
    }

    /// The median of what was written ahead.
    pub(crate) fn wal_bytes(&self) -> f64 {
        median(self.0.iter().map(|cost| cost.wal_bytes as f64))
    }

    /// How much less this took than `first` did in the same turn: the median over all turns, which one turn on a busy
    /// machine does not move.
    pub(crate) fn ratio(&self, first: &Self, figure: impl Fn(&Cost) -> Duration) -> f64 {
        let pairs = first.0.iter().zip(&self.0);
        median(pairs.map(|(first, this)| figure(first).as_secs_f64() / figure(this).as_secs_f64()))
    }
}

/// Of an even number, the greater of the two in the middle.
pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

fn time(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    let (seconds, nanos) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Duration::new(seconds.unwrap_or(0), nanos.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs(walls_ms: &[u64]) -> Costs {
        let cost = |ms: &u64| Cost { wall: Duration::from_millis(*ms), ..Cost::default() };
        Costs(walls_ms.iter().map(cost).collect())
    }

    #[test]
    fn one_slow_turn_moves_no_ratio() {
        let (first, other) = (costs(&[10, 90, 10]), costs(&[20, 180, 900]));
        assert!((other.ratio(&first, |cost| cost.wall) - 0.5).abs() < 1e-9);
        assert!((other.median(|cost| cost.wall) - 0.18).abs() < 1e-9);
    }

    #[test]
    fn each_turn_begins_with_another_way() {
        let order = std::cell::RefCell::new(Vec::new());
        let way = |name: char| -> Way<'_, ()> {
            let order = &order;
            Box::new(move || {
                order.borrow_mut().push(name);
                Ok(Cost::default())
            })
        };
        let [a, b] = interleave(2, [way('a'), way('b')]).unwrap();
        assert_eq!(order.borrow().iter().collect::<String>(), "abbaab");
        assert_eq!((a.0.len(), b.0.len()), (2, 2));
    }
}
