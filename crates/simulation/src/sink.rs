//! The simulated sink: without faults an in-memory broker, with them everything that brokers do to relays.

mod broker;
mod faults;
mod lane;
mod parcel;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use postrider_core::broken::BrokenKeys;
use postrider_core::clock::{BoxFuture, Instant};
use postrider_core::cloudevents::structured;
use postrider_core::sink::{Message, Permit, Sink, SinkFeatures, Verdicts};
use postrider_core::text::owned;
use postrider_core::verdict::{Reason, Rejection};
use postrider_core::{Fault, Key, Refusal, Text, Verdict, limits};

pub use broker::{Broker, Record};
pub use faults::{Faults, Outage, Settings};
use lane::Lane;
use parcel::{Item, Parcel, Stage};

/// One relay's connection to a [`Broker`].
pub struct SimSink {
    broker: Broker,
    relay: Text,
    broken: Arc<Mutex<BrokenKeys>>,
    lanes: Mutex<BTreeMap<Way, Lane>>,
}

/// A topic and a partition of it.
type Way = (Text, u32);

impl SimSink {
    fn new(broker: Broker, relay: Text) -> Self {
        Self { broker, relay, broken: Arc::default(), lanes: Mutex::default() }
    }

    /// Attempts messages from `first` on, until the window is full: parcels on their way, and what is said at once.
    fn send(&self, messages: &[Message<'_>], first: usize, deadline: Instant, permit: &dyn Permit) -> Sent {
        let mut sent = Sent::default();
        for (index, message) in messages.iter().enumerate().skip(first) {
            if sent.attempted == self.broker.settings().window_entries.max(1) {
                break;
            }
            sent.next = index + 1;
            match self.attempt(index, message, deadline, permit) {
                Ok(bytes_hash) => {
                    sent.attempted += 1;
                    let way = (owned(message.topic), self.partition(message));
                    let parcel = sent.parcels.entry(way).or_insert_with_key(|way| self.parcel(way));
                    parcel.items.push(Item {
                        index,
                        id: owned(&message.envelope.id),
                        key: message.key.map(Key::owned),
                        leads: message.leads,
                        bytes_hash,
                    });
                }
                Err(refusal) => {
                    self.broken().add(message.key);
                    sent.verdicts.push((index, Verdict::Refusal(refusal)));
                }
            }
        }
        sent
    }

    /// Whether a message may go on its way; a digest of its bytes.
    fn attempt(
        &self,
        index: usize,
        message: &Message<'_>,
        deadline: Instant,
        permit: &dyn Permit,
    ) -> Result<u64, Refusal> {
        if self.broker.clock().instant() >= deadline {
            return Err(Refusal::Withheld);
        }
        if !self.broken().admits(message.key, message.leads) {
            return Err(Refusal::Withheld);
        }
        let bytes_hash = encode(message, self.broker.settings().payload_bytes_max)?;
        if permit.ask(index) { Ok(bytes_hash) } else { Err(Refusal::Withheld) }
    }

    fn parcel(&self, way: &Way) -> Parcel {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        Parcel {
            broker: self.broker.clone(),
            relay: self.relay.clone(),
            broken: Arc::clone(&self.broken),
            topic: way.0.clone(),
            partition: way.1,
            items: Vec::new(),
            turn: lanes.entry(way.clone()).or_default().enter(),
            stage: Stage::Sent,
        }
    }

    fn partition(&self, message: &Message<'_>) -> u32 {
        let partitions = u64::from(self.broker.settings().partitions.max(1));
        let number = match message.key {
            Some(key) => digest(key.id.as_bytes()) % partitions,
            None => self.broker.state().chance.below(partitions),
        };
        u32::try_from(number).unwrap_or(0)
    }

    fn broken(&self) -> MutexGuard<'_, BrokenKeys> {
        self.broken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Default)]
struct Sent {
    /// The first message that was not looked at.
    next: usize,
    attempted: usize,
    parcels: BTreeMap<Way, Parcel>,
    verdicts: Vec<(usize, Verdict)>,
}

impl Sink for SimSink {
    fn features(&self) -> SinkFeatures {
        let settings = self.broker.settings();
        SinkFeatures {
            ordered_stream: settings.ordered_stream,
            batch_entries_max: limits::BATCH_ENTRIES_MAX,
            calls_max: settings.calls_max,
        }
    }

    fn publish<'a>(
        &'a self,
        messages: &'a [Message<'a>],
        deadline: Instant,
        permit: &'a dyn Permit,
        verdicts: &'a dyn Verdicts,
    ) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let mut next = 0;
            while next < messages.len() {
                let sent = self.send(messages, next, deadline, permit);
                next = sent.next;
                if !sent.verdicts.is_empty() {
                    verdicts.hand(sent.verdicts);
                }
                let parcels = sent.parcels.into_values().map(|parcel| parcel.carry(deadline));
                let mut under_way: FuturesUnordered<_> = parcels.collect();
                while let Some(answers) = under_way.next().await {
                    verdicts.hand(answers);
                }
            }
        })
    }

    fn probe(&self) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(async move {
            match self.broker.state().outage("") {
                None => Ok(()),
                Some(_) => Err(Fault::new("simulated broker", "it is away", "Wait for the outage to end.")),
            }
        })
    }

    fn drain(&self, _within: Duration) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

fn encode(message: &Message<'_>, payload_bytes_max: usize) -> Result<u64, Refusal> {
    let rejected = |reason| Refusal::Rejected(Rejection { reason: Reason::new(reason), in_company: false });
    if message.envelope.data.len() > payload_bytes_max {
        return Err(rejected(format!("the payload is longer than {payload_bytes_max} bytes")));
    }
    let mut bytes = Vec::new();
    structured::encode(message.envelope, &mut bytes).map_err(|problem| rejected(problem.to_string()))?;
    Ok(digest(&bytes))
}

/// The same on every machine and in every run.
fn digest(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}
