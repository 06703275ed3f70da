//! What is wrong with a topic, a login or a certificate holds what it concerns, with the reason and the remedy.

use std::time::Duration;

use postrider_core::sink::Sink;
use postrider_core::verdict::Scope;
use postrider_core::{Refusal, Verdict};
use postrider_kafka::{KafkaConfig, KafkaSink};
use postrider_servers::{Certificates, KafkaListener, KafkaOptions, PrivateKafka, Topic, topic_name};

use crate::letters::{clock, ids, letters, open, receipts, send};
use crate::wait::{block_on, moment};

const DEADLINE: Duration = Duration::from_secs(10);

fn busy(verdict: &Verdict) -> (Scope, String) {
    match verdict {
        Verdict::Refusal(Refusal::Busy { scope, reason }) => (*scope, reason.to_string()),
        other => panic!("busy, but it is {other:?}"),
    }
}

/// A guarded cluster with a login, with TLS, and without topics that nobody has created.
fn guarded(certificates: Certificates) -> PrivateKafka {
    let listener =
        |name: &str, login, certificates| KafkaListener { name: name.to_owned(), login, certificates };
    PrivateKafka::start_with(&KafkaOptions {
        settings: vec!["auto.create.topics.enable=false".to_owned()],
        listeners: vec![listener("login", true, None), listener("tls", false, Some(certificates))],
        users: vec![("relay".to_owned(), "right".to_owned())],
        guarded: true,
        ..KafkaOptions::default()
    })
}

fn with(brokers: String, properties: &[(&str, &str)]) -> KafkaSink {
    let mut config = KafkaConfig::new(brokers);
    config.properties =
        properties.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    KafkaSink::open(config, clock()).unwrap()
}

fn login(kafka: &PrivateKafka, password: &str) -> KafkaSink {
    with(
        kafka.brokers_at("login"),
        &[
            ("security.protocol", "sasl_plaintext"),
            ("sasl.mechanism", "SCRAM-SHA-256"),
            ("sasl.username", "relay"),
            ("sasl.password", password),
        ],
    )
}

/// B7, F2, F5: a topic that is missing or forbidden holds itself and nobody else; once it is mended it goes on.
#[test]
fn each_fault_holds_its_own_scope_and_says_what_to_do() {
    let certificates = Certificates::of("elsewhere.example");
    let kafka = guarded(certificates.clone());
    let (inside, name, missing) = (kafka.inside(), topic_name("there"), topic_name("missing"));
    let mut there = Topic::create_on(&inside, &name, 1, &[]);
    block_on(async {
        // Missing.
        let sink = open(&kafka.brokers(), DEADLINE);
        let batch =
            [letters(&missing, "a1! a2"), letters(&name, "b1! b2")].into_iter().flatten().collect::<Vec<_>>();
        let verdicts = send(&sink, &batch, DEADLINE).await;
        let (scope, reason) = busy(&verdicts[0]);
        assert_eq!(scope, Scope::Topic);
        assert!(reason.contains(&missing) && reason.contains("Create the topic"), "{reason}");
        assert_eq!(verdicts[1], Verdict::Refusal(Refusal::Withheld));
        assert_eq!(receipts(&verdicts[2..]), 2, "{verdicts:?}");
        let mut created = Topic::create_on(&inside, &missing, 1, &[]);
        let verdicts = send(&sink, &letters(&missing, "a1! a2"), DEADLINE).await;
        assert_eq!(receipts(&verdicts), 2, "{verdicts:?}");
        assert_eq!(ids(&mut created), ["a1", "a2"]);
        // Forbidden.
        let user = login(&kafka, "right");
        let verdicts = send(&user, &letters(&name, "c1!"), DEADLINE).await;
        let (scope, reason) = busy(&verdicts[0]);
        assert_eq!(scope, Scope::Topic);
        assert!(reason.contains(&name) && reason.contains("kafka-acls"), "{reason}");
        kafka.tool(
            "org.apache.kafka.tools.AclCommand",
            &["--add", "--allow-principal", "User:relay", "--producer", "--topic", &name],
        );
        // A right that was just given is not known everywhere at once; until then nothing is attempted.
        while receipts(&send(&user, &letters(&name, "c1! c2"), DEADLINE).await) < 2 {
            moment(100).await;
        }
        assert_eq!(ids(&mut there), ["b1", "b2", "c1", "c2"]);
        // The login.
        let stranger = login(&kafka, "wrong");
        let verdicts = send(&stranger, &letters(&name, "d1!"), DEADLINE).await;
        let (scope, reason) = busy(&verdicts[0]);
        assert_eq!(scope, Scope::Sink);
        assert!(reason.contains("sasl.password") && !reason.contains("wrong"), "{reason}");
        let fault = stranger.probe().await.unwrap_err().to_string();
        assert!(fault.contains("sasl.password"), "{fault}");
        login(&kafka, "right").probe().await.unwrap();
        // The certificate's name.
        let trust = [("security.protocol", "ssl"), ("ssl.ca.pem", &*certificates.authority)];
        let tls = with(kafka.brokers_at("tls"), &trust);
        let (scope, reason) = busy(&send(&tls, &letters(&name, "e1!"), DEADLINE).await[0]);
        assert_eq!(scope, Scope::Sink);
        assert!(reason.contains("certificate"), "{reason}");
    });
}
