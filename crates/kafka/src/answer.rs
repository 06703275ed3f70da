//! What the cluster answers when it is asked for a topic.

use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use postrider_core::clock::{Clock, Instant};
use postrider_core::verdict::Scope;
use postrider_core::{Refusal, Text};
use rdkafka::error::RDKafkaErrorCode as Code;
use rdkafka::metadata::{Metadata, MetadataPartition};
use rdkafka::producer::Producer;

use crate::client::{Client, Inbox};
use crate::config::KafkaConfig;
use crate::partitions::Partition;
use crate::{certificate, refusal};

/// One question: librdkafka blocks for so long, so that we look up now and then.
const STEP: Duration = Duration::from_millis(500);
/// A topic that does not exist may be created by being asked for, which takes a moment.
const CREATION: Duration = Duration::from_secs(1);

/// Asks for a topic's partitions; blocks.
///
/// # Errors
/// Why nothing can be sent there.
pub(crate) fn partitions(
    client: &Client,
    inbox: &Inbox,
    config: &KafkaConfig,
    topic: &Text,
    clock: &dyn Clock,
    until: Instant,
) -> Result<Vec<Partition>, Refusal> {
    let place = format!("topic \"{topic}\"");
    let asked = clock.instant();
    loop {
        let metadata =
            metadata(client, inbox, Some(topic), clock, until).map_err(|code| away(config, inbox, code))?;
        let found = metadata.topics().first();
        let said = found.and_then(|found| found.error()).map(Code::from);
        let partitions = found.map(|found| found.partitions()).unwrap_or_default();
        match said {
            None if !partitions.is_empty() => return Ok(table(partitions, &place)),
            None | Some(Code::UnknownTopicOrPartition | Code::LeaderNotAvailable)
                if clock.instant().since(asked) < CREATION =>
            {
                std::thread::park_timeout(CREATION / 20);
            }
            said => return Err(refusal::refusal(said.unwrap_or(Code::UnknownTopicOrPartition), &place)),
        }
    }
}

/// Asks whether the cluster is there; blocks.
///
/// # Errors
/// What it said, and what to do about it.
pub(crate) fn cluster(
    client: &Client,
    inbox: &Inbox,
    config: &KafkaConfig,
    clock: &dyn Clock,
    until: Instant,
) -> Result<(), (String, &'static str)> {
    metadata(client, inbox, None, clock, until).map(drop).map_err(|code| missing(config, inbox, code))
}

/// What is wrong with a cluster that did not answer, and what to do about it; blocks.
pub(crate) fn missing(config: &KafkaConfig, inbox: &Inbox, code: Code) -> (String, &'static str) {
    let said = inbox.said();
    let is_doubted = said.as_ref().is_some_and(|(_, text)| certificate::is_doubted(text));
    let doubt = if is_doubted { config.doubt() } else { None };
    refusal::missing(said, code, accepts(&config.brokers), doubt)
}

fn away(config: &KafkaConfig, inbox: &Inbox, code: Code) -> Refusal {
    let (said, remedy) = missing(config, inbox, code);
    refusal::busy(Scope::Sink, "kafka", &said, remedy)
}

/// Whether one of the brokers takes a connection: a frozen one does, and then says nothing.
fn accepts(brokers: &str) -> bool {
    const WITHIN: Duration = Duration::from_millis(500);
    let addresses = brokers.split(',').filter_map(|broker| broker.trim().to_socket_addrs().ok()).flatten();
    addresses.take(3).any(|address| TcpStream::connect_timeout(&address, WITHIN).is_ok())
}

fn metadata(
    client: &Client,
    inbox: &Inbox,
    topic: Option<&str>,
    clock: &dyn Clock,
    until: Instant,
) -> Result<Metadata, Code> {
    loop {
        match client.client().fetch_metadata(topic, STEP) {
            Ok(metadata) => {
                inbox.forget();
                return Ok(metadata);
            }
            // Once it is said what is wrong, there is nothing to wait for.
            Err(_) if clock.instant() < until && inbox.said().is_none() => {}
            Err(error) => return Err(error.rdkafka_error_code().unwrap_or(Code::Unknown)),
        }
    }
}

fn table(found: &[MetadataPartition], place: &str) -> Vec<Partition> {
    let mut partitions: Vec<Partition> = Vec::new();
    partitions.resize_with(found.len(), Partition::default);
    for one in found {
        if let Some(at) = usize::try_from(one.id()).ok().and_then(|at| partitions.get_mut(at)) {
            *at = partition(one, place);
        }
    }
    partitions
}

fn partition(one: &MetadataPartition, place: &str) -> Partition {
    let (in_sync, replicas) = (one.isr().len(), one.replicas().len());
    // ReplicaNotAvailable is no fault of the leader's.
    let said = one.error().map(Code::from).filter(|code| *code != Code::ReplicaNotAvailable);
    let said = said.or_else(|| (one.leader() < 0).then_some(Code::LeaderNotAvailable));
    let fault = said.map(|code| {
        let place = format!("partition {} of {place} has no leader", one.id());
        let (_, remedy) = refusal::class(code);
        refusal::busy(Scope::Partition, &place, &code.to_string(), remedy)
    });
    Partition { fault, in_sync, replicas, ..Partition::default() }
}
