//! A lock on a name, for applications (A3): exclusive, expiring by the database's clock, fenced.
//!
//! It is taken before the transaction begins and released after it has ended. A holder that was held up for longer than its
//! time may have lost it; inside its own transaction it asks, and that question keeps everybody else from taking the lock
//! before the transaction ends: what a holder that lost it would write is never committed. The fence grows with every taking, so
//! that other systems can tell a late holder's request from the next one's.

use std::time::Duration;

use crate::clock::Clock;
use crate::{Fault, Text, limits};

/// A lock that was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// What it is on.
    pub name: Text,
    /// Grows with every taking of the name: two holders never have the same.
    pub fence: i64,
}

/// Why nothing is known about a lock.
#[derive(Debug, thiserror::Error)]
pub enum LockError<E> {
    /// It cannot be asked for like this.
    #[error(transparent)]
    Refused(#[from] Fault),
    /// The database failed.
    #[error("the lock could not be asked for")]
    Database(#[source] E),
}

/// No lock is for longer: whoever needs it for so long renews it.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Whether a lock may be taken on this name for so long; answers its time in microseconds.
///
/// # Errors
/// Why not.
pub fn accept(name: &str, ttl: Duration) -> Result<i64, Fault> {
    if name.is_empty() || name.len() > limits::KEY_BYTES_MAX {
        return Err(Fault::new(
            "lock",
            format!("its name has {} bytes, and from 1 to {} are allowed", name.len(), limits::KEY_BYTES_MAX),
            "Use a short name, such as guest:4711, or a hash of it",
        ));
    }
    if ttl < Duration::from_millis(1) || ttl > LONGEST {
        return Err(Fault::new(
            "lock",
            "its time is under a millisecond or over a day",
            "Give it as long as the work takes, and renew it if that may be longer",
        ));
    }
    Ok(i64::try_from(ttl.as_micros()).unwrap_or(i64::MAX))
}

/// Asks for a lock that somebody else has again and again, until it is taken or `within` has passed.
///
/// # Errors
/// Whatever asking fails with.
pub async fn patiently<T, E>(
    clock: &dyn Clock,
    within: Duration,
    mut ask: impl AsyncFnMut() -> Result<Option<T>, E>,
) -> Result<Option<T>, E> {
    const PAUSE_MIN: Duration = Duration::from_millis(5);
    const PAUSE_MAX: Duration = Duration::from_millis(100);
    let end = clock.instant() + within;
    let mut pause = PAUSE_MIN;
    loop {
        if let Some(taken) = ask().await? {
            return Ok(Some(taken));
        }
        let left = end.since(clock.instant());
        if left.is_zero() {
            return Ok(None);
        }
        clock.sleep(pause.min(left)).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// What is told where a lock is to be taken or given back inside a transaction: nobody else would see it before the end.
#[must_use]
pub fn in_transaction() -> Fault {
    Fault::new(
        "lock",
        "a transaction is open on this connection",
        "Take the lock before it begins and release it after it has ended; check it inside",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_times_have_bounds() {
        let second = Duration::from_secs(1);
        assert_eq!(accept("guest:1", second).unwrap(), 1_000_000);
        for (name, ttl) in [
            ("", second),
            (&*"x".repeat(1_025), second),
            ("x", Duration::ZERO),
            ("x", Duration::from_secs(24 * 3600 + 1)),
        ] {
            assert!(accept(name, ttl).is_err(), "{ttl:?}");
        }
    }
}
