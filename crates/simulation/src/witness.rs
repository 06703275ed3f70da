//! Stands between a relay and its sink: counts what messages failed by themselves, and lies where a test wants a broken relay.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use postrider_core::clock::{BoxFuture, Instant};
use postrider_core::sink::{Message, Permit, Sink, SinkFeatures, Verdicts};
use postrider_core::verdict::Silence;
use postrider_core::{Fault, Refusal, Verdict};

/// How often messages failed through their own fault, by event.
pub type OwnFailures = Arc<Mutex<HashMap<String, u32>>>;

/// What a broken relay believes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// Whatever is handed over is accepted: settled before the receipt.
    SettledBeforeReceipt,
    /// No answer means success.
    UnknownIsSuccess,
    /// An outage is the message's fault.
    OutageCounts,
}

/// A sink with a witness.
pub struct Witness<K> {
    /// The sink itself.
    pub sink: K,
    /// Where failures are counted.
    pub own_failures: OwnFailures,
    /// What the relay is told instead of the truth.
    pub lie: Option<Lie>,
}

impl<K: Sink> Sink for Witness<K> {
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
        Box::pin(async move {
            if self.lie == Some(Lie::SettledBeforeReceipt) {
                verdicts.hand((0..messages.len()).map(|index| (index, Verdict::Receipt)).collect());
            }
            let told = Told { witness: self, messages, verdicts };
            self.sink.publish(messages, deadline, permit, &told).await;
        })
    }

    fn probe(&self) -> BoxFuture<'_, Result<(), Fault>> {
        self.sink.probe()
    }

    fn drain(&self, within: Duration) -> BoxFuture<'_, ()> {
        self.sink.drain(within)
    }
}

struct Told<'a, K> {
    witness: &'a Witness<K>,
    messages: &'a [Message<'a>],
    verdicts: &'a dyn Verdicts,
}

impl<K: Sink> Verdicts for Told<'_, K> {
    fn hand(&self, chunk: Vec<(usize, Verdict)>) {
        for (index, verdict) in &chunk {
            if let Verdict::Refusal(Refusal::Transient(_) | Refusal::Unknown(Silence::Own(_))) = verdict {
                let event = self.messages[*index].envelope.id.to_string();
                let mut failures = self.witness.own_failures.lock().unwrap_or_else(PoisonError::into_inner);
                *failures.entry(event).or_default() += 1;
            }
        }
        self.verdicts.hand(chunk.into_iter().map(|(index, verdict)| (index, self.twist(verdict))).collect());
    }
}

impl<K> Told<'_, K> {
    fn twist(&self, verdict: Verdict) -> Verdict {
        match (self.witness.lie, verdict) {
            (Some(Lie::UnknownIsSuccess), Verdict::Refusal(Refusal::Unknown(_))) => Verdict::Receipt,
            (
                Some(Lie::OutageCounts),
                Verdict::Refusal(
                    Refusal::Busy { reason, .. } | Refusal::Unknown(Silence::Broker { reason, .. }),
                ),
            ) => Verdict::Refusal(Refusal::Transient(reason)),
            (_, verdict) => verdict,
        }
    }
}
