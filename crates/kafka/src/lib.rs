//! The Kafka sink: receipts by `acks=all`, each key in order whatever fails.
//!
//! A failed message takes its successors with it: messages stream through a producer of librdkafka's, and when one of them
//! fails or goes unanswered, everything behind it is purged with that producer and the next one starts at the first message
//! that has no receipt. ARCHITECTURE.md has the reasons.

mod answer;
mod bell;
mod call;
mod certificate;
pub mod check;
mod client;
mod cluster;
pub mod config;
mod encode;
mod generation;
mod limit;
mod murmur2;
mod partitions;
mod properties;
mod refusal;
mod reports;
pub mod sink;
mod state;
mod thread;
pub mod topics;

pub use config::KafkaConfig;
pub use sink::KafkaSink;
