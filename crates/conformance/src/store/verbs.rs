//! STO-01 to STO-05: what operators see and do.

use std::time::Duration;

use postrider_core::State;
use postrider_core::source::Source;
use postrider_core::store::{Depth, Filter};

use super::counter::{list, mixed, only, state};
use crate::source::SourceHarness;
use crate::source::desk::{append, ask, ask_for, claim, drain, ids, long, publish, take};

/// STO-01: every entry is in one state.
pub async fn sto_01_depth_counts_each_entry_once<H: SourceHarness>(harness: &H) {
    let source = harness.open("one").await;
    mixed(harness, &source).await;
    let depth = harness.store().await.depth().await.expect("nothing is wrong");
    assert_eq!((depth.published, depth.dead, depth.waiting), (1, 1, 1), "{depth:?}");
    assert_eq!(depth.pending + depth.parked, 3, "w2, n1 and n2: {depth:?}");
    assert_eq!(depth.leased, 0, "{depth:?}");
    assert!(depth.oldest.is_some(), "{depth:?}");
}

/// STO-01: nothing is nothing.
pub async fn sto_01_depth_of_an_empty_outbox_is_zero<H: SourceHarness>(harness: &H) {
    let store = harness.store().await;
    assert_eq!(store.depth().await.expect("nothing is wrong"), Depth::default());
    let source = harness.open("one").await;
    append(harness, "a1 b1").await;
    drain(&source, &ask()).await;
    let depth = store.depth().await.expect("nothing is wrong");
    let left = depth.pending + depth.waiting + depth.parked + depth.leased + depth.dead;
    assert_eq!((left, depth.published, depth.oldest), (0, 2, None), "{depth:?}");
}

/// STO-02: each field by itself, and together.
pub async fn sto_02_a_filter_chooses_what_it_says<H: SourceHarness>(harness: &H) {
    let source = harness.open("one").await;
    let store = harness.store().await;
    let old = mixed(harness, &source).await;
    harness.pass(Duration::from_secs(60)).await;
    append(harness, "z1@y z2@y").await;
    let all = Filter::default();
    let by_state = |state| Filter { state: Some(state), ..Filter::default() };
    let minute = Some(Duration::from_secs(30));
    for (filter, expected) in [
        (all.clone(), "p1 d1 w1 w2 n1 n2 z1 z2"),
        (Filter { ids: vec![old.dead.clone(), old.pending.clone()], ..all.clone() }, "d1 n1"),
        (Filter { event_type: Some("acme.x.*".into()), ..all.clone() }, "n1"),
        (Filter { event_type: Some("acme.y.written.v1".into()), ..all.clone() }, "z1 z2"),
        (Filter { event_type: Some("acme.y".into()), ..all.clone() }, ""),
        (Filter { key: Some("w".into()), ..all.clone() }, "w1 w2"),
        (Filter { key: Some("Letter/w".into()), ..all.clone() }, "w1 w2"),
        (Filter { key: Some("Parcel/w".into()), ..all.clone() }, ""),
        (by_state(State::Published), "p1"),
        (by_state(State::Dead), "d1"),
        (by_state(State::Pending), "w1 w2 n1 n2 z1 z2"),
        (Filter { older_than: minute, ..all.clone() }, "p1 d1 w1 w2 n1 n2"),
        (Filter { newer_than: minute, ..all.clone() }, "z1 z2"),
        (Filter { limit: Some(3), ..all.clone() }, "p1 d1 w1"),
        (Filter { key: Some("n".into()), limit: Some(1), ..by_state(State::Pending) }, "n1"),
        (Filter { key: Some("w".into()), ..by_state(State::Dead) }, ""),
    ] {
        let expected: Vec<&str> = expected.split_whitespace().collect();
        assert_eq!(list(&*store, &filter).await, expected, "{filter:?}");
    }
}

/// STO-02: what is listed in the state that a verb is for is what the verb changes.
pub async fn sto_02_verbs_choose_what_a_list_shows<H: SourceHarness>(harness: &H) {
    let source = harness.open("one").await;
    let store = harness.store().await;
    mixed(harness, &source).await;
    let some = Filter { event_type: Some("acme.letter.*".into()), limit: Some(2), ..Filter::default() };
    let pending = Filter { state: Some(State::Pending), ..some.clone() };
    let listed = list(&*store, &pending).await;
    assert_eq!(listed, ["w1", "w2"]);
    let buried = store.bury(&pending, "by hand", false).await.expect("nothing is wrong");
    assert_eq!(buried, 2);
    let dead = Filter { state: Some(State::Dead), limit: None, ..some };
    assert_eq!(list(&*store, &dead).await, ["d1", "w1", "w2"]);
    let revived = store.revive(&dead, false).await.expect("nothing is wrong");
    assert_eq!((revived, list(&*store, &dead).await.len()), (3, 0));
}

/// STO-02: one entry, in full.
pub async fn sto_02_show_tells_what_a_list_tells<H: SourceHarness>(harness: &H) {
    let source = harness.open("one").await;
    let store = harness.store().await;
    let mixed = mixed(harness, &source).await;
    for id in [&mixed.published, &mixed.dead, &mixed.waiting, &mixed.behind, &mixed.pending] {
        let listed = store.list(&only(id)).await.expect("nothing is wrong");
        let shown = store.show(id).await.expect("nothing is wrong").expect("it is there");
        assert_eq!(listed, std::slice::from_ref(&shown.listed));
        assert_eq!((&shown.entry.id, &shown.entry.envelope.id), (id, &shown.listed.event_id));
        let by_event = postrider_core::EntryId::Text(shown.listed.event_id.clone());
        let by_event = store.show(&by_event).await.expect("nothing is wrong");
        assert_eq!(by_event.as_ref(), Some(&shown), "the event's id is as good as the row's");
    }
    let waiting = store.show(&mixed.waiting).await.expect("nothing is wrong").expect("it is there").listed;
    assert!(waiting.not_before.is_some_and(|due| due > harness.clock().now()), "{waiting:?}");
    assert_eq!((waiting.retries, waiting.error.as_deref()), (1, Some("the broker said no")));
    let other = postrider_core::EntryId::Int(1_000_000);
    assert!(store.show(&other).await.expect("nothing is wrong").is_none());
}

/// STO-03: it answers what the real one would, and changes nothing.
pub async fn sto_03_a_dry_run_writes_nothing<H: SourceHarness>(harness: &H) {
    let source = harness.open("one").await;
    let store = harness.store().await;
    mixed(harness, &source).await;
    let all = Filter::default();
    let (depth, lines) = (store.depth().await, store.list(&all).await);
    let (depth, lines) = (depth.expect("nothing is wrong"), lines.expect("nothing is wrong"));
    let would = [
        store.revive(&all, true).await.expect("nothing is wrong"),
        store.bury(&all, "by hand", true).await.expect("nothing is wrong"),
        store.prune(&all, true).await.expect("nothing is wrong"),
    ];
    assert_eq!(would, [1, 4, 1]);
    assert_eq!(store.depth().await.expect("nothing is wrong"), depth);
    assert_eq!(store.list(&all).await.expect("nothing is wrong"), lines);
    assert_eq!(store.prune(&all, false).await.expect("nothing is wrong"), would[2]);
    assert_eq!(store.revive(&all, false).await.expect("nothing is wrong"), would[0]);
}

/// STO-04: pending, with no retries counted; and only dead ones.
pub async fn sto_04_revive_makes_dead_entries_pending<H: SourceHarness>(harness: &H) {
    let source = harness.open("one").await;
    let store = harness.store().await;
    let mixed = mixed(harness, &source).await;
    assert_eq!(store.revive(&only(&mixed.waiting), false).await.expect("nothing is wrong"), 0);
    assert_eq!(store.revive(&only(&mixed.published), false).await.expect("nothing is wrong"), 0);
    assert_eq!(store.revive(&only(&mixed.dead), false).await.expect("nothing is wrong"), 1);
    assert_eq!(state(&*store, &mixed.dead).await, State::Pending);
    assert_eq!(state(&*store, &mixed.published).await, State::Published);
    let claim = take(&source).await;
    let revived = claim.entries.iter().find(|entry| entry.id == mixed.dead).expect("it is pending");
    assert_eq!(revived.retries, 0);
}

/// STO-05: dead, with the operator's reason.
pub async fn sto_05_bury_makes_pending_entries_dead<H: SourceHarness>(harness: &H) {
    let source = harness.open("one").await;
    let store = harness.store().await;
    let mixed = mixed(harness, &source).await;
    for id in [&mixed.pending, &mixed.waiting, &mixed.behind] {
        assert_eq!(store.bury(&only(id), "by hand", false).await.expect("nothing is wrong"), 1);
        let shown = store.show(id).await.expect("nothing is wrong").expect("it is there").listed;
        assert_eq!((shown.state, shown.error.as_deref()), (State::Dead, Some("by hand")));
    }
    assert_eq!(store.bury(&only(&mixed.dead), "by hand", false).await.expect("nothing is wrong"), 0);
    harness.pass(long(&source)).await;
    let came = drain(&source, &ask()).await;
    let expected: &[&str] = if source.features().ordered && harness.holds_dead() { &[] } else { &["n2"] };
    assert_eq!(came, expected);
}

/// STO-05: what is published, or comes to be, stays so.
pub async fn sto_05_bury_leaves_what_is_published_or_held<H: SourceHarness>(harness: &H) {
    let source = harness.open("one").await;
    let store = harness.store().await;
    let appended = append(harness, "a1 b1 c1").await;
    publish(&source, claim(&source, &ask_for(1)).await.expect("there is something to claim")).await;
    let held = take(&source).await;
    assert_eq!(ids(&held.entries), ["b1", "c1"]);
    store.bury(&Filter::default(), "by hand", false).await.expect("nothing is wrong");
    assert_eq!(state(&*store, &appended[0]).await, State::Published);
    publish(&source, held).await;
    for id in &appended {
        assert_eq!(state(&*store, id).await, State::Published);
    }
    append(harness, "b2 c2").await;
    assert_eq!(drain(&source, &ask()).await, ["b2", "c2"], "a verb that came too late holds nobody back");
}
