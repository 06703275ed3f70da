//! The broker: one node with data of its own.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use postrider_servers::{PrivateKafka, Topic};
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions};
use rdkafka::client::DefaultClientContext;

use crate::Outcome;
use crate::measure::Cost;
use crate::postgres::outbox::runtime;
use crate::postgres::server::Server;
use crate::process;

/// As the issue has it.
pub(crate) const PARTITIONS: usize = 3;

pub(crate) struct Broker {
    kafka: PrivateKafka,
    topics: AtomicUsize,
}

impl Broker {
    pub(crate) fn start() -> Outcome<Self> {
        Ok(Self { kafka: PrivateKafka::start(), topics: AtomicUsize::new(0) })
    }

    pub(crate) fn address(&self) -> String {
        self.kafka.inside()
    }

    /// An empty topic that nobody has used.
    pub(crate) fn topic(&self) -> String {
        let name = format!("bench-{}", self.topics.fetch_add(1, Ordering::Relaxed));
        let topic = Topic::create_on(&self.address(), &name, PARTITIONS, &[("file.delete.delay.ms", "1000")]);
        topic.name().to_owned()
    }

    /// What a topic holds is of no use any more.
    pub(crate) fn forget(&self, topic: &str) -> Outcome<()> {
        let admin: AdminClient<DefaultClientContext> =
            ClientConfig::new().set("bootstrap.servers", self.address()).create()?;
        let deleted = runtime()?.block_on(admin.delete_topics(&[topic], &AdminOptions::new()))?;
        deleted.into_iter().try_for_each(|topic| topic.map(drop).map_err(|(_, code)| code.into()))
    }

    /// What it cost the database and the broker.
    pub(crate) fn cost(&self, server: &Server, run: impl FnOnce() -> Outcome<()>) -> Outcome<Cost> {
        let before = self.cpu();
        let cost = server.cost(run)?;
        Ok(Cost { broker: self.cpu().saturating_sub(before), ..cost })
    }

    /// CPU time of the broker so far.
    pub(crate) fn cpu(&self) -> Duration {
        self.kafka.pid(1).and_then(process::cpu).unwrap_or_default()
    }
}
