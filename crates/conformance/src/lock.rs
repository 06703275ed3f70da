//! The suite of locks on names: what an application is promised on every database (A3).
//!
//! ```ignore
//! postrider_conformance::lock_suite!(block_on, Harness::new());
//! ```

use std::cell::Cell;
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use futures_util::future::{join, join_all};
use postrider_core::lock::Held;

/// Locks in a database of the test's own, whose clock is moved by hand.
#[allow(async_fn_in_trait, reason = "a test runs on one thread")]
pub trait LockHarness {
    /// One of an application's connections.
    type Connection;
    /// A connection without a transaction.
    async fn connect(&self) -> Self::Connection;
    /// Takes a lock; none where somebody has it, or is in the way.
    async fn take(&self, connection: &mut Self::Connection, name: &str, ttl: Duration) -> Option<Held>;
    /// Whether it was still held.
    async fn renew(&self, connection: &mut Self::Connection, held: &Held, ttl: Duration) -> bool;
    /// Whether it was still held.
    async fn release(&self, connection: &mut Self::Connection, held: &Held) -> bool;
    /// Begins a transaction.
    async fn begin(&self, connection: &mut Self::Connection);
    /// Whether the lock is held, asked inside the transaction.
    async fn check(&self, connection: &mut Self::Connection, held: &Held) -> bool;
    /// Writes a line in the transaction.
    async fn write(&self, connection: &mut Self::Connection, line: &str);
    /// Commits the transaction.
    async fn commit(&self, connection: &mut Self::Connection);
    /// The lines that are committed, in their order.
    async fn written(&self) -> Vec<String>;
    /// Lets time pass by the database's clock.
    async fn pass(&self, span: Duration);
}

/// Makes a test of every case: `lock_suite!(block_on, harness)`.
#[macro_export]
macro_rules! lock_suite {
    ($block_on:path, $harness:expr) => {
        $crate::lock_suite! { @ $block_on, $harness,
            lck_01_a_name_has_one_holder
            lck_02_a_lock_expires_by_the_databases_clock
            lck_03_a_renewed_lock_lasts
            lck_04_a_released_lock_is_free_at_once
            lck_05_a_holder_that_lost_it_finds_out_in_its_transaction
            lck_06_a_checked_lock_is_kept_until_the_transaction_ends
            lck_07_many_at_once_go_one_after_the_other
            lck_08_a_holder_that_dies_is_waited_for
        }
    };
    (@ $block_on:path, $harness:expr, $($case:ident)+) => {
        $(
            #[test]
            fn $case() {
                let harness = $harness;
                $block_on($crate::lock::$case(&harness));
            }
        )+
    };
}

const TTL: Duration = Duration::from_secs(10);
const ALMOST: Duration = Duration::from_millis(9_999);
const REST: Duration = Duration::from_millis(1);

/// LCK-01, A3: exclusive, by name.
pub async fn lck_01_a_name_has_one_holder<H: LockHarness>(harness: &H) {
    let (mut one, mut other) = (harness.connect().await, harness.connect().await);
    let held = harness.take(&mut one, "guest:1", TTL).await.expect("it is free");
    assert_eq!(harness.take(&mut other, "guest:1", TTL).await, None, "somebody has it");
    assert_eq!(harness.take(&mut one, "guest:1", TTL).await, None, "nor does its holder get it twice");
    assert!(harness.take(&mut other, "guest:2", TTL).await.is_some(), "another name is another lock");
    assert!(harness.take(&mut other, "GUEST:1", TTL).await.is_some(), "letter by letter");
    assert!(harness.release(&mut one, &held).await);
}

/// LCK-02, A3: expiring; whoever takes it next has a higher fence.
pub async fn lck_02_a_lock_expires_by_the_databases_clock<H: LockHarness>(harness: &H) {
    let (mut one, mut other) = (harness.connect().await, harness.connect().await);
    let held = harness.take(&mut one, "n", TTL).await.expect("it is free");
    harness.pass(ALMOST).await;
    assert_eq!(harness.take(&mut other, "n", TTL).await, None, "not yet");
    harness.pass(REST).await;
    let next = harness.take(&mut other, "n", TTL).await.expect("it has expired");
    assert!(next.fence > held.fence, "{next:?} after {held:?}");
    assert!(!harness.renew(&mut one, &held, TTL).await, "it is lost");
    assert!(!harness.release(&mut one, &held).await, "and not the old holder's to give back");
    assert_eq!(harness.take(&mut one, "n", TTL).await, None, "the new holder has it still");
}

/// LCK-03, A3: renewed while its holder works; not after it has expired.
pub async fn lck_03_a_renewed_lock_lasts<H: LockHarness>(harness: &H) {
    let (mut one, mut other) = (harness.connect().await, harness.connect().await);
    let held = harness.take(&mut one, "n", TTL).await.expect("it is free");
    for _ in 0..3 {
        harness.pass(ALMOST).await;
        assert!(harness.renew(&mut one, &held, TTL).await);
    }
    harness.pass(ALMOST).await;
    assert_eq!(harness.take(&mut other, "n", TTL).await, None);
    harness.pass(REST).await;
    assert!(!harness.renew(&mut one, &held, TTL).await, "too late, though nobody has it");
    assert!(harness.take(&mut other, "n", TTL).await.is_some());
}

/// LCK-04, A3: released after COMMIT, it is the next one's at once.
pub async fn lck_04_a_released_lock_is_free_at_once<H: LockHarness>(harness: &H) {
    let (mut one, mut other) = (harness.connect().await, harness.connect().await);
    let first = harness.take(&mut one, "n", TTL).await.expect("it is free");
    assert!(harness.release(&mut one, &first).await);
    assert!(!harness.release(&mut one, &first).await, "once");
    let second = harness.take(&mut other, "n", TTL).await.expect("it is free");
    assert!(second.fence > first.fence);
    harness.begin(&mut one).await;
    assert!(!harness.check(&mut one, &first).await);
    harness.commit(&mut one).await;
}

/// LCK-05, A3: fenced. Somebody else has it, or it expired: either is found out inside the transaction.
pub async fn lck_05_a_holder_that_lost_it_finds_out_in_its_transaction<H: LockHarness>(harness: &H) {
    let (mut one, mut other) = (harness.connect().await, harness.connect().await);
    let held = harness.take(&mut one, "n", TTL).await.expect("it is free");
    harness.begin(&mut one).await;
    assert!(harness.check(&mut one, &held).await);
    harness.commit(&mut one).await;
    harness.pass(TTL).await;
    harness.begin(&mut one).await;
    assert!(!harness.check(&mut one, &held).await, "it has expired");
    harness.commit(&mut one).await;
    let next = harness.take(&mut other, "n", TTL).await.expect("it has expired");
    harness.begin(&mut one).await;
    assert!(!harness.check(&mut one, &held).await, "somebody else has it");
    harness.commit(&mut one).await;
    harness.begin(&mut other).await;
    assert!(harness.check(&mut other, &next).await);
    harness.commit(&mut other).await;
}

/// LCK-06, A3: what a holder writes after its check is there before anybody else has the lock, however late it commits.
pub async fn lck_06_a_checked_lock_is_kept_until_the_transaction_ends<H: LockHarness>(harness: &H) {
    let (mut one, mut other) = (harness.connect().await, harness.connect().await);
    let held = harness.take(&mut one, "n", TTL).await.expect("it is free");
    harness.begin(&mut one).await;
    assert!(harness.check(&mut one, &held).await);
    harness.pass(TTL * 2).await;
    let taking = async {
        loop {
            if let Some(next) = harness.take(&mut other, "n", TTL).await {
                return (next, harness.written().await);
            }
            yielded().await;
        }
    };
    let working = async {
        // Long enough for whoever does not wait.
        for _ in 0..20 {
            harness.written().await;
            yielded().await;
        }
        harness.write(&mut one, "by the first").await;
        harness.commit(&mut one).await;
    };
    let ((next, seen), ()) = join(taking, working).await;
    assert!(next.fence > held.fence);
    assert_eq!(seen, ["by the first"], "it was taken before the holder's transaction had ended");
}

/// LCK-07, A3: many that want it at once have it one after the other, each with a higher fence.
pub async fn lck_07_many_at_once_go_one_after_the_other<H: LockHarness>(harness: &H) {
    const HOLDERS: usize = 6;
    const EACH: usize = 5;
    let inside = Cell::new(0);
    let holder = |_| async {
        let mut connection = harness.connect().await;
        let mut done = 0;
        while done < EACH {
            let Some(held) = harness.take(&mut connection, "n", TTL).await else {
                yielded().await;
                continue;
            };
            inside.set(inside.get() + 1);
            assert_eq!(inside.get(), 1, "two have it");
            harness.begin(&mut connection).await;
            assert!(harness.check(&mut connection, &held).await);
            harness.write(&mut connection, &format!("{:06}", held.fence)).await;
            yielded().await;
            harness.commit(&mut connection).await;
            inside.set(inside.get() - 1);
            assert!(harness.release(&mut connection, &held).await);
            done += 1;
        }
    };
    join_all((0..HOLDERS).map(holder)).await;
    let fences = harness.written().await;
    assert_eq!(fences.len(), HOLDERS * EACH);
    assert!(fences.is_sorted_by(|one, next| one < next), "{fences:?}");
}

/// LCK-08, A3: a holder whose process dies keeps it until it expires; what it had not committed is gone.
pub async fn lck_08_a_holder_that_dies_is_waited_for<H: LockHarness>(harness: &H) {
    let mut other = harness.connect().await;
    let mut dying = harness.connect().await;
    let held = harness.take(&mut dying, "n", TTL).await.expect("it is free");
    harness.begin(&mut dying).await;
    harness.write(&mut dying, "never seen").await;
    drop(dying);
    assert_eq!(harness.take(&mut other, "n", TTL).await, None);
    harness.pass(TTL).await;
    let next = harness.take(&mut other, "n", TTL).await.expect("it has expired");
    assert!(next.fence > held.fence);
    assert!(harness.written().await.is_empty());
}

/// Lets others go on.
async fn yielded() {
    let mut passed = false;
    poll_fn(|context| {
        if passed {
            return Poll::Ready(());
        }
        passed = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests {
    /// A case that the macro forgets would never run.
    #[test]
    fn the_macro_names_every_case() {
        let text = include_str!("lock.rs");
        let (_, rest) = text.split_once("@ $block_on, $harness,").unwrap();
        let (listed, _) = rest.split_once('}').unwrap();
        let cases = text.lines().filter_map(|line| line.strip_prefix("pub async fn "));
        let cases: Vec<&str> = cases.filter_map(|line| line.split('<').next()).collect();
        assert_eq!(listed.split_whitespace().collect::<Vec<_>>(), cases);
        assert!(cases.len() >= 8);
    }
}
