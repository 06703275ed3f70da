//! The bare half: librdkafka producing the same bytes, as safely.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rdkafka::client::ClientContext;
use rdkafka::config::FromClientConfigAndContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, DeliveryResult, Producer, ProducerContext, ThreadedProducer};
use rdkafka::{ClientConfig, util::Timeout};

use super::broker::Broker;
use crate::Outcome;
use crate::load::payload;

/// Counts receipts.
#[derive(Default)]
struct Receipts {
    received: AtomicUsize,
    refused: AtomicUsize,
}

impl ClientContext for Receipts {}

impl ProducerContext for Receipts {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        let counter = if result.is_ok() { &self.received } else { &self.refused };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// Sends as many messages as there are rows, with keys and headers as the relay's, and awaits the last receipt.
pub(crate) fn produce(broker: &Broker, topic: &str, rows: usize, keys: usize) -> Outcome<()> {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", broker.address())
        .set("enable.idempotence", "true")
        .set("acks", "all")
        .set("partitioner", "murmur2_random")
        .set("queue.buffering.max.messages", "10000")
        .set("linger.ms", "0");
    let producer = ThreadedProducer::from_config_and_context(&config, Receipts::default())?;
    let payload = payload();
    for row in 1..=rows {
        let (id, key) = (format!("018f0000-0000-7000-8000-{row:012}"), (row % keys).to_string());
        let time = format!("2026-01-01T00:00:00.{row:06}Z");
        let mut record = BaseRecord::to(topic).payload(&payload).key(&key).headers(headers(&id, &time, &key));
        while let Err((error, back)) = producer.send(record) {
            if error != KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull) {
                return Err(error.into());
            }
            record = back;
            std::thread::sleep(Duration::from_micros(200));
        }
    }
    producer.flush(Timeout::After(Duration::from_secs(60)))?;
    let receipts = producer.context();
    assert_eq!(receipts.received.load(Ordering::Relaxed), rows, "every message has its receipt");
    Ok(())
}

fn headers(id: &str, time: &str, key: &str) -> OwnedHeaders {
    let values = [
        ("content-type", "application/json"),
        ("ce_specversion", "1.0"),
        ("ce_time", time),
        ("ce_id", id),
        ("ce_source", "/bench"),
        ("ce_type", "bench.order.placed.v1"),
        ("ce_aggregatetype", "Order"),
        ("ce_aggregateid", key),
    ];
    let empty = OwnedHeaders::new_with_capacity(values.len());
    values.into_iter().fold(empty, |headers, (key, value)| headers.insert(Header { key, value: Some(value) }))
}
