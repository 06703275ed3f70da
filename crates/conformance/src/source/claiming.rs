//! SRC-01 to SRC-04, SRC-07 and SRC-08: what is handed out, to whom, in which order.

use postrider_core::source::{Claimed, Source};

use super::SourceHarness;
use super::desk::{
    append, ask, ask_for, assert_nothing, claim, drain, envelopes, ids, kill, of_key, publish, sorted, take,
};

/// SRC-01: every committed entry is handed out, and once it is published, no more.
pub async fn src_01_every_committed_entry_is_handed_out_once<H: SourceHarness>(harness: &H) {
    let source = harness.open("one").await;
    let mut appended = Vec::new();
    for round in 1..=12 {
        let words = format!("a{round} b{round} c{round}");
        append(harness, &words).await;
        appended.extend(words.split(' ').map(str::to_owned));
        if round == 6 {
            let first = claim(&source, &ask_for(7)).await.expect("there is something to claim");
            let came = ids(&first.entries);
            appended.retain(|id| !came.contains(id));
            publish(&source, first).await;
        }
    }
    assert_eq!(sorted(drain(&source, &ask_for(7)).await), sorted(appended));
}

/// SRC-01: nothing of a transaction that was rolled back.
pub async fn src_01_what_was_rolled_back_is_not_handed_out<H: SourceHarness>(harness: &H) {
    let source = harness.open("one").await;
    append(harness, "a1").await;
    harness.append_and_roll_back(envelopes(harness, "a2 b1")).await;
    append(harness, "a3").await;
    let open = harness.begin(envelopes(harness, "c1")).await;
    assert_eq!(drain(&source, &ask()).await, ["a1", "a3"]);
    if let Some(open) = open {
        harness.roll_back(open).await;
    }
    assert_nothing(&source, "all was rolled back").await;
}

/// SRC-02: two holders never have the same entry.
pub async fn src_02_an_entry_has_one_holder<H: SourceHarness>(harness: &H) {
    let (one, two) = (harness.open("one").await, harness.open("two").await);
    append(harness, "a1 b1 c1 d1").await;
    let first = claim(&one, &ask_for(2)).await.expect("there is something to claim");
    let second = claim(&two, &ask()).await;
    let again = claim(&one, &ask()).await;
    let mut came = ids(&first.entries);
    for claim in [&second, &again].into_iter().flatten() {
        came.extend(ids(&claim.entries));
    }
    assert_eq!(sorted(came), ["a1", "b1", "c1", "d1"], "each went to one holder, in one claim");
}

/// SRC-02: whoever extends its claim in time keeps it past the lease.
pub async fn src_02_an_extended_claim_stays_with_its_holder<H: SourceHarness>(harness: &H) {
    let (one, two) = (harness.open("one").await, harness.open("two").await);
    append(harness, "a1").await;
    let mut claim = take(&one).await;
    for _ in 0..4 {
        harness.pass(one.features().lease_ttl / 2).await;
        one.extend(&mut claim.hold).await.expect("the lease is in time");
        assert_nothing(&two, "the claim was extended").await;
    }
    publish(&one, claim).await;
}

/// SRC-03: an id that was drawn early and committed late.
pub async fn src_03_a_late_commit_with_a_low_id_is_not_skipped<H: SourceHarness>(harness: &H) {
    let source = harness.open("one").await;
    let Some(open) = harness.begin(envelopes(harness, "a1 a2")).await else { return };
    append(harness, "b1").await;
    assert_eq!(drain(&source, &ask()).await, ["b1"], "an open transaction delays nobody else");
    append(harness, "b2").await;
    assert_eq!(drain(&source, &ask()).await, ["b2"]);
    harness.commit(open).await;
    assert_eq!(drain(&source, &ask()).await, ["a1", "a2"]);
}

/// SRC-03: a gap outlives the holder that noted it.
pub async fn src_03_a_late_commit_is_not_skipped_by_the_next_holder<H: SourceHarness>(harness: &H) {
    let source = harness.open("one").await;
    let Some(open) = harness.begin(envelopes(harness, "a1")).await else { return };
    append(harness, "b1 b2").await;
    assert_eq!(drain(&source, &ask()).await, ["b1", "b2"]);
    kill(harness, source).await;
    let next = harness.open("two").await;
    assert_nothing(&next, "everything visible is published").await;
    harness.commit(open).await;
    assert_eq!(drain(&next, &ask()).await, ["a1"]);
}

/// SRC-03: ids that will never be seen do not keep a source waiting.
pub async fn src_03_a_rolled_back_id_stops_nothing<H: SourceHarness>(harness: &H) {
    let source = harness.open("one").await;
    harness.append_and_roll_back(envelopes(harness, "a1 a2")).await;
    append(harness, "b1").await;
    assert_eq!(drain(&source, &ask()).await, ["b1"]);
    const ENOUGH: usize = 100;
    for _ in 0..ENOUGH {
        match source.claim(&ask()).await.expect("nothing is wrong") {
            Claimed::Nothing(idle) if idle.gaps_open == 0 => return,
            Claimed::Nothing(_) => harness.pass(std::time::Duration::from_millis(100)).await,
            other => {
                panic!("nothing was left to claim, and got {other:?}", other = std::mem::discriminant(&other))
            }
        }
    }
    panic!("ids that nobody can commit any more stay open");
}

/// SRC-04: within a claim and across overlapping ones.
pub async fn src_04_a_keys_entries_come_in_order_across_claims<H: SourceHarness>(harness: &H) {
    let source = harness.open("one").await;
    if !source.features().ordered {
        return;
    }
    append(harness, "a1 b1 a2 a3 b2 a4").await;
    append(harness, "a5 b3 a6").await;
    let (mut claims, mut came) = (Vec::new(), Vec::new());
    while let Some(claim) = claim(&source, &ask_for(2)).await {
        came.extend(ids(&claim.entries));
        claims.push(claim);
    }
    assert_eq!(of_key(&came, "a"), ["a1", "a2", "a3", "a4", "a5", "a6"]);
    assert_eq!(of_key(&came, "b"), ["b1", "b2", "b3"]);
    for claim in claims {
        publish(&source, claim).await;
    }
    assert_nothing(&source, "all is published").await;
}

/// SRC-04: a key is with one holder for as long as anything of it is unsettled.
pub async fn src_04_no_entry_goes_to_another_while_an_earlier_one_is_unsettled<H: SourceHarness>(
    harness: &H,
) {
    let (one, two) = (harness.open("one").await, harness.open("two").await);
    if !one.features().ordered {
        return;
    }
    append(harness, "a1").await;
    let claim_of_one = take(&one).await;
    append(harness, "a2 a3").await;
    let came = claim(&two, &ask()).await.map(|claim| ids(&claim.entries)).unwrap_or_default();
    assert_eq!(of_key(&came, "a"), [""; 0], "a1 is not settled");
    publish(&one, claim_of_one).await;
}

/// SRC-07: entries and bytes, but always one.
pub async fn src_07_a_claim_keeps_to_its_limits<H: SourceHarness>(harness: &H) {
    let source = harness.open("one").await;
    append(harness, "a1 b1 c1 d1 e1 f1").await;
    let two = claim(&source, &ask_for(2)).await.expect("there is something to claim");
    assert_eq!((two.entries.len(), two.more), (2, true));
    let bytes: usize = two.entries.iter().map(postrider_core::Entry::bytes).sum();
    let by_bytes = postrider_core::source::Ask { bytes_max: bytes, ..ask() };
    let next = claim(&source, &by_bytes).await.expect("there is something to claim");
    assert_eq!((next.entries.len(), next.more), (2, true), "two of this size fit");
    let tiny = postrider_core::source::Ask { bytes_max: 1, ..ask() };
    let one = claim(&source, &tiny).await.expect("there is something to claim");
    assert_eq!((one.entries.len(), one.more), (1, true), "one is handed out however large");
    let mut came: Vec<String> = [&two, &next, &one].iter().flat_map(|claim| ids(&claim.entries)).collect();
    for claim in [two, next, one] {
        publish(&source, claim).await;
    }
    came.extend(drain(&source, &tiny).await);
    assert_eq!(sorted(came), ["a1", "b1", "c1", "d1", "e1", "f1"], "nothing was lost at a limit");
}

/// SRC-08: what is no event is not dropped and stops nothing.
pub async fn src_08_an_unreadable_row_comes_with_its_flaw<H: SourceHarness>(harness: &H) {
    let source = harness.open("one").await;
    let appended = append(harness, "a1 b1 c1").await;
    if !harness.corrupt(&appended[1]).await {
        return;
    }
    let claim = take(&source).await;
    assert_eq!(claim.entries.iter().map(|entry| entry.id.clone()).collect::<Vec<_>>(), appended);
    let flawed: Vec<bool> = claim.entries.iter().map(|entry| entry.flaw.is_some()).collect();
    assert_eq!(flawed, [false, true, false]);
    super::desk::settle_all(&source, claim, |id| match id {
        "a1" | "c1" => postrider_core::Settlement::Published,
        _ => super::desk::dead(),
    })
    .await
    .expect("nothing is wrong");
    assert_nothing(&source, "it is dead").await;
}
