//! The Sink suite over a real Kafka, through a door that is closed, cut and stalled.

#![expect(clippy::unwrap_used, reason = "a test fails by it")]

mod world;

use std::sync::Arc;
use std::time::Duration;

use postrider_conformance::sink::{SinkHarness, Stored, Trouble, envelope};
use postrider_core::clock::{BoxFuture, Clock, Instant};
use postrider_core::sink::{Message, Permit, Sink, SinkFeatures, Verdicts};
use postrider_core::{Fault, Key, Verdict};
use postrider_kafka::{KafkaConfig, KafkaSink};
use postrider_servers::Record;
use std::sync::Mutex;
use world::{Place, QuickClock, block_on};

postrider_conformance::sink_suite!(block_on, Harness::new());

/// A deadline of 30 s is 6 s here.
const SPEED: u32 = 5;
const WARM: &str = "warm";

struct Harness {
    place: Place,
    clock: QuickClock,
    trouble: Mutex<Option<Trouble>>,
}

impl Harness {
    fn new() -> Self {
        Self { place: Place::new(3, &[]), clock: QuickClock::new(SPEED), trouble: Mutex::new(None) }
    }
}

impl SinkHarness for Harness {
    type Sink = OnTopic;

    /// A sink that has been at work: trouble strikes messages, not the first look at the topic.
    async fn open(&self) -> OnTopic {
        let mut config = KafkaConfig::new(&self.place.brokers);
        config.payload_bytes_max = self.payload_bytes_max();
        config.publish_deadline = Duration::from_secs(30) / SPEED;
        let sink = KafkaSink::open(config, Arc::new(self.clock.clone())).unwrap();
        let sink = OnTopic { sink, topic: self.place.name.clone() };
        sink.warm_up(self.clock.instant() + Duration::from_secs(60)).await;
        sink
    }

    async fn stored(&self) -> Vec<Stored> {
        let mut topic = self.place.topic();
        topic.read().iter().map(stored).filter(|one| !one.id.starts_with(WARM)).collect()
    }

    fn clock(&self) -> &dyn Clock {
        &self.clock
    }

    async fn pass(&self, span: Duration) {
        self.clock.sleep(span).await;
    }

    fn payload_bytes_max(&self) -> usize {
        10_000
    }

    fn trouble(&self, trouble: Trouble) -> bool {
        *self.trouble.lock().unwrap() = Some(trouble);
        self.place.door(|door| match trouble {
            Trouble::Unreachable => {
                door.close();
                door.cut();
            }
            Trouble::ReplyLostAfterWrite => door.stall_answers(),
            Trouble::ReplyLostBeforeWrite | Trouble::Silence => door.stall(),
        });
        true
    }

    fn mend(&self) {
        let trouble = self.trouble.lock().unwrap().take();
        self.place.door(|door| match trouble {
            Some(Trouble::Unreachable) => door.open(),
            // What waits at the door is lost.
            Some(Trouble::ReplyLostAfterWrite | Trouble::ReplyLostBeforeWrite) => {
                door.cut();
                door.resume();
            }
            Some(Trouble::Silence) | None => door.resume(),
        });
    }
}

/// The sink, with the suite's topic under a name of the case's own.
struct OnTopic {
    sink: KafkaSink,
    topic: String,
}

impl OnTopic {
    /// Has a receipt from every partition.
    async fn warm_up(&self, deadline: Instant) {
        let keys: Vec<Key> = (b'a'..=b'z').map(|id| Key::new("Warm", char::from(id).to_string())).collect();
        let envelopes: Vec<_> =
            keys.iter().map(|key| envelope(&format!("{WARM}-{}", key.id), &key.id)).collect();
        let messages: Vec<_> = keys
            .iter()
            .zip(&envelopes)
            .map(|(key, envelope)| Message { envelope, topic: "", key: Some(key), leads: true })
            .collect();
        let receipts = Receipts::default();
        self.publish(&messages, deadline, &receipts, &receipts).await;
        assert_eq!(*receipts.0.lock().unwrap(), keys.len());
    }
}

impl Sink for OnTopic {
    fn features(&self) -> SinkFeatures {
        self.sink.features()
    }

    fn publish<'a>(
        &'a self,
        messages: &'a [Message<'a>],
        deadline: Instant,
        permit: &'a dyn Permit,
        verdicts: &'a dyn Verdicts,
    ) -> BoxFuture<'a, ()> {
        let messages: Vec<_> =
            messages.iter().map(|message| Message { topic: &self.topic, ..*message }).collect();
        Box::pin(async move { self.sink.publish(&messages, deadline, permit, verdicts).await })
    }

    fn probe(&self) -> BoxFuture<'_, Result<(), Fault>> {
        self.sink.probe()
    }

    fn drain(&self, within: Duration) -> BoxFuture<'_, ()> {
        self.sink.drain(within)
    }
}

/// Permits everything and counts the receipts.
#[derive(Default)]
struct Receipts(Mutex<usize>);

impl Permit for Receipts {
    fn ask(&self, _index: usize) -> bool {
        true
    }
}

impl Verdicts for Receipts {
    fn hand(&self, chunk: Vec<(usize, Verdict)>) {
        *self.0.lock().unwrap() += chunk.iter().filter(|(_, verdict)| *verdict == Verdict::Receipt).count();
    }
}

fn stored(record: &Record) -> Stored {
    let value = record.value.clone().unwrap_or_default();
    let event = postrider_core::cloudevents::structured::decode(&value.clone().into()).unwrap();
    let key = Some(record.key_text()).filter(|key| !key.is_empty());
    Stored { id: event.id.to_string(), key, bytes: value }
}
