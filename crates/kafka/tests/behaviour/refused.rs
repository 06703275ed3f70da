//! Topics that refuse: what is too large for them, and writes that their replicas cannot keep.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join;
use postrider_core::verdict::{Rejection, Scope, Silence};
use postrider_core::{Refusal, Verdict};
use postrider_kafka::KafkaSink;
use postrider_servers::{KafkaOptions, PrivateKafka, Topic, kafka, topic_name};

use crate::letters::{Letter, ids, letter, letters, open, receipts, send};
use crate::wait::{block_on, moment};

const DEADLINE: Duration = Duration::from_secs(10);

fn topic(config: &[(&str, &str)]) -> Topic {
    Topic::create_on(&kafka(), &topic_name("refused"), 1, config)
}

fn is_rejected(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Refusal(Refusal::Rejected(Rejection { in_company: false, .. })))
}

/// Sends these words, some of them large, as [`send_all_as`] does.
pub(crate) async fn send_all(sink: &KafkaSink, name: &str, words: &[String], large: &[usize]) -> Vec<usize> {
    let write = |n: usize| {
        let letter = letter(name, &words[n]);
        if large.contains(&n) { letter.of_bytes(5_000) } else { letter }
    };
    send_all_as(sink, words.len(), write).await
}

/// Sends as a relay does until each is received or rejected: what got neither goes again, in order; who was rejected.
pub(crate) async fn send_all_as(
    sink: &KafkaSink,
    count: usize,
    write: impl Fn(usize) -> Letter,
) -> Vec<usize> {
    let mut open: Vec<usize> = (0..count).collect();
    let mut rejected = Vec::new();
    for _ in 0..40 {
        let mut led = BTreeSet::new();
        let batch: Vec<Letter> = open
            .iter()
            .map(|n| {
                let mut letter = write(*n);
                letter.leads = led.insert(letter.key.clone());
                letter
            })
            .collect();
        let verdicts = send(sink, &batch, DEADLINE).await;
        let answered = open.iter().zip(&verdicts);
        rejected.extend(answered.clone().filter(|(_, verdict)| is_rejected(verdict)).map(|(n, _)| *n));
        let settled = |verdict: &Verdict| *verdict == Verdict::Receipt || is_rejected(verdict);
        open = answered.filter(|(_, verdict)| !settled(verdict)).map(|(n, _)| *n).collect();
        if open.is_empty() {
            return rejected;
        }
    }
    panic!("{} of {count} have neither a receipt nor a rejection", open.len());
}

/// Every word but the rejected ones is in the topic, each key in order.
#[track_caller]
pub(crate) fn arrived_in_order(topic: &mut Topic, words: &[String], rejected: &[usize]) {
    let stored = ids(topic);
    for key in ["a", "b", "c"] {
        let wanted: Vec<&String> = words
            .iter()
            .enumerate()
            .filter(|(n, word)| word.starts_with(key) && !rejected.contains(n))
            .map(|(_, word)| word)
            .collect();
        let mut seen = BTreeSet::new();
        let stored: Vec<&String> =
            stored.iter().filter(|id| id.starts_with(key) && seen.insert((*id).clone())).collect();
        assert_eq!(stored, wanted, "key {key}");
    }
}

/// SNK-08, DESIGN's `Rejected`: over the topic's limit and under the client's, with small neighbours on the same partition:
/// it alone is rejected, they all arrive, in order.
#[test]
fn a_message_over_the_topics_limit_is_rejected_alone_and_its_neighbours_arrive() {
    let mut topic = topic(&[("max.message.bytes", "3000")]);
    let words: Vec<String> = (0..60).map(|n| format!("{}{}", ["a", "b", "c"][n % 3], n)).collect();
    let sink = open(&kafka(), DEADLINE);
    let name = topic.name().to_owned();
    let rejected = block_on(send_all(&sink, &name, &words, &[20, 41]));
    assert_eq!(rejected, [20, 41]);
    arrived_in_order(&mut topic, &words, &[20, 41]);
}

/// A topic whose limit is under our batches: nobody is rejected, and batches become small enough to pass.
#[test]
fn small_messages_pass_a_topic_whose_limit_is_lower_than_a_batch() {
    let mut topic = topic(&[("max.message.bytes", "20000")]);
    let sink = open(&kafka(), DEADLINE);
    let name = topic.name().to_owned();
    let words: Vec<String> = (0..400).map(|n| format!("a{n}")).collect();
    assert_eq!(block_on(send_all(&sink, &name, &words, &[])), [0_usize; 0]);
    let mut seen = BTreeSet::new();
    let stored: Vec<String> = ids(&mut topic).into_iter().filter(|id| seen.insert(id.clone())).collect();
    assert_eq!(stored, words);
}

/// Order: the first request of a new producer is refused; a broker that does not know the producer would take the second.
#[test]
fn the_first_message_of_a_new_producer_is_refused_and_nothing_overtakes_it() {
    let mut topic = topic(&[("max.message.bytes", "3000")]);
    let sink = open(&kafka(), DEADLINE);
    let name = topic.name().to_owned();
    let batch = || {
        let mut batch = letters(&name, "a1! a2 a3");
        batch[0].envelope.data = "1".repeat(5_000).into();
        batch
    };
    let verdicts = block_on(send(&sink, &batch(), DEADLINE));
    assert!(is_rejected(&verdicts[0]), "{verdicts:?}");
    assert_eq!(receipts(&verdicts), 0, "{verdicts:?}");
    assert_eq!(ids(&mut topic), [""; 0]);
    topic.configure(&[("max.message.bytes", "30000")]);
    assert_eq!(receipts(&block_on(send(&sink, &batch(), DEADLINE))), 3);
    assert_eq!(ids(&mut topic), ["a1", "a2", "a3"]);
}

/// F2, B5: a topic whose broker is silent is unknown at the deadline; the others are answered all the while, and the second
/// time they do not even share a purge: it goes through a producer of its own. Mended, it goes on in order.
#[test]
fn one_topics_fault_ends_nobody_else() {
    const WAIT: Duration = Duration::from_secs(3);
    let mut kafka = PrivateKafka::start_with(&KafkaOptions { brokers: 2, ..KafkaOptions::default() });
    let (inside, good_name, bad_name) = (kafka.inside(), topic_name("good"), topic_name("bad"));
    let mut good = Topic::create_placed(&inside, &good_name, &[&[1]], &[]);
    let mut bad = Topic::create_placed(&inside, &bad_name, &[&[2]], &[]);
    let sink = open(&kafka.brokers(), WAIT);
    block_on(async {
        let both = [letters(&good_name, "g0!"), letters(&bad_name, "b0!")].into_iter().flatten();
        assert_eq!(receipts(&send(&sink, &both.collect::<Vec<_>>(), DEADLINE).await), 2);
        kafka.door(2).stall();
        for round in 1..3 {
            let silent = async {
                let verdicts = send(&sink, &letters(&bad_name, "b1! b2"), WAIT).await;
                let blamed = matches!(&verdicts[0], Verdict::Refusal(
                    Refusal::Unknown(Silence::Broker { scope: Scope::Topic, reason }))
                    if reason.0.contains(&bad_name));
                assert!(blamed, "round {round}: {verdicts:?}");
                assert_eq!(receipts(&verdicts), 0);
            };
            let flow = async {
                for n in 0..30 {
                    let verdicts = send(&sink, &letters(&good_name, &format!("g{round}{n:02}!")), WAIT).await;
                    assert_eq!(receipts(&verdicts), 1, "round {round}: {verdicts:?}");
                    moment(100).await;
                }
            };
            join(silent, flow).await;
        }
        kafka.door(2).cut();
        kafka.door(2).resume();
        assert_eq!(receipts(&send(&sink, &letters(&bad_name, "b1! b2 b3"), DEADLINE).await), 3);
        assert_eq!(receipts(&send(&sink, &letters(&bad_name, "b4!"), DEADLINE).await), 1);
    });
    let mut seen = BTreeSet::new();
    let stored: Vec<String> = ids(&mut bad).into_iter().filter(|id| seen.insert(id.clone())).collect();
    assert_eq!(stored, ["b0", "b1", "b2", "b3", "b4"]);
    assert_eq!(ids(&mut good).len(), 61, "not one of them twice");
}
