//! Kafka's administrator, for tests: asks, and waits for the answer.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::admin::{
    AdminClient, AdminOptions, AlterConfig, NewPartitions, NewTopic, ResourceSpecifier, TopicReplication,
};
use rdkafka::client::DefaultClientContext;
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode;

use crate::wait;

const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Where the partitions of a new topic lie.
pub(crate) enum Places<'a> {
    /// So many, with as many copies as the brokers have by default.
    Anywhere(usize),
    /// Each on these brokers.
    On(&'a [&'a [i32]]),
}

pub(crate) fn create(brokers: &str, name: &str, places: &Places<'_>, config: &[(&str, &str)]) {
    let topic = match places {
        Places::Anywhere(partitions) => NewTopic::new(name, *partitions as i32, TopicReplication::Fixed(-1)),
        Places::On(places) => NewTopic::new(name, places.len() as i32, TopicReplication::Variable(places)),
    };
    let topic = config.iter().fold(topic, |topic, (key, value)| topic.set(key, value));
    let admin = client(brokers);
    // A cluster that has just started refuses for a moment.
    repeatedly("creating a topic", || {
        let done = awaited(async { admin.create_topics([&topic], &options()).await });
        match one(done) {
            // By an earlier try, whose answer was lost.
            Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => Ok(()),
            other => other.map_err(|(what, code)| format!("{what}: {code}")),
        }
    });
}

pub(crate) fn grow(brokers: &str, name: &str, partitions: usize) {
    let more = NewPartitions::new(name, partitions);
    let admin = client(brokers);
    let done = awaited(async { admin.create_partitions([&more], &options()).await });
    one(done).unwrap_or_else(|(what, code)| panic!("{name} does not grow: {what}: {code}"));
}

pub(crate) fn configure(brokers: &str, name: &str, config: &[(&str, &str)]) {
    let alter = AlterConfig::new(ResourceSpecifier::Topic(name));
    let alter = config.iter().fold(alter, |alter, (key, value)| alter.set(key, value));
    let admin = client(brokers);
    let done = awaited(async { admin.alter_configs([&alter], &options()).await });
    let done = done.unwrap_or_else(|error| panic!("{name} is not configured: {error}"));
    assert!(done.iter().all(Result::is_ok), "{name} is not configured: {done:?}");
}

pub(crate) fn delete(brokers: &str, name: &str) {
    let admin = client(brokers);
    let done = awaited(async { admin.delete_topics(&[name], &options()).await });
    one(done).unwrap_or_else(|(what, code)| panic!("{name} is not deleted: {what}: {code}"));
}

/// Settings of a client of the test's own.
pub(crate) fn settings(brokers: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers);
    // A broker that comes back is found at once; that one is away, the test knows.
    config.set("reconnect.backoff.max.ms", "200").set_log_level(rdkafka::config::RDKafkaLogLevel::Emerg);
    config
}

fn client(brokers: &str) -> AdminClient<DefaultClientContext> {
    settings(brokers).create().expect("a client of good settings")
}

fn options() -> AdminOptions {
    AdminOptions::new().request_timeout(Some(ANSWER_WITHIN)).operation_timeout(Some(ANSWER_WITHIN))
}

fn repeatedly(what: &str, mut ask: impl FnMut() -> Result<(), String>) {
    let mut problem = String::new();
    let done = wait::within_deadline(|| ask().map_err(|why| problem = why).is_ok());
    assert!(done, "{what}: {problem}");
}

/// The answer of an administrator about one topic.
type Answer = Result<Vec<Result<String, (String, RDKafkaErrorCode)>>, KafkaError>;

fn one(answer: Answer) -> Result<(), (String, RDKafkaErrorCode)> {
    let code = |error: KafkaError| {
        (error.to_string(), error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Unknown))
    };
    answer.map_err(code)?.into_iter().try_for_each(|topic| topic.map(drop))
}

/// In a thread of its own: the test's may be inside a runtime.
fn awaited<T: Send>(asked: impl Future<Output = T> + Send) -> T {
    let work = || {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.expect("a runtime for one question").block_on(asked)
    };
    std::thread::scope(|scope| scope.spawn(work).join())
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
