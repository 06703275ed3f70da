//! librdkafka's producer, and what it tells us: reports on messages, and what is wrong with the cluster.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, DeliveryResult, ProducerContext};

use crate::bell::Bell;

/// A producer of one generation.
pub(crate) type Client = BaseProducer<Context>;

/// What became of one message.
pub(crate) struct Report {
    /// What it was sent with.
    pub tag: Tag,
    /// Why there is no receipt.
    pub error: Option<RDKafkaErrorCode>,
}

/// A call's slot and the message's index in it, in the word that librdkafka carries along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    pub slot: usize,
    pub index: usize,
}

/// Where reports wait until a call or the generation's thread takes them in.
#[derive(Default)]
pub(crate) struct Inbox {
    reports: Mutex<Vec<Report>>,
    said: Mutex<Option<(RDKafkaErrorCode, String)>>,
    /// Something is said: asked with every receipt, so that the lock is taken only then.
    has_said: AtomicBool,
    is_fatal: AtomicBool,
    fatal: Mutex<Option<(RDKafkaErrorCode, String)>>,
    bell: Arc<Bell>,
}

/// librdkafka's callbacks.
pub(crate) struct Context(pub Arc<Inbox>);

impl Tag {
    const INDEX_BITS: u32 = usize::BITS / 2;

    pub(crate) fn pack(self) -> usize {
        (self.slot << Self::INDEX_BITS) | self.index
    }

    pub(crate) fn unpack(word: usize) -> Self {
        Self { slot: word >> Self::INDEX_BITS, index: word & ((1 << Self::INDEX_BITS) - 1) }
    }
}

impl Inbox {
    pub(crate) fn new(bell: Arc<Bell>) -> Self {
        Self { bell, ..Self::default() }
    }

    pub(crate) fn put(&self, report: Report) {
        let mut reports = lock(&self.reports);
        let was_empty = reports.is_empty();
        reports.push(report);
        drop(reports);
        if was_empty {
            self.bell.ring();
        }
    }

    /// Moves what has come into `into`, which is empty.
    pub(crate) fn take(&self, into: &mut Vec<Report>) {
        std::mem::swap(&mut *lock(&self.reports), into);
    }

    /// The producer takes nothing any more.
    pub(crate) fn is_fatal(&self) -> bool {
        self.is_fatal.load(Ordering::SeqCst)
    }

    /// Why.
    pub(crate) fn fatal(&self) -> Option<(RDKafkaErrorCode, String)> {
        lock(&self.fatal).clone()
    }

    pub(crate) fn set_fatal(&self, why: Option<(RDKafkaErrorCode, String)>) {
        self.is_fatal.store(true, Ordering::SeqCst);
        let mut fatal = lock(&self.fatal);
        *fatal = why.or(fatal.take());
    }

    /// What librdkafka last said of the cluster.
    pub(crate) fn said(&self) -> Option<(RDKafkaErrorCode, String)> {
        lock(&self.said).clone()
    }

    /// The cluster works: what was said before is over.
    pub(crate) fn forget(&self) {
        if self.has_said.load(Ordering::SeqCst) {
            let mut said = lock(&self.said);
            self.has_said.store(false, Ordering::SeqCst);
            *said = None;
        }
    }

    fn hear(&self, code: RDKafkaErrorCode, text: &str) {
        if code == RDKafkaErrorCode::Fatal {
            self.set_fatal(None);
            self.bell.ring();
            return;
        }
        let mut said = lock(&self.said);
        // That all brokers are down is known by then, and why is what helps.
        if code == RDKafkaErrorCode::AllBrokersDown && said.is_some() {
            return;
        }
        *said = Some((code, text.to_owned()));
        self.has_said.store(true, Ordering::SeqCst);
    }
}

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, fac: &str, log_message: &str) {
        tracing::debug!(target: "postrider::kafka", ?level, fac, "{log_message}");
        // A connection that the broker closes is told to the log alone, and what it says of the protocol is the cause of all the rest.
        if fac == "FAIL" && log_message.contains("security.protocol") {
            let from = log_message.find("Disconnected").unwrap_or(0);
            self.0.hear(RDKafkaErrorCode::BrokerTransportFailure, &log_message[from..]);
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(target: "postrider::kafka", "{error}: {reason}");
        if let KafkaError::Global(code) = error {
            self.0.hear(code, reason);
        }
    }
}

impl ProducerContext for Context {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, opaque: usize) {
        let error = result
            .as_ref()
            .err()
            .map(|(error, _)| error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Unknown));
        self.0.put(Report { tag: Tag::unpack(opaque), error });
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_fits_into_a_word_and_comes_back() {
        for (slot, index) in [(0, 0), (1, 9_999), (40_000, 65_535)] {
            let tag = Tag { slot, index };
            assert_eq!(Tag::unpack(tag.pack()), tag);
        }
    }

    /// The reason stays, not its summary.
    #[test]
    fn what_is_wrong_outlives_that_everything_is_down() {
        let inbox = Inbox::default();
        inbox.hear(RDKafkaErrorCode::AllBrokersDown, "1/1 brokers are down");
        inbox.hear(RDKafkaErrorCode::Authentication, "SASL authentication failed");
        inbox.hear(RDKafkaErrorCode::AllBrokersDown, "1/1 brokers are down");
        assert!(inbox.said().is_some_and(|(_, text)| text.starts_with("SASL")));
        inbox.forget();
        assert_eq!(inbox.said(), None);
        inbox.hear(RDKafkaErrorCode::AllBrokersDown, "1/1 brokers are down");
        assert!(inbox.said().is_some());
    }
}
