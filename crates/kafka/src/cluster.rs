//! What a cluster says of itself: for `migrate` and `check`, which ask once and may wait for the answer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use postrider_core::Fault;
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use crate::client::{Context, Inbox};
use crate::config::KafkaConfig;
use crate::topics::Topic;

const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// A cluster that answers.
pub(crate) struct Cluster {
    admin: AdminClient<Context>,
    inbox: Arc<Inbox>,
    place: String,
    brokers: Vec<i32>,
    topics: BTreeMap<String, Vec<Partition>>,
}

/// A partition as the cluster has it.
pub(crate) struct Partition {
    pub id: i32,
    pub has_leader: bool,
    pub replicas: usize,
    pub in_sync: usize,
}

/// Settings by name.
pub(crate) type Settings = BTreeMap<String, String>;

impl Cluster {
    /// Asks a cluster for everything that it has. Topics are never asked for by name: that could create them.
    pub(crate) fn ask(config: &KafkaConfig) -> Result<Self, Fault> {
        let inbox = Arc::new(Inbox::default());
        let admin = config.admin(Arc::clone(&inbox))?;
        let mut cluster =
            Self { admin, inbox, place: config.place(), brokers: Vec::new(), topics: BTreeMap::new() };
        let metadata =
            cluster.admin.inner().fetch_metadata(None, ANSWER_WITHIN).map_err(|error| cluster.away(error))?;
        cluster.brokers = metadata.brokers().iter().map(|broker| broker.id()).collect();
        for topic in metadata.topics() {
            let partition = |partition: &rdkafka::metadata::MetadataPartition| Partition {
                id: partition.id(),
                has_leader: partition.leader() >= 0,
                replicas: partition.replicas().len(),
                in_sync: partition.isr().len(),
            };
            let partitions = topic.partitions().iter().map(partition).collect();
            cluster.topics.insert(topic.name().to_owned(), partitions);
        }
        Ok(cluster)
    }

    /// The partitions of a topic; none where there is no such topic, or this login may not see it.
    pub(crate) fn topic(&self, name: &str) -> Option<&[Partition]> {
        self.topics.get(name).map(Vec::as_slice)
    }

    /// How many brokers there are.
    pub(crate) fn brokers(&self) -> usize {
        self.brokers.len()
    }

    /// A topic's settings as they hold, the broker's defaults among them.
    pub(crate) async fn settings(&self, topic: &str) -> Result<Settings, RDKafkaErrorCode> {
        self.describe(ResourceSpecifier::Topic(topic)).await
    }

    /// A broker's settings.
    pub(crate) async fn broker_settings(&self) -> Result<Settings, RDKafkaErrorCode> {
        let broker = self.brokers.first().ok_or(RDKafkaErrorCode::BrokerNotAvailable)?;
        self.describe(ResourceSpecifier::Broker(*broker)).await
    }

    async fn describe(&self, what: ResourceSpecifier<'_>) -> Result<Settings, RDKafkaErrorCode> {
        let answers = self.admin.describe_configs([&what], &options()).await;
        let answers =
            answers.map_err(|error| error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Unknown))?;
        let mut settings = Settings::new();
        for answer in answers {
            let entries = answer?.entries.into_iter();
            settings.extend(entries.filter_map(|entry| Some((entry.name, entry.value?))));
        }
        Ok(settings)
    }

    /// Creates a topic; the answer is no where somebody else was faster.
    pub(crate) async fn create(&self, topic: &Topic) -> Result<bool, Fault> {
        const BROKERS_DEFAULT: i32 = -1;
        let number =
            |given: Option<u32>| given.and_then(|n| i32::try_from(n).ok()).unwrap_or(BROKERS_DEFAULT);
        let mut new = NewTopic::new(
            &topic.name,
            number(topic.partitions),
            TopicReplication::Fixed(number(topic.replication)),
        );
        for (name, value) in &topic.settings {
            new = new.set(name, value);
        }
        let answers = self.admin.create_topics([&new], &options()).await;
        let answers = answers.map_err(|error| self.away(error))?;
        match answers.into_iter().next() {
            None | Some(Ok(_)) => Ok(true),
            Some(Err((_, RDKafkaErrorCode::TopicAlreadyExists))) => Ok(false),
            Some(Err((name, code))) => Err(self.refused(&name, code)),
        }
    }

    fn refused(&self, topic: &str, code: RDKafkaErrorCode) -> Fault {
        let remedy = match code {
            RDKafkaErrorCode::TopicAuthorizationFailed | RDKafkaErrorCode::ClusterAuthorizationFailed => {
                "Let this login create topics, or have somebody create it: `postrider migrate --print` shows how."
                    .to_owned()
            }
            RDKafkaErrorCode::InvalidReplicationFactor => format!(
                "There are {} brokers: set replication to no more than that, or wait until all of them run.",
                self.brokers()
            ),
            RDKafkaErrorCode::InvalidConfig => "Correct the names and values in [topic.config].".to_owned(),
            _ => "Look at the broker's log, or create it yourself: `postrider migrate --print` shows how.".to_owned(),
        };
        Fault::new(&self.place, format!("topic \"{topic}\" was not created: {code}"), remedy)
    }

    /// Why there was no answer; what librdkafka said of the connection says more than its error.
    fn away(&self, error: KafkaError) -> Fault {
        let why = self.inbox.said().map_or_else(|| error.to_string(), |(_, said)| said);
        Fault::new(
            &self.place,
            format!("it does not answer: {why}"),
            "Look whether it runs, and at the sink's url, login and TLS.",
        )
    }
}

impl KafkaConfig {
    /// A client that asks and creates. What a producer needs for order is nothing to it.
    fn admin(&self, inbox: Arc<Inbox>) -> Result<AdminClient<Context>, Fault> {
        const PRODUCING: [&str; 3] = ["enable.idempotence", "enable.gapless.guarantee", "message.timeout.ms"];
        let settings = self.settings().into_iter().filter(|(name, _)| !PRODUCING.contains(&&**name));
        let config: ClientConfig = settings.collect();
        config.create_with_context(Context(inbox)).map_err(|error| self.refused(&error))
    }

    /// The largest message that the client hands over.
    pub(crate) fn message_bytes_max(&self) -> usize {
        self.settings().get("message.max.bytes").and_then(|bytes| bytes.parse().ok()).unwrap_or(usize::MAX)
    }
}

fn options() -> AdminOptions {
    AdminOptions::new().request_timeout(Some(ANSWER_WITHIN)).operation_timeout(Some(ANSWER_WITHIN))
}
