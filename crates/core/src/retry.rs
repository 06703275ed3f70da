//! How often and when a failed try is repeated.
//!
//! `retries_max = n` means the first try and n further ones; the wait before the k-th retry is the k-th value
//! of the backoff. Only tries that the message itself failed are counted.

use std::time::Duration;

/// What becomes of an entry after a failed try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Try again: this many retries are now scheduled, and the wait before this one.
    Retry {
        /// Retries scheduled so far, this one included.
        retries: u32,
        /// The wait before it.
        after: Duration,
    },
    /// All retries are used up.
    GiveUp,
}

/// A retry policy: how many, and how long between.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// Retries after the first try.
    pub retries_max: u32,
    /// The waits.
    pub backoff: Backoff,
}

/// The wait before the k-th retry.
#[derive(Clone, Debug, PartialEq)]
pub enum Backoff {
    /// The k-th value; the last one repeats.
    Steps(Vec<Duration>),
    /// `first · factor^(k-1)`, at most `max`.
    Exponential {
        /// The wait before the first retry.
        first: Duration,
        /// By how much it grows.
        factor: f64,
        /// No wait is longer.
        max: Duration,
        /// Whether each wait is drawn between half of itself and itself, so that crowds spread.
        jitter: bool,
    },
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            retries_max: 10,
            backoff: Backoff::Exponential {
                first: Duration::from_secs(1),
                factor: 2.0,
                max: Duration::from_secs(300),
                jitter: true,
            },
        }
    }
}

impl Policy {
    /// What follows a failed try of an entry with `retries` scheduled so far. `chance` is in `0.0..1.0`;
    /// `retries_max` is the row's own bound, where it has one.
    #[must_use]
    pub fn next(&self, retries: u32, retries_max: Option<u32>, chance: f64) -> Next {
        if retries >= retries_max.unwrap_or(self.retries_max) {
            return Next::GiveUp;
        }
        let retries = retries.saturating_add(1);
        Next::Retry { retries, after: self.backoff.wait(retries, chance) }
    }
}

impl Backoff {
    /// The wait before the k-th retry, counted from one.
    #[must_use]
    pub fn wait(&self, k: u32, chance: f64) -> Duration {
        match self {
            Self::Steps(steps) => {
                let index = (k.max(1) as usize - 1).min(steps.len().saturating_sub(1));
                steps.get(index).copied().unwrap_or_default()
            }
            Self::Exponential { first, factor, max, jitter } => {
                let exponent = i32::try_from(k.max(1) - 1).unwrap_or(i32::MAX);
                let seconds = first.as_secs_f64() * factor.powi(exponent);
                let wait = Duration::try_from_secs_f64(seconds).map_or(*max, |wait| wait.min(*max));
                if *jitter { wait.mul_f64(0.5 + 0.5 * chance.clamp(0.0, 1.0)) } else { wait }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(values: &[u64]) -> Backoff {
        Backoff::Steps(values.iter().map(|s| Duration::from_secs(*s)).collect())
    }

    /// D4: waits of 1, 2, 4, 8, 16 s; five retries, the sixth failed try gives up.
    #[test]
    fn the_first_try_and_n_further_ones() {
        let policy = Policy { retries_max: 5, backoff: seconds(&[1, 2, 4, 8, 16]) };
        let mut waits = Vec::new();
        let mut retries = 0;
        while let Next::Retry { retries: now, after } = policy.next(retries, None, 0.0) {
            retries = now;
            waits.push(after.as_secs());
        }
        assert_eq!((retries, waits), (5, vec![1, 2, 4, 8, 16]));
    }

    /// A8: the row's own bound rules, and the waits double from 30 s.
    #[test]
    fn the_rows_own_bound_rules() {
        let backoff = Backoff::Exponential {
            first: Duration::from_secs(30),
            factor: 2.0,
            max: Duration::from_secs(3600),
            jitter: false,
        };
        let policy = Policy { retries_max: 3, backoff };
        assert_eq!(policy.next(0, Some(0), 0.0), Next::GiveUp);
        assert_eq!(policy.next(3, Some(4), 0.0), Next::Retry { retries: 4, after: Duration::from_secs(240) });
        assert_eq!(policy.next(3, None, 0.0), Next::GiveUp);
    }

    #[test]
    fn no_wait_passes_the_maximum_however_many_retries() {
        let backoff = Policy::default().backoff;
        for k in [1, 2, 50, 5_000, u32::MAX] {
            assert!(backoff.wait(k, 1.0) <= Duration::from_secs(300));
        }
        assert_eq!(backoff.wait(1, 0.0), Duration::from_millis(500), "jitter halves at most");
    }

    #[test]
    fn an_empty_list_of_steps_waits_not_at_all() {
        assert_eq!(seconds(&[]).wait(3, 0.5), Duration::ZERO);
    }
}
