//! Compressed batches, by every codec that is built in: a record's own size says little of what it takes then.

use std::time::Duration;

use postrider_core::Layout;
use postrider_kafka::{KafkaConfig, KafkaSink};
use postrider_servers::{Topic, kafka, topic_name};

use crate::letters::{clock, letter};
use crate::refused::{arrived_in_order, send_all_as};
use crate::wait::block_on;

const DEADLINE: Duration = Duration::from_secs(10);
/// Over the topic's limit, as they are.
const BYTES: usize = 5_000;
const CULPRIT: usize = 23;

/// Text in which no codec finds anything to spare.
fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 88_172_645_463_325_252_u64;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    std::iter::repeat_with(next).take(bytes).collect()
}

/// SNK-08, B11: what fits compressed is taken although it is over the limit as it is, and comes out as it went in; what does not is
/// rejected alone, and its neighbours arrive, in order.
fn limits_hold(codec: &str) {
    let mut topic = Topic::create_on(&kafka(), &topic_name(codec), 1, &[("max.message.bytes", "3000")]);
    let mut config = KafkaConfig::new(kafka()).with_layout(&Layout::built_in("native").unwrap());
    config.publish_deadline = DEADLINE;
    config.properties.insert("compression.type".to_owned(), codec.to_owned());
    let sink = KafkaSink::open(config, clock()).unwrap();
    let words: Vec<String> = (0..40).map(|n| format!("{}{}", ["a", "b"][n % 2], n)).collect();
    let name = topic.name().to_owned();
    let write = |n: usize| {
        let mut letter = letter(&name, &words[n]).of_bytes(if n.is_multiple_of(4) { BYTES } else { 50 });
        if n == CULPRIT {
            letter.envelope.data = noise(BYTES).into();
        }
        letter
    };
    assert_eq!(block_on(send_all_as(&sink, words.len(), write)), [CULPRIT], "{codec}");
    arrived_in_order(&mut topic, &words, &[CULPRIT]);
    for record in topic.read() {
        let n: usize = record.header("ce_id")[1..].parse().unwrap();
        let value = "1".repeat(if n.is_multiple_of(4) { BYTES } else { 50 });
        assert_eq!(record.value_text(), value, "{codec}, {n}");
    }
}

#[test]
fn gzip_keeps_limits_and_order() {
    limits_hold("gzip");
}

#[test]
fn snappy_keeps_limits_and_order() {
    limits_hold("snappy");
}

#[test]
fn lz4_keeps_limits_and_order() {
    limits_hold("lz4");
}

#[test]
fn zstd_keeps_limits_and_order() {
    limits_hold("zstd");
}
