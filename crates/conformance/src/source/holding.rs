//! SRC-05 and SRC-06: what holds a key back, and what the relay holds.

use std::time::Duration;

use postrider_core::Settlement;
use postrider_core::source::Source;

use super::SourceHarness;
use super::desk::{
    allowing, append, ask, ask_for, assert_nothing, claim, dead, drain, holding_key, ids, kill, long, of_key,
    postponed, publish, retried, settle_all, sorted, take,
};

/// SRC-05: a failed try.
pub async fn src_05_a_retried_entry_holds_its_key<H: SourceHarness>(harness: &H) {
    let source = harness.open("one").await;
    let settlement = retried(1, long(&source));
    holds_its_key(harness, source, settlement).await;
}

/// SRC-05: a try in vain.
pub async fn src_05_a_postponed_entry_holds_its_key<H: SourceHarness>(harness: &H) {
    let source = harness.open("one").await;
    let settlement = postponed(long(&source));
    holds_its_key(harness, source, settlement).await;
}

async fn holds_its_key<H: SourceHarness>(harness: &H, source: H::Source, settlement: Settlement) {
    if !source.features().ordered {
        return;
    }
    append(harness, "a1 a2 b1").await;
    let wait = long(&source);
    fail_first(&source, &settlement).await;
    append(harness, "a3 b2").await;
    assert_eq!(drain(&source, &ask()).await, ["b2"], "a waits for a1, and nobody else does");
    harness.pass(wait).await;
    assert_eq!(drain(&source, &ask_for(1)).await, ["a1", "a2", "a3"]);
}

/// Claims a1, a2 and b1: a1 fails, a2 goes back, b1 is published.
async fn fail_first<S: Source>(source: &S, settlement: &Settlement) {
    let claim = take(source).await;
    assert_eq!(ids(&claim.entries), ["a1", "a2", "b1"]);
    let settled = |id: &str| match id {
        "a1" => settlement.clone(),
        "a2" => Settlement::Released,
        _ => Settlement::Published,
    };
    settle_all(source, claim, settled).await.expect("nothing is wrong");
}

/// SRC-05: by `on_dead`.
pub async fn src_05_a_dead_entry_holds_its_key_or_lets_it_go_on<H: SourceHarness>(harness: &H) {
    let source = harness.open("one").await;
    if !source.features().ordered {
        return;
    }
    append(harness, "a1 a2 b1").await;
    fail_first(&source, &dead()).await;
    append(harness, "a3 b2").await;
    let came = drain(&source, &ask()).await;
    let expected = if harness.holds_dead() { vec![] } else { vec!["a2", "a3"] };
    assert_eq!(of_key(&came, "a"), expected);
    assert_eq!(of_key(&came, "b"), ["b2"]);
}

/// SRC-05: across restarts and holders.
pub async fn src_05_a_held_key_stays_held_for_the_next_holder<H: SourceHarness>(harness: &H) {
    let source = harness.open("one").await;
    if !source.features().ordered {
        return;
    }
    append(harness, "a1 a2 b1").await;
    let wait = long(&source);
    fail_first(&source, &retried(3, wait)).await;
    append(harness, "a3 b2").await;
    assert_eq!(drain(&source, &ask()).await, ["b2"]);
    kill(harness, source).await;
    let next = harness.open("two").await;
    append(harness, "a4 b3").await;
    assert_eq!(drain(&next, &ask()).await, ["b3"], "a1 is still waiting");
    harness.pass(wait).await;
    let first = claim(&next, &ask_for(1)).await.expect("a1 is due");
    assert_eq!((ids(&first.entries), first.entries[0].retries), (vec!["a1".to_owned()], 3));
    publish(&next, first).await;
    assert_eq!(drain(&next, &ask_for(2)).await, ["a2", "a3", "a4"]);
}

/// SRC-06: a key that the relay holds.
pub async fn src_06_a_held_key_is_passed_by_and_comes_later<H: SourceHarness>(harness: &H) {
    let source = harness.open("one").await;
    if !source.features().ordered {
        return;
    }
    append(harness, "a1 b1 a2 b2").await;
    assert_eq!(drain(&source, &holding_key("a")).await, ["b1", "b2"]);
    append(harness, "a3 b3").await;
    assert_eq!(drain(&source, &holding_key("a")).await, ["b3"]);
    assert_eq!(drain(&source, &ask_for(1)).await, ["a1", "a2", "a3"]);
}

/// SRC-06: a destination that is away.
pub async fn src_06_a_held_route_is_passed_by_and_comes_later<H: SourceHarness>(harness: &H) {
    let source = harness.open("one").await;
    append(harness, "a1@x b1 a2@x c1@x b2").await;
    let held = allowing("x", 0);
    assert_eq!(sorted(drain(&source, &held).await), ["b1", "b2"]);
    append(harness, "a3@x b3 c2@x").await;
    assert_eq!(drain(&source, &held).await, ["b3"]);
    append(harness, "b4 a4@x").await;
    let came = drain(&source, &ask_for(2)).await;
    assert_eq!(sorted(came.clone()), ["a1", "a2", "a3", "a4", "b4", "c1", "c2"]);
    if source.features().ordered {
        assert_eq!(of_key(&came, "a"), ["a1", "a2", "a3", "a4"]);
        assert_eq!(of_key(&came, "c"), ["c1", "c2"]);
    }
}

/// SRC-06: while a breaker is half open, a few may pass.
pub async fn src_06_an_allowance_lets_that_many_pass<H: SourceHarness>(harness: &H) {
    let source = harness.open("one").await;
    append(harness, "a1@x b1 c1@x d1@x a2@x").await;
    let first = claim(&source, &allowing("x", 2)).await.expect("there is something to claim");
    assert_eq!(sorted(ids(&first.entries)), ["a1", "b1", "c1"]);
    publish(&source, first).await;
    assert_eq!(sorted(drain(&source, &ask()).await), ["a2", "d1"]);
}

/// SRC-06: what was passed by belongs to the outbox, not to who passed it by.
pub async fn src_06_what_was_passed_by_is_not_lost_with_its_holder<H: SourceHarness>(harness: &H) {
    let source = harness.open("one").await;
    if !source.features().ordered {
        return;
    }
    append(harness, "a1@x b1 a2@x c1").await;
    assert_eq!(sorted(drain(&source, &allowing("x", 0)).await), ["b1", "c1"]);
    append(harness, "d1 d2").await;
    assert_eq!(sorted(drain(&source, &holding_key("d")).await), ["a1", "a2"].map(str::to_owned));
    append(harness, "e1@x e2@x f1").await;
    assert_eq!(sorted(drain(&source, &with_both("d", "x")).await), ["f1"]);
    kill(harness, source).await;
    let next = harness.open("two").await;
    assert_eq!(sorted(drain(&next, &ask_for(1)).await), ["d1", "d2", "e1", "e2"]);
    harness.pass(Duration::from_secs(1)).await;
    assert_nothing(&next, "all is published").await;
}

fn with_both(key: &str, kind: &str) -> postrider_core::source::Ask {
    let (by_key, by_kind) = (holding_key(key), allowing(kind, 0));
    let holds = postrider_core::route::Holds { keys: by_key.holds.keys.clone(), ..(*by_kind.holds).clone() };
    postrider_core::source::Ask { holds: holds.into(), ..by_key }
}
