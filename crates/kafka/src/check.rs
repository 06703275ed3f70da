//! What `check` asks a cluster: whether what is configured would arrive.

use std::collections::BTreeSet;

use postrider_core::Fault;
use postrider_core::finding::{Finding, Weight};
use rdkafka::error::RDKafkaErrorCode;

use crate::cluster::{Cluster, Partition};
use crate::config::KafkaConfig;
use crate::topics::{MIN_INSYNC, Topic, compare};

/// What a message may have beside its payload: key, headers, and the record's own frame.
const FRAME_BYTES: usize = 4_096;

const FORBIDDEN: RDKafkaErrorCode = RDKafkaErrorCode::TopicAuthorizationFailed;
const ALLOW: &str =
    "Let this login describe it (operations Describe and DescribeConfigs) and write to it (Write).";

/// A topic that is known to be sent to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Used {
    /// Its name.
    pub topic: String,
    /// Who says so, for faults.
    pub place: String,
}

/// Looks at the topics that are sent to and at those that are provisioned, and at the limits on both sides.
pub async fn check(config: &KafkaConfig, used: &[Used], provisioned: &[Topic]) -> Vec<Finding> {
    let mut cluster = match Cluster::ask(config) {
        Ok(cluster) => cluster,
        Err(fault) => return vec![Finding { weight: Weight::Fault, fault }],
    };
    let names = used.iter().map(|used| &*used.topic).chain(provisioned.iter().map(|topic| &*topic.name));
    let names: BTreeSet<&str> = names.collect();
    let names: Vec<&str> = names.into_iter().collect();
    cluster.learn(&names).await;
    cluster.look_for(config, &names);
    let mut asked = Asked { cluster, place: config.place(), bytes: needed(config), findings: Vec::new() };
    asked.client(config);
    for Used { topic, place } in used {
        asked.used(topic, place, provisioned.iter().any(|known| known.name == *topic));
    }
    for topic in provisioned {
        if used.iter().all(|used| used.topic != topic.name) {
            asked.used(&topic.name, &config.place(), true);
        }
        asked.provisioned(topic);
    }
    asked.findings
}

fn needed(config: &KafkaConfig) -> usize {
    config.payload_bytes_max + FRAME_BYTES
}

struct Asked {
    cluster: Cluster,
    place: String,
    bytes: usize,
    findings: Vec<Finding>,
}

impl Asked {
    fn found(&mut self, weight: Weight, place: &str, problem: String, remedy: impl Into<String>) {
        self.findings.push(Finding { weight, fault: Fault::new(place, problem, remedy) });
    }

    /// The client's own limit.
    fn client(&mut self, config: &KafkaConfig) {
        let limit = config.message_bytes_max();
        if limit < self.bytes {
            self.too_small(&self.place.clone(), "message.max.bytes of this sink", limit);
        }
    }

    fn too_small(&mut self, place: &str, what: &str, limit: usize) {
        self.found(
            Weight::Fault,
            place,
            format!(
                "{what} is {limit} bytes, and an event may have payload_bytes_max of payload and {FRAME_BYTES} around it, \
                 {} in all: one that is larger than the limit would be dead",
                self.bytes
            ),
            "Raise that limit, or lower [outbox] payload_bytes_max: then it is refused when it is appended.",
        );
    }

    fn used(&mut self, topic: &str, place: &str, is_provisioned: bool) {
        let Some(partitions) = self.cluster.topic(topic) else {
            if !is_provisioned {
                self.missing(topic, place);
            }
            return;
        };
        let lost = list(partitions, |partition| !partition.has_leader);
        if let Some(lost) = lost {
            self.found(
                Weight::Fault,
                place,
                format!("topic \"{topic}\": {lost} without a leader"),
                "Bring the brokers back that hold it: what goes there waits until then.",
            );
        }
        match self.cluster.settings(topic) {
            Ok(settings) => {
                let number = |name: &str| settings.get(name).and_then(|value| value.parse::<usize>().ok());
                let (least, limit) = (number(MIN_INSYNC), number("max.message.bytes"));
                self.in_sync(topic, place, least);
                if let Some(limit) = limit.filter(|limit| *limit < self.bytes) {
                    self.too_small(place, &format!("max.message.bytes of topic \"{topic}\""), limit);
                }
            }
            Err(code) => {
                self.in_sync(topic, place, None);
                self.unreadable(topic, place, code);
            }
        }
    }

    /// Whether enough replicas are in sync for a write.
    fn in_sync(&mut self, topic: &str, place: &str, least: Option<usize>) {
        let partitions = self.cluster.topic(topic).unwrap_or_default();
        let led = |partition: &Partition| partition.has_leader;
        let short = list(partitions, |partition| {
            led(partition) && least.is_some_and(|least| partition.in_sync < least)
        });
        let behind = list(partitions, |partition| led(partition) && partition.in_sync < partition.replicas);
        if let (Some(short), Some(least)) = (&short, least) {
            self.found(
                Weight::Fault,
                place,
                format!("topic \"{topic}\": {short} with fewer replicas in sync than the {least} that a write needs"),
                "Bring the other brokers back: writes are refused until then, and nothing is lost.",
            );
        } else if let Some(behind) = behind {
            self.found(
                Weight::Advice,
                place,
                format!("topic \"{topic}\": {behind} with replicas that are not in sync"),
                "Bring the other brokers back before another one fails.",
            );
        }
    }

    fn missing(&mut self, topic: &str, place: &str) {
        let remedy = "Add a [[topic]] for it and run `postrider migrate`, or create it yourself.";
        if self.cluster.is_forbidden(topic) {
            return self.found(Weight::Fault, place, format!("topic \"{topic}\": {FORBIDDEN}"), ALLOW);
        }
        let broker = self.cluster.broker_settings();
        let limit = broker.get("message.max.bytes").and_then(|value| value.parse().ok());
        let creates = broker.get("auto.create.topics.enable").is_some_and(|value| value == "true");
        let problem = format!("there is no topic \"{topic}\"");
        if creates {
            if let Some(limit) = limit.filter(|limit| *limit < self.bytes) {
                self.too_small(place, "message.max.bytes of the broker", limit);
            }
            return self.found(
                Weight::Advice,
                place,
                format!("{problem} yet: the broker creates it with the first message, with its own defaults"),
                remedy,
            );
        }
        self.found(Weight::Fault, place, problem, remedy);
    }

    /// It may be written all the same: that cannot be asked, only tried.
    fn unreadable(&mut self, topic: &str, place: &str, code: RDKafkaErrorCode) {
        let remedy = match code {
            FORBIDDEN => ALLOW,
            _ => "Look whether all brokers run, and run `postrider check` again.",
        };
        let problem = format!("topic \"{topic}\": its settings cannot be read: {code}");
        self.found(Weight::Note, place, problem, remedy);
    }

    fn provisioned(&mut self, topic: &Topic) {
        let place = self.place.clone();
        match self.cluster.topic(&topic.name) {
            None if self.cluster.is_forbidden(&topic.name) => {
                self.found(Weight::Fault, &place, format!("topic \"{}\": {FORBIDDEN}", topic.name), ALLOW);
            }
            None => self.found(
                Weight::Fault,
                &place,
                format!("there is no topic \"{}\"", topic.name),
                "`postrider migrate` creates it.",
            ),
            Some(partitions) => {
                for difference in compare(&self.cluster, topic, partitions) {
                    self.found(Weight::Fault, &place, difference.to_string(), difference.remedy());
                }
            }
        }
    }
}

/// `partition 2 is`, `partitions 0, 2 are`; none where none is meant.
fn list(partitions: &[Partition], is_meant: impl Fn(&Partition) -> bool) -> Option<String> {
    let ids: Vec<String> = partitions
        .iter()
        .filter(|partition| is_meant(partition))
        .map(|partition| partition.id.to_string())
        .collect();
    match &ids[..] {
        [] => None,
        [one] => Some(format!("partition {one} is")),
        _ => Some(format!("partitions {} are", ids.join(", "))),
    }
}
