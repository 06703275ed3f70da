//! Latencies in a fixed amount of memory.

use std::time::Duration;

/// Buckets per doubling: a quantile is off by at most a tenth.
const STEPS: u32 = 8;
/// From a microsecond to an hour and more.
const BUCKETS: usize = 32 * STEPS as usize;

/// Counts latencies in buckets whose width grows with them.
#[derive(Clone)]
pub(crate) struct Latencies {
    buckets: Vec<u64>,
    count: u64,
    pub(crate) max: Duration,
}

impl Default for Latencies {
    fn default() -> Self {
        Self { buckets: vec![0; BUCKETS], count: 0, max: Duration::ZERO }
    }
}

impl Latencies {
    pub(crate) fn add(&mut self, latency: Duration) {
        self.buckets[bucket(latency)] += 1;
        self.count += 1;
        self.max = self.max.max(latency);
    }

    /// The latency that a share of all stayed below.
    pub(crate) fn quantile(&self, share: f64) -> Duration {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a rank"
        )]
        let rank = (self.count as f64 * share).ceil() as u64;
        let mut below = 0;
        for (index, count) in self.buckets.iter().enumerate() {
            below += count;
            if below >= rank.max(1) {
                return upper(index).min(self.max);
            }
        }
        self.max
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded by BUCKETS")]
fn bucket(latency: Duration) -> usize {
    let micros = latency.as_secs_f64().mul_add(1e6, 1.0);
    ((micros.log2() * f64::from(STEPS)) as usize).min(BUCKETS - 1)
}

fn upper(index: usize) -> Duration {
    #[expect(clippy::cast_precision_loss, reason = "an index is small")]
    let micros = ((index + 1) as f64 / f64::from(STEPS)).exp2() - 1.0;
    Duration::from_secs_f64(micros / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_near_the_truth() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.quantile(0.5), Duration::ZERO);
        for millis in 1..=1000 {
            latencies.add(Duration::from_millis(millis));
        }
        for (share, millis) in [(0.5, 500.0), (0.99, 990.0), (1.0, 1000.0)] {
            let found = latencies.quantile(share).as_secs_f64() * 1e3;
            assert!((found / millis - 1.0).abs() < 0.1, "{share}: {found}");
        }
        latencies.add(Duration::from_secs(u64::from(u32::MAX)));
        assert_eq!(latencies.max.as_secs(), u64::from(u32::MAX));
    }
}
