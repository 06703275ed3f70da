//! What a cluster says of itself: for `migrate` and `check`, which ask once and may wait for the answer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use postrider_core::Fault;
use rdkafka::ClientConfig;
use rdkafka::admin::{
    AdminClient, AdminOptions, ConfigResourceResult, NewTopic, ResourceSpecifier, TopicReplication,
};
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use crate::answer;
use crate::client::{Context, Inbox};
use crate::config::KafkaConfig;
use crate::topics::{Topic, Unprovisioned, shown_name};

/// One question. Whatever has to be known is asked in two of them, one after the other, however many topics there are.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// A topic's creation is done when every broker knows of it.
const CREATED_WITHIN: Duration = Duration::from_secs(10);

/// A cluster that answers.
pub(crate) struct Cluster {
    admin: AdminClient<Context>,
    inbox: Arc<Inbox>,
    config: KafkaConfig,
    place: String,
    brokers: Vec<i32>,
    topics: BTreeMap<String, Vec<Partition>>,
    /// Of the topics that were asked for; none where they cannot be read.
    settings: BTreeMap<String, Result<Settings, RDKafkaErrorCode>>,
    broker_settings: Settings,
    /// Topics that this login may not see.
    forbidden: BTreeSet<String>,
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
        let mut cluster = Self {
            admin,
            inbox,
            config: config.clone(),
            place: config.place(),
            brokers: Vec::new(),
            topics: BTreeMap::new(),
            settings: BTreeMap::new(),
            broker_settings: Settings::new(),
            forbidden: BTreeSet::new(),
        };
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

    /// Asks for the settings of these topics, all in one question, and with it for a broker's: a broker that has just died
    /// may leave either without an answer, and that is waited for once.
    pub(crate) async fn learn(&mut self, topics: &[&str]) {
        let Some(broker) = self.brokers.first().filter(|_| !topics.is_empty()) else { return };
        let resources: Vec<_> = topics.iter().map(|topic| ResourceSpecifier::Topic(topic)).collect();
        let broker = [ResourceSpecifier::Broker(*broker)];
        // Each is on its way when it is made, not when it is awaited.
        let of_topics = self.admin.describe_configs(&resources, &options(ANSWER_WITHIN));
        let of_broker = self.admin.describe_configs(&broker, &options(ANSWER_WITHIN));
        let told = of_topics.await.map_err(code);
        for (at, topic) in topics.iter().enumerate() {
            let told = told.as_ref().map_err(|code| *code);
            let settings = told.and_then(|all| all.get(at).ok_or(RDKafkaErrorCode::Unknown)).and_then(known);
            self.settings.insert((*topic).to_owned(), settings);
        }
        let told = of_broker.await.unwrap_or_default();
        self.broker_settings = told.first().and_then(|one| known(one).ok()).unwrap_or_default();
    }

    /// Asks for topics that are not seen whether they are forbidden. By name only a consumer may ask: asked by another client,
    /// a broker may create them.
    pub(crate) fn look_for(&mut self, config: &KafkaConfig, topics: &[&str]) {
        let unseen = || topics.iter().filter(|topic| !self.topics.contains_key(**topic));
        if unseen().next().is_none() {
            return;
        }
        let Ok(client) = config.onlooker() else { return };
        let mut forbidden = BTreeSet::new();
        for topic in unseen() {
            let Ok(metadata) = client.fetch_metadata(Some(topic), ANSWER_WITHIN) else { break };
            let said = metadata.topics().first().and_then(|found| found.error()).map(RDKafkaErrorCode::from);
            if said == Some(RDKafkaErrorCode::TopicAuthorizationFailed) {
                forbidden.insert((*topic).to_owned());
            }
        }
        self.forbidden = forbidden;
    }

    /// Whether this login may not see a topic.
    pub(crate) fn is_forbidden(&self, topic: &str) -> bool {
        self.forbidden.contains(topic)
    }

    /// A topic's settings as they hold, the broker's defaults among them.
    pub(crate) fn settings(&self, topic: &str) -> Result<&Settings, RDKafkaErrorCode> {
        self.settings
            .get(topic)
            .map_or(Err(RDKafkaErrorCode::Unknown), |told| told.as_ref().map_err(|code| *code))
    }

    /// A broker's settings, as far as it says them.
    pub(crate) fn broker_settings(&self) -> &Settings {
        &self.broker_settings
    }

    /// Creates a topic; the answer is no where somebody else was faster.
    pub(crate) async fn create(&self, topic: &Topic) -> Result<bool, Unprovisioned> {
        match self.try_to_create(topic, &options(CREATED_WITHIN)).await.map_err(Unprovisioned::Away)? {
            Ok(()) => Ok(true),
            Err(RDKafkaErrorCode::TopicAlreadyExists) => Ok(false),
            Err(code) => Err(self.refused(topic, code).await),
        }
    }

    async fn try_to_create(
        &self,
        topic: &Topic,
        options: &AdminOptions,
    ) -> Result<Result<(), RDKafkaErrorCode>, Fault> {
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
        let answers = self.admin.create_topics([&new], options).await.map_err(|error| self.away(error))?;
        Ok(answers.into_iter().next().map_or(Ok(()), |answer| answer.map(drop).map_err(|(_, code)| code)))
    }

    /// Which setting it is: the binding keeps what the broker said to itself, so each is tried alone, without creating anything.
    async fn culprit(&self, topic: &Topic) -> Option<String> {
        let only_tried = options(ANSWER_WITHIN).validate_only(true);
        for (name, value) in &topic.settings {
            let settings = [(name.clone(), value.clone())].into();
            let alone = Topic { settings, ..topic.clone() };
            let tried = self.try_to_create(&alone, &only_tried).await;
            if matches!(tried, Ok(Err(RDKafkaErrorCode::InvalidConfig))) {
                return Some(shown_name(name).to_owned());
            }
        }
        None
    }

    async fn refused(&self, topic: &Topic, code: RDKafkaErrorCode) -> Unprovisioned {
        let setting = match code {
            RDKafkaErrorCode::InvalidReplicationFactor => Some("replication".to_owned()),
            RDKafkaErrorCode::InvalidPartitions => Some("partitions".to_owned()),
            RDKafkaErrorCode::InvalidConfig => self.culprit(topic).await,
            _ => None,
        };
        let remedy = match code {
            RDKafkaErrorCode::TopicAuthorizationFailed | RDKafkaErrorCode::ClusterAuthorizationFailed => {
                "Let this login create topics, or have somebody create it: `postrider migrate --print` shows how."
                    .to_owned()
            }
            RDKafkaErrorCode::InvalidReplicationFactor => format!(
                "The cluster has {} brokers: set replication to no more than that, or wait until all of them run.",
                self.brokers()
            ),
            RDKafkaErrorCode::InvalidConfig => "Correct its name or value in [[topic]] or [topic.config].".to_owned(),
            _ => "Look at the broker's log, or create it yourself: `postrider migrate --print` shows how.".to_owned(),
        };
        let of = setting.as_ref().map(|setting| format!(" because of {setting}")).unwrap_or_default();
        let problem = format!("topic \"{}\" was not created{of}: {code}", topic.name);
        Unprovisioned::Refused {
            topic: topic.name.clone(),
            setting,
            fault: Fault::new(&self.place, problem, remedy),
        }
    }

    /// Why there was no answer; what librdkafka said of the connection says more than its error.
    fn away(&self, error: KafkaError) -> Fault {
        let (said, remedy) = answer::missing(&self.config, &self.inbox, code(error));
        Fault::new(&self.place, said, remedy)
    }
}

/// How the properties begin that are of every client, not of producers.
const OF_CLIENTS: [&str; 9] = [
    "bootstrap.",
    "client.",
    "security.",
    "sasl.",
    "ssl.",
    "https.",
    "enable.ssl",
    "enable.sasl",
    "broker.address.",
];

impl KafkaConfig {
    /// A client that asks and creates. What a producer needs for order is nothing to it.
    pub(crate) fn admin(&self, inbox: Arc<Inbox>) -> Result<AdminClient<Context>, Fault> {
        const PRODUCING: [&str; 3] = ["enable.idempotence", "enable.gapless.guarantee", "message.timeout.ms"];
        let settings = self.settings().into_iter().filter(|(name, _)| !PRODUCING.contains(&&**name));
        let mut config: ClientConfig = settings.collect();
        config.set_log_level(RDKafkaLogLevel::Info);
        config.create_with_context(Context(inbox)).map_err(|error| self.refused(&error))
    }

    /// A client that asks and changes nothing.
    fn onlooker(&self) -> Result<BaseConsumer, Fault> {
        const TOPICS: &str = "allow.auto.create.topics";
        let settings = self
            .settings()
            .into_iter()
            .filter(|(name, _)| OF_CLIENTS.iter().any(|part| name.starts_with(part)));
        let mut config: ClientConfig = settings.collect();
        config.set(TOPICS, "false").set_log_level(RDKafkaLogLevel::Emerg);
        config.create().map_err(|error| self.refused(&error))
    }

    /// The largest message that the client hands over.
    pub(crate) fn message_bytes_max(&self) -> usize {
        self.settings().get("message.max.bytes").and_then(|bytes| bytes.parse().ok()).unwrap_or(usize::MAX)
    }
}

fn options(within: Duration) -> AdminOptions {
    AdminOptions::new().request_timeout(Some(within)).operation_timeout(Some(within))
}

fn code(error: KafkaError) -> RDKafkaErrorCode {
    error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Unknown)
}

fn known(answer: &ConfigResourceResult) -> Result<Settings, RDKafkaErrorCode> {
    let entries = &answer.as_ref().map_err(|code| *code)?.entries;
    // The binding swallows the broker's refusal: nothing at all is one.
    if entries.is_empty() {
        return Err(RDKafkaErrorCode::TopicAuthorizationFailed);
    }
    Ok(entries.iter().filter_map(|entry| Some((entry.name.clone(), entry.value.clone()?))).collect())
}
