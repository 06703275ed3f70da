//! `null:` takes everything and keeps nothing, to measure or test what comes before a sink.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use postrider_core::broken::BrokenKeys;
use postrider_core::clock::{BoxFuture, Instant};
use postrider_core::sink::{Message, Permit, Sink, SinkFeatures, Verdicts};
use postrider_core::{Fault, Refusal, Verdict, limits};

/// Gives a receipt for every message that has a permit, and counts. It knows no deadline: it is never late.
#[derive(Debug, Default)]
pub struct NullSink {
    receipts: AtomicU64,
    payload_bytes: AtomicU64,
    broken: Mutex<BrokenKeys>,
}

impl NullSink {
    /// Receipts given so far.
    pub fn receipts(&self) -> u64 {
        self.receipts.load(Ordering::Relaxed)
    }

    /// Bytes of the payloads that they were given for.
    pub fn payload_bytes(&self) -> u64 {
        self.payload_bytes.load(Ordering::Relaxed)
    }

    fn take(&self, messages: &[Message<'_>], permit: &dyn Permit) -> Vec<(usize, Verdict)> {
        let mut broken = self.broken.lock().unwrap_or_else(PoisonError::into_inner);
        let mut take = |(index, message): (usize, &Message<'_>)| {
            if broken.admits(message.key, message.leads) && permit.ask(index) {
                self.receipts.fetch_add(1, Ordering::Relaxed);
                self.payload_bytes.fetch_add(message.envelope.data.len() as u64, Ordering::Relaxed);
                return (index, Verdict::Receipt);
            }
            broken.add(message.key);
            (index, Verdict::Refusal(Refusal::Withheld))
        };
        messages.iter().enumerate().map(&mut take).collect()
    }
}

impl Sink for NullSink {
    fn features(&self) -> SinkFeatures {
        SinkFeatures {
            ordered_stream: true,
            batch_entries_max: limits::BATCH_ENTRIES_MAX,
            calls_max: limits::PUBLISHES_OPEN_MAX,
        }
    }

    fn publish<'a>(
        &'a self,
        messages: &'a [Message<'a>],
        _deadline: Instant,
        permit: &'a dyn Permit,
        verdicts: &'a dyn Verdicts,
    ) -> BoxFuture<'a, ()> {
        Box::pin(async move { verdicts.hand(self.take(messages, permit)) })
    }

    fn probe(&self) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(async { Ok(()) })
    }

    fn drain(&self, _within: Duration) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

#[cfg(test)]
mod tests {
    use postrider_conformance::sink::envelope;
    use postrider_core::Key;

    use super::*;

    /// SNK-05, SNK-06: even nothing keeps to the contract, or it would measure another relay.
    #[test]
    fn it_counts_what_it_takes_and_withholds_what_follows_a_refusal() {
        let envelope = envelope("1", "a");
        struct Second;
        impl Permit for Second {
            fn ask(&self, index: usize) -> bool {
                index > 0
            }
        }
        let (one, other) = (Key::new("", "one"), Key::new("", "other"));
        let message = |key, leads| Message { envelope: &envelope, topic: "letters", key: Some(key), leads };
        let sink = NullSink::default();
        let messages =
            [message(&one, true), message(&other, true), message(&one, false), message(&one, true)];
        let received: Vec<bool> = sink
            .take(&messages, &Second)
            .into_iter()
            .map(|(_, verdict)| verdict == Verdict::Receipt)
            .collect();
        assert_eq!(received, [false, true, false, true]);
        assert_eq!((sink.receipts(), sink.payload_bytes()), (2, 2 * envelope.data.len() as u64));
    }
}
