//! Topics as the configuration wants them (B16): created where they are missing, compared where they are there.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use postrider_core::Fault;
use postrider_core::span::TimeSpan;

use crate::cluster::{Cluster, Partition, Settings};
use crate::config::KafkaConfig;

/// A topic's settings that have a key of their own in the configuration, by Kafka's names.
pub const RETENTION: &str = "retention.ms";
/// How many replicas a write needs.
pub const MIN_INSYNC: &str = "min.insync.replicas";

/// A topic as it is wanted. What is none is left to the broker, and not compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    /// Its name.
    pub name: String,
    /// How many partitions.
    pub partitions: Option<u32>,
    /// How many replicas of each.
    pub replication: Option<u32>,
    /// Its other settings, by Kafka's names.
    pub settings: BTreeMap<String, String>,
}

/// How a topic that is there differs from what is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Which topic.
    pub topic: String,
    /// In what.
    pub what: String,
    /// What is wanted.
    pub wanted: String,
    /// What is there.
    pub found: String,
}

/// What became of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Provisioned {
    /// It is there now.
    Created(Topic),
    /// It was there before, and stays as it is.
    Found(Vec<Difference>),
}

/// Why topics were not provisioned.
#[derive(Debug)]
pub enum Unprovisioned {
    /// The cluster did not answer.
    Away(Fault),
    /// It answered, and did not create one.
    Refused {
        /// Which.
        topic: String,
        /// What of it is at fault, as the configuration spells it, where that is known.
        setting: Option<String>,
        /// What it said.
        fault: Fault,
    },
}

/// Why a text is no name of a topic, by Kafka's own rules.
///
/// ```
/// use postrider_kafka::topics::name_fault;
/// assert_eq!(name_fault("order-events"), None);
/// assert!(name_fault("order events").is_some());
/// ```
#[must_use]
pub fn name_fault(name: &str) -> Option<String> {
    const BYTES_MAX: usize = 249;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if name.is_empty() {
        return Some("a topic's name is empty".to_owned());
    }
    if name == "." || name == ".." {
        return Some(format!("\"{name}\" is no topic's name"));
    }
    if let Some(odd) = name.chars().find(|c| !plain(*c)) {
        return Some(format!(
            "topic \"{name}\" has a {odd:?} in its name, and Kafka takes only letters, digits, \".\", \"_\" and \"-\""
        ));
    }
    (name.len() > BYTES_MAX)
        .then(|| format!("topic \"{name}\" has a name of {} bytes, and Kafka takes {BYTES_MAX}", name.len()))
}

/// Creates the topics that are missing, and compares those that are there. Nothing that is there is changed.
///
/// # Errors
/// When the cluster does not answer, or refuses one.
pub async fn provision(config: &KafkaConfig, topics: &[Topic]) -> Result<Vec<Provisioned>, Unprovisioned> {
    let mut cluster = Cluster::ask(config).map_err(Unprovisioned::Away)?;
    let there: Vec<&str> =
        topics.iter().map(|topic| &*topic.name).filter(|name| cluster.topic(name).is_some()).collect();
    cluster.learn(&there).await;
    let mut all = Vec::with_capacity(topics.len());
    for topic in topics {
        let found = cluster.topic(&topic.name);
        all.push(match found {
            None if cluster.create(topic).await? => Provisioned::Created(topic.clone()),
            // Somebody else created it in this moment; how, the next run tells.
            None => Provisioned::Found(Vec::new()),
            Some(partitions) => Provisioned::Found(compare(&cluster, topic, partitions)),
        });
    }
    Ok(all)
}

/// Every difference between what is wanted and what is there.
pub(crate) fn compare(cluster: &Cluster, topic: &Topic, partitions: &[Partition]) -> Vec<Difference> {
    // A login that may not read a topic's settings can still write to it: what cannot be read is not compared.
    cluster.settings(&topic.name).map_or_else(
        |_| topic.differences(partitions, &Settings::new()),
        |settings| topic.differences(partitions, settings),
    )
}

impl Topic {
    fn differences(&self, partitions: &[Partition], settings: &Settings) -> Vec<Difference> {
        let replicas = partitions.iter().map(|partition| partition.replicas).min().unwrap_or(0);
        let counted =
            [("partitions", self.partitions, partitions.len()), ("replication", self.replication, replicas)];
        let counted = counted.into_iter().filter_map(|(what, wanted, found)| {
            let wanted = wanted.filter(|wanted| *wanted as usize != found)?;
            Some((what.to_owned(), wanted.to_string(), found.to_string()))
        });
        let set = self.settings.iter().filter_map(|(name, wanted)| {
            let found = settings.get(name).filter(|found| *found != wanted)?;
            Some((shown_name(name).to_owned(), shown(name, wanted), shown(name, found)))
        });
        let difference = |(what, wanted, found)| Difference { topic: self.name.clone(), what, wanted, found };
        counted.chain(set).map(difference).collect()
    }

    /// The command of Kafka's own tools that creates it.
    #[must_use]
    pub fn command(&self, brokers: &str) -> String {
        let mut command = format!(
            "kafka-topics.sh --bootstrap-server {brokers} --create --if-not-exists --topic {}",
            self.name
        );
        for (option, number) in
            [("--partitions", self.partitions), ("--replication-factor", self.replication)]
        {
            if let Some(number) = number {
                command.push_str(&format!(" {option} {number}"));
            }
        }
        for (name, value) in &self.settings {
            command.push_str(&format!(" --config {name}={value}"));
        }
        command
    }
}

/// As the configuration spells it.
pub(crate) fn shown_name(name: &str) -> &str {
    match name {
        RETENTION => "retention",
        MIN_INSYNC => "min_insync_replicas",
        _ => name,
    }
}

fn shown(name: &str, value: &str) -> String {
    match (name, value.parse::<i64>()) {
        (RETENTION, Ok(-1)) => "none".to_owned(),
        (RETENTION, Ok(ms)) if ms >= 0 => TimeSpan(Duration::from_millis(ms.unsigned_abs())).to_string(),
        _ => value.to_owned(),
    }
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "topic {}", self.name)?;
        for (what, number) in [("partitions", self.partitions), ("replication", self.replication)] {
            if let Some(number) = number {
                write!(f, ", {what} {number}")?;
            }
        }
        for (name, value) in &self.settings {
            write!(f, ", {} {}", shown_name(name), shown(name, value))?;
        }
        Ok(())
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { topic, what, wanted, found } = self;
        write!(f, "topic \"{topic}\": {what} is {found}, and {wanted} is configured")
    }
}

impl Difference {
    /// What to do about it.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        match &*self.what {
            "partitions" => {
                "Change [[topic]], or add partitions with kafka-topics.sh --alter: each key's events then go elsewhere from \
                 that moment on."
            }
            "replication" => "Change [[topic]], or move the replicas with kafka-reassign-partitions.sh.",
            _ => "Change [[topic]], or alter the topic with kafka-configs.sh.",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order_events() -> Topic {
        let settings = [(RETENTION, "604800000"), (MIN_INSYNC, "2")];
        Topic {
            name: "order-events".into(),
            partitions: Some(3),
            replication: Some(3),
            settings: settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        }
    }

    /// F5: Kafka's own rules for names.
    #[test]
    fn a_topics_name_is_what_kafka_takes() {
        for fine in ["a", "order-events", "outbox.event.OrderLine", "a_b.C-9", &"x".repeat(249)] {
            assert_eq!(name_fault(fine), None);
        }
        for (bad, expected) in [
            ("", "empty"),
            (".", "no topic's name"),
            ("..", "no topic's name"),
            ("größe", "'ö'"),
            ("a b", "' '"),
            (&"x".repeat(250), "249"),
        ] {
            assert!(name_fault(bad).unwrap().contains(expected), "{bad}");
        }
    }

    /// B16: every difference is named, in the configuration's words.
    #[test]
    fn every_difference_is_named() {
        let partition = |id| Partition { id, has_leader: true, replicas: 1, in_sync: 1 };
        let settings: Settings = [(RETENTION, "86400000"), (MIN_INSYNC, "1")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        let differences = order_events().differences(&[partition(0)], &settings);
        let shown: Vec<_> = differences.iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            [
                "topic \"order-events\": partitions is 1, and 3 is configured",
                "topic \"order-events\": replication is 1, and 3 is configured",
                "topic \"order-events\": min_insync_replicas is 1, and 2 is configured",
                "topic \"order-events\": retention is 1d, and 7d is configured",
            ]
        );
        let as_wanted = (0..3).map(|id| Partition { replicas: 3, ..partition(id) }).collect::<Vec<_>>();
        assert_eq!(order_events().differences(&as_wanted, &order_events().settings), []);
    }

    #[test]
    fn a_topic_is_told_in_words_and_as_a_command() {
        assert_eq!(
            order_events().to_string(),
            "topic order-events, partitions 3, replication 3, min_insync_replicas 2, retention 7d"
        );
        assert_eq!(
            order_events().command("a:1"),
            "kafka-topics.sh --bootstrap-server a:1 --create --if-not-exists --topic order-events --partitions 3 \
             --replication-factor 3 --config min.insync.replicas=2 --config retention.ms=604800000"
        );
    }
}
