//! A topic grows from three partitions to six under load.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use postrider_core::Verdict;
use postrider_core::clock::Clock;
use postrider_core::sink::{Message, Permit, Sink, Verdicts};
use postrider_kafka::{KafkaConfig, KafkaSink};
use postrider_servers::{Record, Topic, kafka, topic_name};

use crate::clock::QuickClock;
use crate::letters::letters;
use crate::load::id;
use crate::wait::block_on;

/// What a sink knows of a topic is a minute old at most: of its own clock.
const SPEED: u32 = 60;
const DEADLINE: Duration = Duration::from_secs(30 * SPEED as u64);
const KEYS: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
/// Calls before the growth, and after it has been seen.
const CALLS: usize = 20;
const CALLS_MAX: usize = 5_000;

struct Receipts(Mutex<usize>);

impl Permit for Receipts {
    fn ask(&self, _index: usize) -> bool {
        true
    }
}

impl Verdicts for Receipts {
    fn hand(&self, chunk: Vec<(usize, Verdict)>) {
        assert!(chunk.iter().all(|(_, verdict)| *verdict == Verdict::Receipt), "{chunk:?}");
        *self.0.lock().unwrap() += chunk.len();
    }
}

/// DESIGN, Order: a change of the partition count drains first. So a key's events lie in one partition, in order, and from some
/// event on in another, published later than all before; nothing is lost and nothing sent twice.
#[test]
fn a_topic_that_grows_keeps_each_keys_order() {
    let mut topic = Topic::create_on(&kafka(), &topic_name("grows"), 3, &[]);
    let name = topic.name().to_owned();
    let clock: Arc<dyn Clock> = Arc::new(QuickClock::new(SPEED));
    let sink = KafkaSink::open(KafkaConfig::new(kafka()), Arc::clone(&clock)).unwrap();
    let mut calls = 0;
    let mut send = || {
        // Each key twice, the first of them leads.
        let words = KEYS.map(|key| format!("{key}{}! {key}{}", 2 * calls, 2 * calls + 1)).join(" ");
        let letters = letters(&name, &words);
        let messages: Vec<_> = letters
            .iter()
            .map(|one| Message {
                envelope: &one.envelope,
                topic: &one.topic,
                key: one.key.as_ref(),
                leads: one.leads,
            })
            .collect();
        let receipts = Receipts(Mutex::new(0));
        block_on(sink.publish(&messages, clock.instant() + DEADLINE, &receipts, &receipts));
        assert_eq!(*receipts.0.lock().unwrap(), messages.len());
        calls += 1;
        calls
    };
    while send() < CALLS {}
    topic.grow(6);
    while !topic.read().iter().any(|record| record.partition > 2) {
        assert!(send() < CALLS_MAX, "the new partitions are never used");
    }
    let seen = send();
    while send() < seen + CALLS {}

    let records = topic.read();
    assert_eq!(records.len(), records.iter().map(id).collect::<BTreeSet<_>>().len(), "nothing is sent twice");
    let mut moved = 0;
    for key in KEYS {
        let of_key: Vec<&Record> = records.iter().filter(|record| record.key_text() == key).collect();
        let mut places: BTreeMap<i32, Vec<usize>> = BTreeMap::new();
        for record in of_key {
            let number = id(record)[key.len()..].parse().unwrap();
            places.entry(record.partition).or_default().push(number);
        }
        assert!(places.values().all(|numbers| numbers.is_sorted()), "{key}: {places:?}");
        let mut places: Vec<_> = places.into_values().collect();
        places.sort_by_key(|numbers| numbers[0]);
        assert!(places.len() <= 2, "{key} has changed its place once");
        moved += places.len() - 1;
        let numbers = places.concat();
        assert_eq!(numbers, (0..2 * calls).collect::<Vec<_>>(), "{key} is whole and in order");
    }
    assert!(moved > 0, "some keys have another place now");
}
