//! SRC-09 to SRC-14: what settlements do.

use std::collections::BTreeMap;
use std::time::Duration;

use postrider_core::source::{Claim, Settles, Source, SourceError};
use postrider_core::store::Filter;
use postrider_core::{Settlement, State};

use super::SourceHarness;
use super::desk::{
    append, ask, ask_for, assert_nothing, claim, dead, drain, ids, kill, long, postponed, publish, retried,
    settle_all, sorted, take,
};

/// SRC-09: a holder that slept past its lease and was taken over.
pub async fn src_09_a_stale_claim_settles_nothing<H: SourceHarness>(harness: &H) {
    let (one, two) = (harness.open("one").await, harness.open("two").await);
    let appended = append(harness, "a1").await;
    let stale = take(&one).await;
    harness.pass(one.features().lease_ttl + Duration::from_millis(1)).await;
    let fresh = take(&two).await;
    let answer = settle_all(&one, stale, |_| Settlement::Published).await;
    assert!(matches!(answer, Err(SourceError::Fenced)), "the entry is another's: {answer:?}");
    let shown = harness.store().await.show(&appended[0]).await.expect("nothing is wrong");
    assert_ne!(shown.expect("it is there").listed.state, State::Published);
    settle_all(&two, fresh, |_| retried(1, Duration::ZERO)).await.expect("the lease is in time");
    assert_eq!(ids(&take(&two).await.entries), ["a1"]);
}

/// SRC-10: the same settlements twice.
pub async fn src_10_settling_again_changes_nothing<H: SourceHarness>(harness: &H) {
    let source = harness.open("one").await;
    append(harness, "a1 b1 c1 d1").await;
    let Claim { mut hold, entries, .. } = take(&source).await;
    assert_eq!(ids(&entries), ["a1", "b1", "c1", "d1"]);
    let wait = Duration::from_secs(60);
    let settlements =
        [(0, Settlement::Published), (1, retried(2, wait)), (2, postponed(wait)), (3, Settlement::Released)];
    source.settle(&mut hold, &settlements).await.expect("nothing is wrong");
    source.settle(&mut hold, &settlements).await.expect("settled twice is settled");
    source.release(hold).await.expect("nothing is wrong");
    assert_eq!(drain(&source, &ask()).await, ["d1"]);
    harness.pass(wait).await;
    let claim = take(&source).await;
    let counts: BTreeMap<&str, u32> =
        claim.entries.iter().map(|entry| (&*entry.envelope.id, entry.retries)).collect();
    assert_eq!(counts, BTreeMap::from([("b1", 2), ("c1", 0)]));
}

/// SRC-10: the work was done, the answer was lost.
pub async fn src_10_a_lost_reply_changes_nothing_twice<H: SourceHarness>(harness: &H) {
    let source = harness.open("one").await;
    append(harness, "a1 b1").await;
    let Claim { mut hold, .. } = take(&source).await;
    let wait = Duration::from_secs(60);
    let settlements = [(0, Settlement::Published), (1, retried(1, wait))];
    let at_release = source.features().settles == Settles::AtRelease;
    if at_release {
        source.settle(&mut hold, &settlements).await.expect("nothing is wrong");
    }
    if !harness.lose_next_reply() {
        return;
    }
    if at_release {
        let answer = source.release(hold).await;
        assert!(matches!(answer, Err(SourceError::Unreachable(_))), "{answer:?}");
    } else {
        let answer = source.settle(&mut hold, &settlements).await;
        assert!(matches!(answer, Err(SourceError::Unreachable(_))), "{answer:?}");
        source.settle(&mut hold, &settlements).await.expect("the same call may be made again");
        source.release(hold).await.expect("nothing is wrong");
    }
    assert_nothing(&source, "a1 is published and b1 waits").await;
    harness.pass(wait).await;
    let claim = take(&source).await;
    assert_eq!((ids(&claim.entries), claim.entries[0].retries), (vec!["b1".to_owned()], 1));
}

/// SRC-11: not to this holder, not to the next.
pub async fn src_11_what_is_published_never_comes_again<H: SourceHarness>(harness: &H) {
    let source = harness.open("one").await;
    append(harness, "a1 b1 a2").await;
    assert_eq!(sorted(drain(&source, &ask_for(2)).await), ["a1", "a2", "b1"]);
    assert_nothing(&source, "all is published").await;
    kill(harness, source).await;
    assert_nothing(&harness.open("two").await, "all is published").await;
}

/// SRC-11: dead is dead until somebody revives it.
pub async fn src_11_what_is_dead_comes_when_it_is_revived<H: SourceHarness>(harness: &H) {
    let source = harness.open("one").await;
    let appended = append(harness, "a1").await;
    settle_all(&source, take(&source).await, |_| dead()).await.expect("nothing is wrong");
    harness.pass(long(&source)).await;
    assert_nothing(&source, "it is dead").await;
    kill(harness, source).await;
    let next = harness.open("two").await;
    assert_nothing(&next, "it is dead").await;
    let one = Filter { ids: appended, ..Filter::default() };
    let revived = harness.store().await.revive(&one, false).await;
    assert_eq!(revived.expect("nothing is wrong"), 1);
    assert_eq!(drain(&next, &ask()).await, ["a1"]);
}

/// SRC-12: not before its time, and with its count.
pub async fn src_12_a_retried_entry_comes_when_it_is_due<H: SourceHarness>(harness: &H) {
    let source = harness.open("one").await;
    append(harness, "a1").await;
    let wait = Duration::from_secs(60);
    for retries in 1..=3 {
        let claim = take(&source).await;
        assert_eq!(claim.entries[0].retries, retries - 1);
        settle_all(&source, claim, |_| retried(retries, wait)).await.expect("nothing is wrong");
        harness.pass(wait - Duration::from_secs(1)).await;
        assert_nothing(&source, "it is not due").await;
        harness.pass(Duration::from_secs(1)).await;
    }
    assert_eq!(take(&source).await.entries[0].retries, 3);
}

/// SRC-12: what costs no retry counts none.
pub async fn src_12_a_postponed_entry_keeps_its_count<H: SourceHarness>(harness: &H) {
    let source = harness.open("one").await;
    append(harness, "a1").await;
    let wait = Duration::from_secs(5);
    settle_all(&source, take(&source).await, |_| retried(2, wait)).await.expect("nothing is wrong");
    harness.pass(wait).await;
    settle_all(&source, take(&source).await, |_| postponed(wait)).await.expect("nothing is wrong");
    assert_nothing(&source, "it is not due").await;
    harness.pass(wait).await;
    assert_eq!(take(&source).await.entries[0].retries, 2);
}

/// SRC-13: no count, no delay.
pub async fn src_13_a_released_entry_comes_again_at_once<H: SourceHarness>(harness: &H) {
    let source = harness.open("one").await;
    append(harness, "a1 b1").await;
    for _ in 0..3 {
        let claim = take(&source).await;
        assert_eq!(sorted(ids(&claim.entries)), ["a1", "b1"]);
        assert!(claim.entries.iter().all(|entry| entry.retries == 0));
        settle_all(&source, claim, |_| Settlement::Released).await.expect("nothing is wrong");
    }
    assert_eq!(sorted(drain(&source, &ask()).await), ["a1", "b1"]);
}

/// SRC-13: as if it had not been claimed, whatever became of its neighbours.
pub async fn src_13_a_released_entry_comes_before_its_followers<H: SourceHarness>(harness: &H) {
    let source = harness.open("one").await;
    if !source.features().ordered {
        return;
    }
    append(harness, "a1 b1 a2 b2 a3").await;
    let first = claim(&source, &ask_for(3)).await.expect("there is something to claim");
    assert_eq!(ids(&first.entries), ["a1", "b1", "a2"]);
    let second = claim(&source, &ask()).await.expect("there is something to claim");
    assert_eq!(ids(&second.entries), ["b2", "a3"]);
    let back = |id: &str| if id.starts_with('a') { Settlement::Released } else { Settlement::Published };
    settle_all(&source, first, back).await.expect("nothing is wrong");
    settle_all(&source, second, back).await.expect("nothing is wrong");
    append(harness, "a4").await;
    assert_eq!(drain(&source, &ask_for(1)).await, ["a1", "a2", "a3", "a4"]);
}

/// SRC-14: last first, then the rest.
pub async fn src_14_settlements_come_in_parts_and_in_any_order<H: SourceHarness>(harness: &H) {
    let source = harness.open("one").await;
    append(harness, "a1 b1 c1 d1 e1").await;
    let Claim { mut hold, entries, .. } = take(&source).await;
    assert_eq!(entries.len(), 5);
    for part in [vec![4, 2], vec![], vec![0], vec![3, 1]] {
        let settlements: Vec<_> = part.into_iter().map(|index| (index, Settlement::Published)).collect();
        source.settle(&mut hold, &settlements).await.expect("nothing is wrong");
    }
    source.release(hold).await.expect("nothing is wrong");
    assert_nothing(&source, "all is published").await;
}

/// SRC-14: a holder that dies between two parts.
pub async fn src_14_what_is_left_unsettled_is_not_lost<H: SourceHarness>(harness: &H) {
    let source = harness.open("one").await;
    append(harness, "a1 b1 c1 d1").await;
    let Claim { mut hold, .. } = take(&source).await;
    let some = [(3, Settlement::Published), (1, Settlement::Published)];
    source.settle(&mut hold, &some).await.expect("nothing is wrong");
    drop(hold);
    kill(harness, source).await;
    let next = harness.open("two").await;
    let came = sorted(drain(&next, &ask()).await);
    assert!(came.contains(&"a1".into()) && came.contains(&"c1".into()), "only {came:?} came");
    publish_nothing_more(&next).await;
}

async fn publish_nothing_more<S: Source>(source: &S) {
    if let Some(claim) = claim(source, &ask()).await {
        let came = ids(&claim.entries);
        publish(source, claim).await;
        panic!("{came:?} came twice to one holder");
    }
}
