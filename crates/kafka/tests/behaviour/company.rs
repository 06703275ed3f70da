//! A topic that refuses in the company of a busy one: the healthy topic has everything, in order, and nothing twice.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join;
use postrider_core::Verdict;
use postrider_kafka::KafkaSink;
use postrider_servers::{Topic, kafka, topic_name};

use crate::letters::{Letter, ids, letter, open, send};
use crate::wait::block_on;

const DEADLINE: Duration = Duration::from_secs(10);
const REFUSALS: usize = 15;
const KEYS: usize = 20;

/// Sends one batch after the other, as a relay does: what has no receipt goes again, before anything newer; how many there were.
async fn stream(sink: &KafkaSink, topic: &str, over: &AtomicBool) -> usize {
    const BATCH: usize = 400;
    let (mut open, mut made): (Vec<usize>, usize) = (Vec::new(), 0);
    while !open.is_empty() || !over.load(Ordering::SeqCst) {
        let more = if over.load(Ordering::SeqCst) { 0 } else { BATCH - open.len().min(BATCH) };
        open.extend(made..made + more);
        made += more;
        let mut led = BTreeSet::new();
        let batch: Vec<Letter> = open
            .iter()
            .map(|n| {
                let mut letter = letter(topic, &format!("k{}-{n}", (b'a' + (n % KEYS) as u8) as char));
                letter.leads = led.insert(letter.key.clone());
                letter
            })
            .collect();
        let verdicts = send(sink, &batch, DEADLINE).await;
        open = open
            .iter()
            .zip(&verdicts)
            .filter(|(_, one)| **one != Verdict::Receipt)
            .map(|(n, _)| *n)
            .collect();
    }
    made
}

/// F8, B5: a compacted topic refuses what has no key, time and again, each time through the producer that the busy topic shares:
/// librdkafka counts that as fatal, and what is on its way to the healthy topic is answered all the same.
#[test]
fn a_refusal_repeats_nothing_of_a_healthy_topic() {
    let (good_name, bad_name) = (topic_name("good"), topic_name("compacted"));
    let mut good = Topic::create_on(&kafka(), &good_name, 3, &[]);
    let _bad = Topic::create_on(&kafka(), &bad_name, 1, &[("cleanup.policy", "compact")]);
    let sink = open(&kafka(), DEADLINE);
    let over = AtomicBool::new(false);
    let refuse = async {
        for round in 0..REFUSALS {
            // A receipt brings the topic back to the shared producer.
            let keyed = send(&sink, &[letter(&bad_name, &format!("b{round}!"))], DEADLINE).await;
            assert_eq!(keyed, [Verdict::Receipt], "round {round}");
            let mut bare = letter(&bad_name, "x!");
            (bare.key, bare.envelope.aggregate_id) = (None, "".into());
            let refused = send(&sink, &[bare], DEADLINE).await;
            assert_ne!(refused, [Verdict::Receipt], "round {round}");
        }
        over.store(true, Ordering::SeqCst);
    };
    let (made, ()) = block_on(join(stream(&sink, &good_name, &over), refuse));
    let stored = ids(&mut good);
    let mut of_key: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for id in &stored {
        let (key, number) = id.split_once('-').unwrap();
        of_key.entry(key).or_default().push(number.parse().unwrap());
    }
    assert!(of_key.values().all(|numbers| numbers.is_sorted()), "order");
    assert_eq!(stored.len(), made, "each once");
}
