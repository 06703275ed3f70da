//! One function per case; its name begins with the number of the MUST that it proves.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join;
use postrider_core::sink::Sink;
use postrider_core::verdict::Rejection;
use postrider_core::{Refusal, Verdict};

use super::answers::{Answers, count, seen, send, send_with, soon};
use super::letters::{Letters, letters};
use super::{SinkHarness, Trouble};

/// SNK-01: what has a receipt is there when the sink is gone without a goodbye.
pub async fn snk_01_a_receipt_means_that_it_is_stored<H: SinkHarness>(harness: &H) {
    let sink = harness.open().await;
    let answers = send(harness, &sink, &letters("a1! b1! a2 -1")).await;
    assert_eq!(answers.received(), ["a1", "b1", "a2", "-1"]);
    drop(sink);
    let stored = harness.stored().await;
    assert_eq!((seen(&stored, "a"), seen(&stored, "b")), (vec!["a1", "a2"], vec!["b1"]));
    assert!(["a1", "b1", "a2", "-1"].iter().all(|id| count(&stored, id) == 1));
}

/// SNK-01: in no trouble is a receipt given for what is not stored.
pub async fn snk_01_trouble_never_brings_a_false_receipt<H: SinkHarness>(harness: &H) {
    let sink = harness.open().await;
    for (round, trouble) in Trouble::ALL.into_iter().enumerate() {
        let batch = letters(&format!("a{round}! b{round}!"));
        let Some(answers) = send_in(harness, &sink, trouble, &batch).await else { continue };
        let stored = harness.stored().await;
        for id in answers.received() {
            assert_eq!(count(&stored, id), 1, "{trouble:?}: {id} has a receipt");
        }
        let again = send(harness, &sink, &batch).await;
        assert_eq!(again.received().len(), batch.len(), "after {trouble:?}");
    }
}

/// SNK-02: one verdict each, whatever it is; `send` counts them.
pub async fn snk_02_each_message_gets_exactly_one_verdict<H: SinkHarness>(harness: &H) {
    let sink = harness.open().await;
    let batch = letters("a1! b1! c1! b2 -1 -2 a2").with_data("c1", too_large(harness));
    let refused = batch.index("b1");
    let answers = send_with(&sink, &batch, soon(harness), |index| index != refused).await;
    assert_eq!(answers.received(), ["a1", "-1", "-2", "a2"]);
    assert_eq!(answers.withheld(), ["b1", "b2"]);
}

/// SNK-02: as many messages as the sink says it takes.
pub async fn snk_02_a_full_batch_is_answered_whole<H: SinkHarness>(harness: &H) {
    const ENOUGH: usize = 10_000;
    let sink = harness.open().await;
    let batch = Letters::many(sink.features().batch_entries_max.min(ENOUGH));
    let answers = send(harness, &sink, &batch).await;
    assert_eq!(answers.received().len(), batch.len());
    assert_eq!(harness.stored().await.len(), batch.len());
}

/// SNK-03: stored, but the answer was lost; sent again it is there twice, and nobody claimed otherwise.
pub async fn snk_03_a_reply_lost_after_the_write_is_unknown<H: SinkHarness>(harness: &H) {
    lost_reply(harness, Trouble::ReplyLostAfterWrite).await;
}

/// SNK-03: the sink cannot tell it from the other loss.
pub async fn snk_03_a_reply_lost_before_the_write_is_unknown<H: SinkHarness>(harness: &H) {
    lost_reply(harness, Trouble::ReplyLostBeforeWrite).await;
}

/// SNK-04: nothing but verdicts tells of it, and when it is over the next call works.
pub async fn snk_04_an_unreachable_sink_is_a_verdict_for_each<H: SinkHarness>(harness: &H) {
    let sink = harness.open().await;
    let batch = letters("a1! b1! -1");
    let Some(answers) = send_in(harness, &sink, Trouble::Unreachable, &batch).await else { return };
    for id in batch.ids() {
        let verdict = answers.of(id);
        let right = matches!(verdict, Verdict::Refusal(Refusal::Busy { .. } | Refusal::Unknown(_)));
        assert!(right, "SNK-04: {id}: {verdict:?}");
    }
    assert_eq!(send(harness, &sink, &batch).await.received(), ["a1", "b1", "-1"]);
}

/// SNK-05: calls that are under way at once do not mix a key's order, where the sink promises a stream.
pub async fn snk_05_a_keys_messages_are_stored_in_order_across_calls_under_way<H: SinkHarness>(harness: &H) {
    let sink = harness.open().await;
    if !sink.features().ordered_stream || sink.features().calls_max < 2 {
        return;
    }
    let (first, second) = (letters("a1! b1! a2"), letters("a3 b2 a4"));
    let (one, two) = join(send(harness, &sink, &first), send(harness, &sink, &second)).await;
    assert_eq!((one.received().len(), two.received().len()), (3, 3));
    let stored = harness.stored().await;
    assert_eq!((seen(&stored, "a"), seen(&stored, "b")), (vec!["a1", "a2", "a3", "a4"], vec!["b1", "b2"]));
}

/// SNK-05: a withheld and a rejected message take their successors in the call with them, and nobody else.
pub async fn snk_05_after_a_refusal_no_later_message_of_the_key_gets_a_receipt<H: SinkHarness>(harness: &H) {
    let sink = harness.open().await;
    let batch = letters("a1! b1! c1! a2 b2 c2 a3 b3 c3").with_data("b2", too_large(harness));
    let refused = batch.index("a2");
    let answers = send_with(&sink, &batch, soon(harness), |index| index != refused).await;
    assert_eq!(answers.received(), ["a1", "b1", "c1", "c2", "c3"]);
    assert_eq!(answers.withheld(), ["a2", "a3", "b3"]);
    let stored = harness.stored().await;
    assert_eq!((seen(&stored, "a"), seen(&stored, "b")), (vec!["a1"], vec!["b1"]));
}

/// SNK-05: the same in later calls, until the relay has heard of it and sends one that leads.
pub async fn snk_05_after_a_refusal_another_call_gets_no_receipt_until_one_leads<H: SinkHarness>(
    harness: &H,
) {
    let sink = harness.open().await;
    send_with(&sink, &letters("a1! b1!"), soon(harness), |index| index != 0).await;
    for late in ["a2", "a3"] {
        assert_eq!(send(harness, &sink, &letters(late)).await.received(), [""; 0]);
    }
    assert_eq!(send(harness, &sink, &letters("b2")).await.received(), ["b2"]);
    assert_eq!(send(harness, &sink, &letters("a1! a2 a3")).await.received(), ["a1", "a2", "a3"]);
    assert_eq!(seen(&harness.stored().await, "a"), ["a1", "a2", "a3"]);
}

/// SNK-05: whatever the trouble, what was sent behind it waits for a lead, and a consumer sees the key in order.
pub async fn snk_05_after_trouble_no_later_message_of_the_key_gets_a_receipt<H: SinkHarness>(harness: &H) {
    for (key, trouble) in ["a", "b", "c", "d"].into_iter().zip(Trouble::ALL) {
        let sink = harness.open().await;
        let first = letters(&format!("{key}1! {key}2"));
        let Some(answers) = send_in(harness, &sink, trouble, &first).await else { continue };
        assert_eq!(answers.received(), [""; 0], "{trouble:?}");
        let behind = send(harness, &sink, &letters(&format!("{key}3"))).await;
        assert_eq!(behind.received(), [""; 0], "{trouble:?}");
        let again = send(harness, &sink, &letters(&format!("{key}1! {key}2 {key}3"))).await;
        assert_eq!(again.received().len(), 3, "{trouble:?}");
        let wanted = [1, 2, 3].map(|n| format!("{key}{n}"));
        assert_eq!(seen(&harness.stored().await, key), wanted, "{trouble:?}");
    }
}

/// SNK-06: it is not stored either.
pub async fn snk_06_without_a_permit_nothing_is_attempted<H: SinkHarness>(harness: &H) {
    let sink = harness.open().await;
    let batch = letters("a1! b1! c1!");
    let answers = send_with(&sink, &batch, soon(harness), |index| index == 1).await;
    assert_eq!((answers.received(), answers.withheld()), (vec!["b1"], vec!["a1", "c1"]));
    let none = send_with(&sink, &batch, soon(harness), |_| false).await;
    assert_eq!(none.withheld(), ["a1", "b1", "c1"]);
    let stored = harness.stored().await;
    assert_eq!((stored.len(), count(&stored, "b1")), (1, 1));
}

/// SNK-07: a deadline that has passed.
pub async fn snk_07_past_the_deadline_everything_is_withheld<H: SinkHarness>(harness: &H) {
    let sink = harness.open().await;
    let deadline = harness.clock().instant();
    let answers = send_with(&sink, &letters("a1! b1! -1"), deadline, |_| true).await;
    assert_eq!(answers.withheld(), ["a1", "b1", "-1"]);
    assert_eq!(harness.stored().await, []);
    assert_eq!(send(harness, &sink, &letters("a1!")).await.received(), ["a1"]);
}

/// SNK-07: silence ends at the deadline, and what comes of it later overtakes nothing.
pub async fn snk_07_what_is_unanswered_at_the_deadline_is_unknown_and_not_overtaken<H: SinkHarness>(
    harness: &H,
) {
    let sink = harness.open().await;
    let batch = letters("a1! b1! a2");
    let Some(answers) = send_in(harness, &sink, Trouble::Silence, &batch).await else { return };
    only_in_doubt(&answers, &["a1", "b1"], "a2");
    assert_eq!(send(harness, &sink, &letters("a1! a2 a3")).await.received(), ["a1", "a2", "a3"]);
    sink.drain(Duration::from_secs(30)).await;
    assert_eq!(seen(&harness.stored().await, "a"), ["a1", "a2", "a3"]);
}

/// SNK-08: over the limit by a byte; at the limit it passes.
pub async fn snk_08_what_is_too_large_is_rejected_and_its_neighbours_flow_on<H: SinkHarness>(harness: &H) {
    let sink = harness.open().await;
    let mut fits = too_large(harness);
    fits.pop();
    let batch = letters("a1! b1! c1! -1").with_data("b1", too_large(harness)).with_data("c1", fits);
    culprit_stands_alone(harness, &send(harness, &sink, &batch).await).await;
}

/// SNK-08: data that is not the JSON it says to be.
pub async fn snk_08_what_cannot_be_encoded_is_rejected_and_its_neighbours_flow_on<H: SinkHarness>(
    harness: &H,
) {
    if !harness.checks_json() {
        return;
    }
    let sink = harness.open().await;
    let batch = letters("a1! b1! c1! -1").with_data("b1", "{\"half\": ");
    culprit_stands_alone(harness, &send(harness, &sink, &batch).await).await;
}

/// SNK-09: by the same sink and by another.
pub async fn snk_09_a_message_sent_again_has_the_same_id_and_bytes<H: SinkHarness>(harness: &H) {
    let (one, other) = (harness.open().await, harness.open().await);
    for sink in [&one, &one, &other] {
        assert_eq!(send(harness, sink, &letters("a1!")).await.received(), ["a1"]);
    }
    let stored = harness.stored().await;
    assert_eq!(count(&stored, "a1"), 3);
    assert!(stored.iter().all(|message| message.bytes == stored[0].bytes));
}

/// SNK-10: and a sink that was drained leaves nothing for later.
pub async fn snk_10_after_drain_everything_accepted_is_durable<H: SinkHarness>(harness: &H) {
    let sink = harness.open().await;
    let answers = send(harness, &sink, &letters("a1! b1! a2")).await;
    sink.drain(Duration::from_secs(30)).await;
    let stored = harness.stored().await;
    assert!(answers.received().iter().all(|id| count(&stored, id) == 1));
    drop(sink);
    assert_eq!(harness.stored().await, stored);
}

/// SNK-11: even by a sink that cannot be reached.
pub async fn snk_11_an_empty_batch_is_answered_at_once<H: SinkHarness>(harness: &H) {
    let sink = harness.open().await;
    send(harness, &sink, &letters("")).await;
    harness.trouble(Trouble::Unreachable);
    send(harness, &sink, &letters("")).await;
    harness.mend();
    assert_eq!(harness.stored().await, []);
}

/// SNK-11: one without a key that fails takes nobody with it.
pub async fn snk_11_messages_without_a_key_do_not_hold_each_other_back<H: SinkHarness>(harness: &H) {
    let sink = harness.open().await;
    let answers = send_with(&sink, &letters("-1 -2 a1!"), soon(harness), |index| index != 0).await;
    assert_eq!(answers.received(), ["-2", "a1"]);
    assert_eq!(send(harness, &sink, &letters("-1 -3")).await.received(), ["-1", "-3"]);
}

/// SNK-12: dropped before it began, and in the middle.
pub async fn snk_12_a_dropped_publish_does_not_harm_later_calls<H: SinkHarness>(harness: &H) {
    let sink = harness.open().await;
    let batch = letters("a1! b1! a2");
    drop(send(harness, &sink, &batch));
    drop(send(harness, &sink, &batch).now_or_never());
    assert_eq!(send(harness, &sink, &letters("a1! a2 b1! c1!")).await.received(), ["a1", "a2", "b1", "c1"]);
    let stored = harness.stored().await;
    assert_eq!((seen(&stored, "a"), seen(&stored, "b")), (vec!["a1", "a2"], vec!["b1"]));
}

async fn lost_reply<H: SinkHarness>(harness: &H, trouble: Trouble) {
    let sink = harness.open().await;
    let batch = letters("a1! b1! a2 -1");
    let Some(answers) = send_in(harness, &sink, trouble, &batch).await else { return };
    only_in_doubt(&answers, &["a1", "b1", "-1"], "a2");
    assert_eq!(send(harness, &sink, &batch).await.received(), ["a1", "b1", "a2", "-1"]);
    let stored = harness.stored().await;
    assert!(batch.ids().all(|id| (1..=2).contains(&count(&stored, id))));
    for message in &stored {
        let first = stored.iter().find(|first| first.id == message.id);
        assert_eq!(first.map(|first| &first.bytes), Some(&message.bytes), "SNK-09: {}", message.id);
    }
}

/// Those are unknown; the one behind is too, or it was held back because of the one before it.
fn only_in_doubt(answers: &Answers, unknown: &[&str], behind: &str) {
    let (said, withheld) = (answers.unknown(), answers.withheld());
    assert!(unknown.iter().all(|id| said.contains(id)), "SNK-03: {unknown:?}, but unknown are {said:?}");
    assert!(said.contains(&behind) || withheld.contains(&behind), "SNK-03: {:?}", answers.of(behind));
}

/// Publishes in trouble, lets the deadline come where only that ends it, and ends the trouble; `None` where the place
/// cannot have it.
async fn send_in<H: SinkHarness>(
    harness: &H,
    sink: &H::Sink,
    trouble: Trouble,
    batch: &Letters,
) -> Option<Answers> {
    const WAIT: Duration = Duration::from_secs(1);
    if !harness.trouble(trouble) {
        return None;
    }
    let answers = if trouble == Trouble::Silence {
        let deadline = harness.clock().instant() + WAIT;
        let time = async {
            harness.struck().await;
            harness.pass(WAIT).await;
        };
        join(send_with(sink, batch, deadline, |_| true), time).await.0
    } else {
        send(harness, sink, batch).await
    };
    harness.mend();
    Some(answers)
}

async fn culprit_stands_alone<H: SinkHarness>(harness: &H, answers: &Answers) {
    assert_eq!(answers.received(), ["a1", "c1", "-1"]);
    let verdict = answers.of("b1");
    let alone = matches!(verdict, Verdict::Refusal(Refusal::Rejected(Rejection { in_company: false, .. })));
    assert!(alone, "SNK-08: {verdict:?}");
    assert_eq!(harness.stored().await.len(), 3);
}

/// JSON that is one byte over the limit; without its last byte it is still JSON.
fn too_large<H: SinkHarness>(harness: &H) -> Vec<u8> {
    let mut number = b"1".repeat(harness.payload_bytes_max());
    number.push(b'1');
    number
}
