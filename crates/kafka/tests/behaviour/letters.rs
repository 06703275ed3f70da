//! Sends a few messages and gathers what is said of each.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use postrider_conformance::sink::envelope;
use postrider_core::clock::Clock;
use postrider_core::sink::{Message, Permit, Sink, Verdicts};
use postrider_core::{Envelope, Key, Verdict};
use postrider_kafka::{KafkaConfig, KafkaSink};
use postrider_relay::SystemClock;
use postrider_servers::Topic;

use crate::load::id;

/// A message: its id is its key and its number.
pub(crate) struct Letter {
    pub(crate) topic: String,
    pub(crate) envelope: Envelope,
    pub(crate) key: Option<Key>,
    pub(crate) leads: bool,
}

/// `a1!` is event `a1` of key `a`, and leads.
pub(crate) fn letters(topic: &str, words: &str) -> Vec<Letter> {
    words.split_whitespace().map(|word| letter(topic, word)).collect()
}

pub(crate) fn letter(topic: &str, word: &str) -> Letter {
    let id = word.trim_end_matches('!');
    let key = id.trim_end_matches(|c: char| c.is_ascii_digit());
    Letter {
        topic: topic.to_owned(),
        envelope: envelope(id, key),
        key: Some(Key::new("Letter", key.to_owned())),
        leads: word.ends_with('!'),
    }
}

impl Letter {
    /// The same with so many bytes of data.
    pub(crate) fn of_bytes(mut self, bytes: usize) -> Self {
        self.envelope.data = "1".repeat(bytes).into();
        self
    }
}

/// A sink with deadlines of seconds.
pub(crate) fn open(brokers: &str, deadline: Duration) -> KafkaSink {
    let mut config = KafkaConfig::new(brokers);
    config.publish_deadline = deadline;
    KafkaSink::open(config, clock()).unwrap()
}

/// One for all, so that instants can be compared.
pub(crate) fn clock() -> Arc<dyn Clock> {
    static CLOCK: std::sync::LazyLock<Arc<SystemClock>> = std::sync::LazyLock::new(Arc::default);
    CLOCK.clone()
}

/// Publishes with a permit for everything; the verdicts in the messages' order.
pub(crate) async fn send(sink: &impl Sink, letters: &[Letter], within: Duration) -> Vec<Verdict> {
    let messages: Vec<_> = letters
        .iter()
        .map(|letter| Message {
            envelope: &letter.envelope,
            topic: &letter.topic,
            key: letter.key.as_ref(),
            leads: letter.leads,
        })
        .collect();
    let gathered = Gathered(Mutex::new(vec![None; letters.len()]));
    sink.publish(&messages, clock().instant() + within, &gathered, &gathered).await;
    gathered.0.into_inner().unwrap().into_iter().map(|verdict| verdict.expect("one verdict each")).collect()
}

/// How many got a receipt.
pub(crate) fn receipts(verdicts: &[Verdict]) -> usize {
    verdicts.iter().filter(|verdict| **verdict == Verdict::Receipt).count()
}

/// The ids in a topic, in order within a partition.
pub(crate) fn ids(topic: &mut Topic) -> Vec<String> {
    topic.read().iter().map(id).collect()
}

struct Gathered(Mutex<Vec<Option<Verdict>>>);

impl Permit for Gathered {
    fn ask(&self, _index: usize) -> bool {
        true
    }
}

impl Verdicts for Gathered {
    fn hand(&self, chunk: Vec<(usize, Verdict)>) {
        let mut verdicts = self.0.lock().unwrap();
        for (index, verdict) in chunk {
            assert_eq!(verdicts[index].replace(verdict), None, "SNK-02: a second verdict");
        }
    }
}
