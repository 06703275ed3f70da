//! Where a shop's events arrive on Kafka.

use std::sync::{Mutex, PoisonError};

use postrider_servers::{PrivateKafka, Record, Topic, kafka, topic_name};
use serde_json::{Value, json};

/// A topic of the test's own, and the brokers by which the relay reaches it.
pub(crate) struct Landing {
    brokers: String,
    topic: Mutex<Topic>,
    /// Goes into the configuration's `[relay]`, and behind it.
    pub(crate) more: String,
}

/// Deadlines and breakers in seconds instead of half minutes.
const QUICK: &str = "publish_deadline = \"5s\"\n[breaker]\nopen = \"200ms\"\n";

impl Landing {
    /// On the shared broker.
    pub(crate) fn shared() -> Self {
        Self::new(kafka(), Topic::create(2))
    }

    /// On brokers of the test's own: the relay goes by their doors, the test does not.
    pub(crate) fn behind_doors(kafka: &PrivateKafka) -> Self {
        Self::new(kafka.brokers(), Topic::create_on(&kafka.inside(), &topic_name("orders"), 2, &[]))
    }

    pub(crate) fn new(brokers: String, topic: Topic) -> Self {
        Self { brokers, topic: Mutex::new(topic), more: QUICK.to_owned() }
    }

    /// What the configuration says of it.
    pub(crate) fn sink(&self) -> String {
        let topic = self.topic.lock().unwrap_or_else(PoisonError::into_inner).name().to_owned();
        format!(
            "[[sink]]\nname = \"kafka\"\nurl = \"kafka://{}\"\n[[route]]\ntopic = \"{topic}\"\n",
            self.brokers
        )
    }

    /// What has arrived, in order within each partition.
    pub(crate) fn records(&self) -> Vec<Record> {
        self.topic.lock().unwrap_or_else(PoisonError::into_inner).read().to_vec()
    }

    /// The same as the file sink would have it: a line for each, with all that a repeat has to repeat.
    pub(crate) fn lines(&self) -> String {
        self.records().iter().map(|record| format!("{}\n", line(record))).collect()
    }
}

fn line(record: &Record) -> Value {
    let body: Value = serde_json::from_str(&record.value_text()).unwrap();
    let headers: Vec<String> =
        record.headers.iter().map(|(name, _)| format!("{name}: {}", record.header(name))).collect();
    // Binary or structured, by the layout.
    let (id, data) = match record.header("ce_id") {
        id if id.is_empty() => (body["id"].clone(), body["data"].clone()),
        id => (id.into(), body),
    };
    json!({
        "id": id, "data": data, "partition": record.partition, "key": record.key_text(), "headers": headers,
        "value": record.value_text(),
    })
}
