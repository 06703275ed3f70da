//! SRC-15 to SRC-17: how claims and holders end.

use std::time::Duration;

use postrider_core::Settlement;
use postrider_core::source::{Claim, Settles, Source};

use super::SourceHarness;
use super::desk::{append, ask, assert_nothing, drain, ids, kill, publish, sorted, take};

/// SRC-15: what was settled stays settled, the rest is there at once, for anybody.
pub async fn src_15_a_release_gives_the_rest_back_at_once<H: SourceHarness>(harness: &H) {
    let one = harness.open("one").await;
    append(harness, "a1 b1 c1 d1").await;
    let Claim { mut hold, .. } = take(&one).await;
    let some = [(0, Settlement::Published), (1, Settlement::Published)];
    one.settle(&mut hold, &some).await.expect("nothing is wrong");
    one.release(hold).await.expect("nothing is wrong");
    let again = take(&one).await;
    assert_eq!(sorted(ids(&again.entries)), ["c1", "d1"]);
    one.release(again.hold).await.expect("nothing is wrong");
    one.retire().await.expect("nothing is wrong");
    let two = harness.open("two").await;
    assert_eq!(sorted(drain(&two, &ask()).await), ["c1", "d1"]);
}

/// SRC-15: and it stays so when its holder dies; by prefix, up to the first that is unsettled.
pub async fn src_15_what_was_settled_outlives_its_holder<H: SourceHarness>(harness: &H) {
    let one = harness.open("one").await;
    append(harness, "a1 b1 c1 d1").await;
    let Claim { mut hold, .. } = take(&one).await;
    let some = [(0, Settlement::Published), (1, Settlement::Published)];
    one.settle(&mut hold, &some).await.expect("nothing is wrong");
    if one.features().settles == Settles::AtRelease {
        one.release(hold).await.expect("nothing is wrong");
    }
    kill(harness, one).await;
    let two = harness.open("two").await;
    assert_eq!(sorted(drain(&two, &ask()).await), ["c1", "d1"]);
}

/// SRC-16: no longer than the lease, whatever it held.
pub async fn src_16_a_dead_holder_holds_nothing_for_longer_than_its_lease<H: SourceHarness>(harness: &H) {
    let (one, two) = (harness.open("one").await, harness.open("two").await);
    append(harness, "a1 b1 a2").await;
    let lost = take(&one).await;
    assert_eq!(lost.entries.len(), 3);
    assert_nothing(&two, "the holder lives").await;
    drop(lost);
    kill(harness, one).await;
    let came = take(&two).await;
    assert_eq!(sorted(ids(&came.entries)), ["a1", "a2", "b1"]);
    publish(&two, came).await;
}

/// SRC-17: the next one need not wait for the lease.
pub async fn src_17_a_retired_holder_makes_nobody_wait<H: SourceHarness>(harness: &H) {
    let (one, two) = (harness.open("one").await, harness.open("two").await);
    append(harness, "a1 b1").await;
    let claim = take(&one).await;
    publish(&one, claim).await;
    append(harness, "a2").await;
    one.retire().await.expect("nothing is wrong");
    assert_eq!(drain(&two, &ask()).await, ["a2"], "no time has passed");
    two.retire().await.expect("nothing is wrong");
    append(harness, "a3").await;
    harness.pass(Duration::from_millis(1)).await;
    assert_eq!(drain(&one, &ask()).await, ["a3"], "a retired holder may come back");
}
