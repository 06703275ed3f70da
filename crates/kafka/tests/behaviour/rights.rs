//! A login with few rights: what it may not ask for is found out by trying, and what it may not do ends once it may.

use std::sync::LazyLock;
use std::time::Duration;

use postrider_core::{Refusal, Verdict};
use postrider_kafka::check::{Used, check};
use postrider_kafka::{KafkaConfig, KafkaSink};
use postrider_servers::{KafkaListener, KafkaOptions, PrivateKafka, Topic, topic_name};

use crate::letters::{clock, ids, letters, receipts, send};
use crate::refused::{arrived_in_order, send_all};
use crate::wait::block_on;

const DEADLINE: Duration = Duration::from_secs(10);

static GUARDED: LazyLock<PrivateKafka> = LazyLock::new(|| {
    PrivateKafka::start_with(&KafkaOptions {
        listeners: vec![KafkaListener { name: "login".to_owned(), login: true, certificates: None }],
        users: ["relay", "newcomer"].map(|name| (name.to_owned(), "hunter2".to_owned())).to_vec(),
        guarded: true,
        ..KafkaOptions::default()
    })
});

fn config(user: &str) -> KafkaConfig {
    let mut config = KafkaConfig::new(GUARDED.brokers_at("login"));
    config.publish_deadline = DEADLINE;
    for (name, value) in [
        ("security.protocol", "sasl_plaintext"),
        ("sasl.mechanism", "SCRAM-SHA-256"),
        ("sasl.username", user),
        ("sasl.password", "hunter2"),
    ] {
        config.properties.insert(name.to_owned(), value.to_owned());
    }
    config
}

fn allow(user: &str, rights: &[&str], topic: &str) {
    let principal = format!("User:{user}");
    let who = ["--add", "--allow-principal", &principal, "--topic", topic];
    GUARDED.tool("org.apache.kafka.tools.AclCommand", &[&who, rights].concat());
}

/// A topic that the relay may write, and whose settings it may not read.
fn topic(limit: &str) -> Topic {
    let topic =
        Topic::create_on(&GUARDED.inside(), &topic_name("untold"), 1, &[("max.message.bytes", limit)]);
    allow("relay", &["--operation", "Write", "--operation", "Describe"], topic.name());
    let used = Used { topic: topic.name().to_owned(), place: "here".to_owned() };
    let said: String = block_on(check(&config("relay"), &[used], &[]))
        .iter()
        .map(|finding| finding.fault.to_string())
        .collect();
    assert!(said.contains("its settings cannot be read") && said.contains("DescribeConfigs"), "{said}");
    topic
}

/// SNK-08: without the right `DescribeConfigs` nobody knows the topic's limit: the one that is over it is rejected alone, and its
/// neighbours arrive, in order.
#[test]
fn without_the_right_to_ask_for_a_limit_the_culprit_is_found_by_trying() {
    let mut topic = topic("3000");
    let words: Vec<String> = (0..60).map(|n| format!("{}{}", ["a", "b", "c"][n % 3], n)).collect();
    let sink = KafkaSink::open(config("relay"), clock()).unwrap();
    assert_eq!(block_on(send_all(&sink, topic.name(), &words, &[20, 41])), [20, 41]);
    arrived_in_order(&mut topic, &words, &[20, 41]);
}

/// The same where together they are too large, and nobody alone: all arrive, in order, in smaller batches.
#[test]
fn without_the_right_to_ask_for_a_limit_batches_become_small_enough() {
    let mut topic = topic("20000");
    let words: Vec<String> = (0..400).map(|n| format!("a{n}")).collect();
    let sink = KafkaSink::open(config("relay"), clock()).unwrap();
    assert_eq!(block_on(send_all(&sink, topic.name(), &words, &[])), [0_usize; 0]);
    arrived_in_order(&mut topic, &words, &[]);
}

/// B5, F5: a login that may write nowhere gets no producer's number (`ClusterAuthorizationFailed`), which spoils the producer.
/// Nothing is rejected for it, and with the right everything goes out, in order, through the next one.
#[test]
fn a_producer_that_may_not_begin_is_replaced_and_order_holds() {
    let mut topic = Topic::create_on(&GUARDED.inside(), &topic_name("unbegun"), 1, &[]);
    allow("newcomer", &["--operation", "Describe"], topic.name());
    let sink = KafkaSink::open(config("newcomer"), clock()).unwrap();
    let batch = || letters(topic.name(), "a1! a2 a3 b1! b2");
    let verdicts = block_on(send(&sink, &batch(), DEADLINE));
    let told = |verdict: &Verdict| match verdict {
        Verdict::Refusal(refusal @ (Refusal::Busy { .. } | Refusal::Unknown(_))) => {
            refusal.reason().to_string()
        }
        _ => String::new(),
    };
    let is_told = verdicts.iter().any(|verdict| told(verdict).contains("kafka-acls --add --idempotent"));
    let counted = |verdict: &Verdict| {
        matches!(verdict, Verdict::Receipt | Verdict::Refusal(Refusal::Rejected(_) | Refusal::Transient(_)))
    };
    assert!(is_told && !verdicts.iter().any(counted), "{verdicts:?}");
    allow("newcomer", &["--operation", "Write"], topic.name());
    // Every broker hears of a right in its own time.
    let mut verdicts = Vec::new();
    for _ in 0..10 {
        verdicts = block_on(send(&sink, &batch(), DEADLINE));
        assert!(
            !verdicts.iter().any(|verdict| *verdict != Verdict::Receipt && counted(verdict)),
            "{verdicts:?}"
        );
        if receipts(&verdicts) == 5 {
            break;
        }
    }
    assert_eq!(receipts(&verdicts), 5, "{verdicts:?}");
    let stored = ids(&mut topic);
    let of = |key: &str| stored.iter().filter(|id| id.starts_with(key)).cloned().collect::<Vec<_>>();
    assert_eq!(
        (of("a"), of("b")),
        (vec!["a1".into(), "a2".into(), "a3".into()], vec!["b1".into(), "b2".into()])
    );
}
