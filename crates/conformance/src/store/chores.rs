//! STO-06 to STO-09: chores, turns, and what a running source sees of them.

use std::time::Duration;

use postrider_core::source::Source;
use postrider_core::store::Filter;
use postrider_core::{Settlement, State};

use super::counter::{list, mixed, only, state};
use crate::source::SourceHarness;
use crate::source::desk::{
    append, ask, assert_nothing, dead, drain, ids, kill, publish, settle_all, sorted, take,
};

const MINUTE: Duration = Duration::from_secs(60);

/// STO-06: published, and older than it says.
pub async fn sto_06_prune_deletes_old_published_entries_only<H: SourceHarness>(harness: &H) {
    let source = harness.open("one").await;
    let store = harness.store().await;
    mixed(harness, &source).await;
    harness.pass(2 * MINUTE).await;
    append(harness, "y1").await;
    let young = take(&source).await;
    settle_all(&source, young, |id| match id {
        "y1" => Settlement::Published,
        _ => Settlement::Released,
    })
    .await
    .expect("nothing is wrong");
    let old = Filter { older_than: Some(MINUTE), ..Filter::default() };
    assert_eq!(store.prune(&old, false).await.expect("nothing is wrong"), 1);
    assert_eq!(store.prune(&old, false).await.expect("nothing is wrong"), 0, "none is left");
    assert_eq!(list(&*store, &Filter::default()).await, ["d1", "w1", "w2", "n1", "n2", "y1"]);
}

/// STO-06: at most so many at a time.
pub async fn sto_06_prune_works_in_batches<H: SourceHarness>(harness: &H) {
    let source = harness.open("one").await;
    let store = harness.store().await;
    append(harness, "a1 b1 c1 d1 e1").await;
    drain(&source, &ask()).await;
    let two = Filter { limit: Some(2), ..Filter::default() };
    let mut batches = Vec::new();
    while let pruned @ 1.. = store.prune(&two, false).await.expect("nothing is wrong") {
        batches.push(pruned);
    }
    assert_eq!(batches, [2, 2, 1]);
}

/// STO-06: a source goes on where it was.
pub async fn sto_06_what_was_pruned_disturbs_no_source<H: SourceHarness>(harness: &H) {
    let source = harness.open("one").await;
    let store = harness.store().await;
    append(harness, "a1 a2 b1").await;
    drain(&source, &ask()).await;
    assert_eq!(store.prune(&Filter::default(), false).await.expect("nothing is wrong"), 3);
    append(harness, "a3").await;
    assert_eq!(drain(&source, &ask()).await, ["a3"]);
    assert_eq!(store.prune(&Filter::default(), false).await.expect("nothing is wrong"), 1);
    kill(harness, source).await;
    let next = harness.open("two").await;
    assert_nothing(&next, "nothing is left").await;
    append(harness, "a4").await;
    assert_eq!(drain(&next, &ask()).await, ["a4"]);
}

/// STO-07: once.
pub async fn sto_07_reap_gives_back_what_a_dead_holder_left<H: SourceHarness>(harness: &H) {
    let source = harness.open("one").await;
    let store = harness.store().await;
    let appended = append(harness, "a1 b1").await;
    let lost = take(&source).await;
    drop(lost);
    kill(harness, source).await;
    store.reap().await.expect("nothing is wrong");
    assert_eq!(store.reap().await.expect("nothing is wrong"), 0, "what was given back is not held any more");
    for id in &appended {
        assert_eq!(state(&*store, id).await, State::Pending);
    }
    assert_eq!(sorted(drain(&harness.open("two").await, &ask()).await), ["a1", "b1"]);
}

/// STO-07: a living holder's entries, and what waits for its time.
pub async fn sto_07_reap_leaves_what_is_held_or_waiting<H: SourceHarness>(harness: &H) {
    let source = harness.open("one").await;
    let store = harness.store().await;
    let mixed = mixed(harness, &source).await;
    let held = take(&source).await;
    assert_eq!(store.reap().await.expect("nothing is wrong"), 0);
    let waiting = store.show(&mixed.waiting).await.expect("nothing is wrong").expect("it is there").listed;
    assert!(waiting.not_before.is_some() && waiting.retries == 1, "{waiting:?}");
    let came = ids(&held.entries);
    publish(&source, held).await;
    assert!(came.contains(&"n1".into()), "{came:?}");
    assert_eq!(state(&*store, &mixed.pending).await, State::Published);
}

/// STO-08: nobody else while it runs, and nobody before it is due again.
pub async fn sto_08_a_job_has_one_holder_at_a_time<H: SourceHarness>(harness: &H) {
    let (one, two) = (harness.store().await, harness.store().await);
    let turn = one.take_turn("prune", MINUTE).await.expect("nothing is wrong").expect("nobody has it");
    assert!(two.take_turn("prune", MINUTE).await.expect("nothing is wrong").is_none(), "it is taken");
    let other = two.take_turn("reap", MINUTE).await.expect("nothing is wrong");
    assert!(other.is_some(), "another job is another turn");
    one.end_turn(turn, 10 * MINUTE).await.expect("nothing is wrong");
    assert!(two.take_turn("prune", MINUTE).await.expect("nothing is wrong").is_none(), "it is not due");
    harness.pass(10 * MINUTE).await;
    assert!(two.take_turn("prune", MINUTE).await.expect("nothing is wrong").is_some());
}

/// STO-08: a turn lasts no longer than its at-most time.
pub async fn sto_08_a_dead_holders_turn_ends<H: SourceHarness>(harness: &H) {
    let (one, two) = (harness.store().await, harness.store().await);
    let turn = one.take_turn("prune", MINUTE).await.expect("nothing is wrong").expect("nobody has it");
    drop(one);
    harness.pass(MINUTE / 2).await;
    assert!(two.take_turn("prune", MINUTE).await.expect("nothing is wrong").is_none());
    harness.pass(MINUTE).await;
    let next = two.take_turn("prune", MINUTE).await.expect("nothing is wrong").expect("it has run out");
    assert!(next.fence > turn.fence);
}

/// STO-08: whoever was taken over ends nobody's turn.
pub async fn sto_08_a_late_end_of_turn_changes_nothing<H: SourceHarness>(harness: &H) {
    let (one, two) = (harness.store().await, harness.store().await);
    let late = one.take_turn("prune", MINUTE).await.expect("nothing is wrong").expect("nobody has it");
    harness.pass(2 * MINUTE).await;
    let turn = two.take_turn("prune", MINUTE).await.expect("nothing is wrong").expect("it has run out");
    one.end_turn(late, Duration::ZERO).await.expect("it is late, not wrong");
    assert!(one.take_turn("prune", MINUTE).await.expect("nothing is wrong").is_none(), "two has it");
    two.end_turn(turn, Duration::ZERO).await.expect("nothing is wrong");
    assert!(one.take_turn("prune", MINUTE).await.expect("nothing is wrong").is_some());
}

/// STO-09: at its next claim, without a restart, and what stood behind it after it.
pub async fn sto_09_a_running_source_sees_what_was_revived<H: SourceHarness>(harness: &H) {
    let source = harness.open("one").await;
    let store = harness.store().await;
    let appended = append(harness, "a1 a2").await;
    let claim = take(&source).await;
    let settled = |id: &str| if id == "a1" { dead() } else { Settlement::Released };
    settle_all(&source, claim, settled).await.expect("nothing is wrong");
    let before = drain(&source, &ask()).await;
    let held = source.features().ordered && harness.holds_dead();
    assert_eq!(before.is_empty(), held, "{before:?}");
    assert_eq!(store.revive(&only(&appended[0]), false).await.expect("nothing is wrong"), 1);
    let expected: &[&str] = if held { &["a1", "a2"] } else { &["a1"] };
    assert_eq!(drain(&source, &ask()).await, expected);
}

/// STO-09: what was buried is not handed out any more.
pub async fn sto_09_a_running_source_sees_what_was_buried<H: SourceHarness>(harness: &H) {
    let source = harness.open("one").await;
    let store = harness.store().await;
    append(harness, "a1").await;
    drain(&source, &ask()).await;
    let appended = append(harness, "b1 c1").await;
    assert_eq!(store.bury(&only(&appended[0]), "by hand", false).await.expect("nothing is wrong"), 1);
    assert_eq!(drain(&source, &ask()).await, ["c1"]);
    assert_eq!(state(&*store, &appended[0]).await, State::Dead);
    assert_eq!(store.revive(&only(&appended[0]), false).await.expect("nothing is wrong"), 1);
    assert_eq!(drain(&source, &ask()).await, ["b1"]);
}
