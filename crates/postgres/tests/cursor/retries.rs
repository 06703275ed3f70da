//! The Commerce team's retry job: how many of its failed rows each run takes (B8).

use std::time::Duration;

use postrider_conformance::source::SourceHarness;

use crate::commerce::{append, retried, settle};
use crate::harness::{Harness, block_on, commerce};
use crate::late::drain;

/// B8: fifty rows of `outbox_failed` with each run, five seconds apart; what is parked behind one is none of the fifty, and goes
/// out as soon as that one has left.
#[test]
fn fifty_are_retried_with_each_run() {
    let outbox = Harness::new(commerce());
    block_on(async {
        let source = outbox.source("relay").await;
        let failed: Vec<i64> =
            (0..60).map(|number| append(&outbox, &format!("e{number}"), &format!("k{number}"))).collect();
        assert_eq!(settle(&source, retried(1, 0)).await.len(), 60);
        let parked = append(&outbox, "successor", "k0");
        let mut first = drain(&source).await;
        let place = |id: i64| first.iter().position(|came| *came == id);
        assert!(place(failed[0]) < place(parked), "in order: {first:?}");
        first.sort_unstable();
        let fifty: Vec<i64> = failed[..50].iter().copied().chain([parked]).collect();
        assert_eq!(first, fifty, "the fifty that failed first, and who waited behind one of them");
        outbox.pass(Duration::from_millis(4_900)).await;
        assert_eq!(drain(&source).await, [0; 0], "the others wait for the next run");
        outbox.pass(Duration::from_millis(100)).await;
        assert_eq!(drain(&source).await, failed[50..]);
    });
}
