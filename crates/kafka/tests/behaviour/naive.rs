//! What everybody does: an idempotent producer, and what failed is sent again.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use postrider_core::clock::{BoxFuture, Instant};
use postrider_core::sink::{Message, Permit, Sink, SinkFeatures, Verdicts};
use postrider_core::verdict::Silence;
use postrider_core::{Fault, Refusal, Verdict};
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer, ProducerContext};
use rdkafka::{ClientConfig, ClientContext};

pub(crate) struct NaiveSink {
    producer: Arc<BaseProducer<Reports>>,
    ended: Arc<AtomicBool>,
    next: Mutex<usize>,
}

#[derive(Clone, Default)]
struct Reports(Arc<Mutex<Told>>);

/// Which messages were taken, and who waits to hear of it.
type Told = (HashMap<usize, bool>, Vec<Waker>);

impl NaiveSink {
    pub(crate) fn open(brokers: &str, timeout: Duration) -> Self {
        let timeout = timeout.as_millis().to_string();
        let producer: BaseProducer<Reports> = ClientConfig::new()
            .set("bootstrap.servers", brokers)
            .set("enable.idempotence", "true")
            .set("message.timeout.ms", &timeout)
            .set("request.timeout.ms", "1000")
            .set("socket.timeout.ms", "1000")
            .set("linger.ms", "0")
            // Back at once when the broker is: what waits in the queue goes out before it is given up, too.
            .set("reconnect.backoff.max.ms", "100")
            .set_log_level(rdkafka::config::RDKafkaLogLevel::Emerg)
            .create_with_context(Reports::default())
            .unwrap();
        let (producer, ended) = (Arc::new(producer), Arc::new(AtomicBool::new(false)));
        let (polled, stop) = (Arc::clone(&producer), Arc::clone(&ended));
        std::thread::spawn(move || {
            while !stop.load(Ordering::SeqCst) {
                polled.poll(Duration::from_millis(20));
            }
        });
        Self { producer, ended, next: Mutex::new(0) }
    }

    fn number(&self) -> usize {
        let mut next = self.next.lock().unwrap();
        *next += 1;
        *next
    }
}

impl Drop for NaiveSink {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
    }
}

impl Sink for NaiveSink {
    fn features(&self) -> SinkFeatures {
        SinkFeatures { ordered_stream: true, batch_entries_max: 1_000, calls_max: 2 }
    }

    fn publish<'a>(
        &'a self,
        messages: &'a [Message<'a>],
        _deadline: Instant,
        _permit: &'a dyn Permit,
        verdicts: &'a dyn Verdicts,
    ) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let mut owed = Vec::new();
            for (index, message) in messages.iter().enumerate() {
                let number = self.number();
                let (key, id) = (&*message.key.unwrap().id, &*message.envelope.id);
                let headers = rdkafka::message::OwnedHeaders::new()
                    .insert(rdkafka::message::Header { key: "ce_id", value: Some(id) });
                let record = BaseRecord::with_opaque_to(message.topic, number)
                    .key(key)
                    .payload(&message.envelope.data[..])
                    .headers(headers);
                self.producer.send(record).map_err(|(error, _)| error).unwrap();
                owed.push((index, number));
            }
            let reports = &self.producer.context().0;
            poll_fn(|context| {
                let mut reports = reports.lock().unwrap();
                if owed.iter().all(|(_, number)| reports.0.contains_key(number)) {
                    return Poll::Ready(());
                }
                reports.1.push(context.waker().clone());
                Poll::Pending
            })
            .await;
            let mut reports = reports.lock().unwrap();
            let verdict = |received: bool| match received {
                true => Verdict::Receipt,
                false => Verdict::Refusal(Refusal::Unknown(Silence::Purged)),
            };
            let chunk =
                owed.iter().map(|(index, number)| (*index, verdict(reports.0.remove(number).unwrap())));
            verdicts.hand(chunk.collect());
        })
    }

    fn probe(&self) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn drain(&self, _within: Duration) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

impl ClientContext for Reports {
    fn error(&self, _error: rdkafka::error::KafkaError, _reason: &str) {}
}

impl ProducerContext for Reports {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, number: usize) {
        let mut reports = self.0.lock().unwrap();
        reports.0.insert(number, result.is_ok());
        let wakers = std::mem::take(&mut reports.1);
        drop(reports);
        wakers.into_iter().for_each(Waker::wake);
    }
}
