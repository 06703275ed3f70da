//! The tools for Kafka themselves, over real brokers.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail tests")]
#![allow(clippy::disallowed_methods, reason = "a test tool is tested by the real clock")]

use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use postrider_servers::{
    Certificates, KafkaListener, KafkaOptions, Partition, PrivateKafka, Topic, kafka, kafka_tool, topic_name,
    until,
};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, DeliveryResult, Producer, ProducerContext, ThreadedProducer};
use rdkafka::{ClientConfig, ClientContext};

/// A producer that counts what was taken.
type Client = ThreadedProducer<Taken>;

#[derive(Default)]
struct Taken(AtomicUsize);

impl ClientContext for Taken {}

impl ProducerContext for Taken {
    type DeliveryOpaque = ();

    fn delivery(&self, told: &DeliveryResult<'_>, (): ()) {
        self.0.fetch_add(usize::from(told.is_ok()), Ordering::SeqCst);
    }
}

fn client(brokers: &str, settings: &[(&str, &str)]) -> Client {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers).set("reconnect.backoff.max.ms", "100");
    config.set_log_level(rdkafka::config::RDKafkaLogLevel::Emerg);
    settings.iter().fold(&mut config, |config, (key, value)| config.set(*key, *value));
    config.create_with_context(Taken::default()).unwrap()
}

fn send(client: &Client, topic: &str, value: &str) {
    let headers = OwnedHeaders::new().insert(Header { key: "h", value: Some("1") });
    let record = BaseRecord::to(topic).partition(0).key("k").payload(value).headers(headers);
    client.send(record).map_err(|(error, _)| error).unwrap();
    client.context().0.fetch_sub(1, Ordering::SeqCst);
}

/// Whether everything was taken within so long.
fn flushed(client: &Client, seconds: u64) -> bool {
    client.flush(Duration::from_secs(seconds)).is_ok() && client.context().0.load(Ordering::SeqCst) == 0
}

fn values(topic: &mut Topic) -> Vec<String> {
    topic.read().iter().map(postrider_servers::Record::value_text).collect()
}

#[test]
fn a_topic_is_read_to_its_end_and_then_further() {
    let mut topic = Topic::create(2);
    let client = client(&kafka(), &[]);
    assert!(values(&mut topic).is_empty());
    send(&client, topic.name(), "a");
    assert!(flushed(&client, 30));
    let [record] = topic.read() else { panic!("one record was sent: {topic:?}") };
    assert_eq!((record.partition, record.offset), (0, 0));
    assert_eq!(record.key_text(), "k");
    assert_eq!((record.header("h"), record.header("i")), ("1".to_owned(), String::new()));
    assert!(record.time_ms > 1_700_000_000_000, "{}", record.time_ms);
    send(&client, topic.name(), "b");
    assert!(flushed(&client, 30));
    topic.grow(3);
    assert_eq!(values(&mut topic), ["a", "b"]);
    assert_eq!(topic.partitions().len(), 3);
    assert_eq!(values(&mut Topic::open(&kafka(), topic.name())), ["a", "b"]);
    topic.delete();
}

/// The consumer that a user has at hand.
#[test]
fn kafkas_own_consumer_reads_key_headers_and_value() {
    let topic = Topic::create(1);
    let client = client(&kafka(), &[]);
    send(&client, topic.name(), "a");
    assert!(flushed(&client, 30));
    let words = "--from-beginning --max-messages 1 --timeout-ms 60000 --formatter-property print.key=true \
                 --formatter-property print.headers=true";
    let brokers = kafka();
    let named = ["--bootstrap-server", &brokers, "--topic", topic.name()];
    let words: Vec<&str> = named.into_iter().chain(words.split_whitespace()).collect();
    let said = kafka_tool("org.apache.kafka.tools.consumer.ConsoleConsumer", &words);
    assert_eq!(said, "h:1\tk\ta\n");
}

#[test]
fn a_killed_broker_comes_back_where_it_was_with_what_it_had() {
    let mut server = PrivateKafka::start();
    let brokers = server.brokers();
    let mut topic = Topic::create_on(&server.inside(), "t", 1, &[]);
    let client = client(&brokers, &[]);
    send(&client, "t", "a");
    assert!(flushed(&client, 30));
    server.kill(1);
    send(&client, "t", "b");
    assert!(!flushed(&client, 1), "a killed broker answers");
    server.restart(1);
    assert!(flushed(&client, 30), "the client does not find it again");
    assert_eq!(server.brokers(), brokers);
    assert_eq!(values(&mut topic), ["a", "b"]);
    server.stop(1);
    server.restart(1);
    assert_eq!(values(&mut topic), ["a", "b"]);

    server.freeze(1);
    send(&client, "t", "c");
    assert!(!flushed(&client, 1), "a frozen broker answers");
    server.thaw(1);
    assert!(flushed(&client, 30), "the broker does not go on");

    server.door(1).stall();
    send(&client, "t", "d");
    assert!(!flushed(&client, 1), "something came through a stalled door");
    assert_eq!(values(&mut topic), ["a", "b", "c"], "the test itself is not behind the door");
    server.doors().for_each(|door| door.resume());
    assert!(flushed(&client, 30));
    let accepted = server.door(1).accepted();
    server.door(1).cut();
    send(&client, "t", "e");
    assert!(flushed(&client, 30));
    assert!(server.door(1).accepted() > accepted, "the client did not come by the door");
    assert_eq!(values(&mut topic).last().unwrap(), "e");
}

/// It answers at its other ports for a moment, and ends then: that is no start.
#[test]
fn a_broker_whose_port_is_taken_for_a_moment_comes_back_to_it() {
    let mut server = PrivateKafka::start();
    server.kill(1);
    let inside: u16 = server.inside().split_once(':').unwrap().1.parse().unwrap();
    let thief = TcpListener::bind(("127.0.0.1", inside)).unwrap();
    let log = server.log_file(1);
    let back = std::thread::spawn(move || {
        server.restart(1);
        server
    });
    until("a start fails", || {
        std::fs::read_to_string(&log).is_ok_and(|said| said.contains("Address already in use"))
    });
    assert!(!back.is_finished(), "a broker without one of its ports counts as started");
    drop(thief);
    let server = back.join().unwrap();
    assert!(Topic::create_on(&server.inside(), "t", 1, &[]).read().is_empty());
}

#[test]
fn in_a_cluster_the_leader_moves_and_too_few_copies_are_seen() {
    let mut cluster = PrivateKafka::start_with(&KafkaOptions { brokers: 3, ..KafkaOptions::default() });
    assert_eq!(cluster.nodes(), [1, 2, 3]);
    let mut topic = Topic::create_placed(&cluster.inside(), "t", &[&[2, 1, 3]], &[]);
    let alone = Topic::create_placed(&cluster.inside(), "alone", &[&[3]], &[]);
    assert_eq!(topic.partitions()[0], Partition { leader: Some(2), in_sync: vec![2, 1, 3] });
    let client = client(&cluster.brokers(), &[]);
    send(&client, "t", "a");
    assert!(flushed(&client, 30));
    cluster.kill(2);
    until("another leader", || topic.partitions()[0].leader.is_some_and(|leader| leader != 2));
    send(&client, "t", "b");
    assert!(flushed(&client, 30), "with one of three away all goes on");
    cluster.kill(3);
    until("only one copy", || topic.partitions()[0].in_sync == [1]);
    until("no copy", || alone.partitions()[0].leader.is_none());
    send(&client, "t", "c");
    assert!(!flushed(&client, 2), "with two of three away writes are refused");
    cluster.restart(3);
    assert!(flushed(&client, 60));
    cluster.restart_all();
    assert_eq!(values(&mut topic), ["a", "b", "c"]);
}

fn sends(brokers: &str, topic: &str, settings: &[(&str, &str)]) -> bool {
    let client = client(brokers, settings);
    send(&client, topic, "x");
    flushed(&client, 5)
}

fn listener(name: &str, login: bool, certified: Option<&Certificates>) -> KafkaListener {
    KafkaListener { name: name.to_owned(), login, certificates: certified.cloned() }
}

#[test]
fn who_logs_in_who_is_certified_and_who_has_rights_gets_through() {
    let certificates = Certificates::of("127.0.0.1");
    let wrong = Certificates::of("elsewhere.example");
    let mut server = PrivateKafka::start_with(&KafkaOptions {
        listeners: vec![
            listener("login", true, None),
            listener("secure", true, Some(&certificates)),
            listener("wrong", false, Some(&wrong)),
        ],
        users: vec![("relay".to_owned(), "hunter2".to_owned())],
        guarded: true,
        settings: vec!["auto.create.topics.enable=false".to_owned()],
        ..KafkaOptions::default()
    });
    let folder = std::env::temp_dir().join(topic_name("authorities"));
    std::fs::create_dir_all(&folder).unwrap();
    let trusted = |name: &str, certificates: &Certificates| {
        std::fs::write(folder.join(name), &certificates.authority).unwrap();
        folder.join(name).display().to_string()
    };
    let (right_ca, wrong_ca) = (trusted("right", &certificates), trusted("wrong", &wrong));
    let mut topic = Topic::create_on(&server.inside(), "t", 1, &[]);
    let user = |mechanism, password| {
        [("sasl.mechanism", mechanism), ("sasl.username", "relay"), ("sasl.password", password)]
    };
    let by =
        |protocol, rest: &[(&'static str, &'static str)]| [&[("security.protocol", protocol)], rest].concat();

    let login = server.brokers_at("login");
    let scram = by("sasl_plaintext", &user("SCRAM-SHA-256", "hunter2"));
    assert!(!sends(&login, "t", &scram), "a user without rights writes");
    let rights = ["--add", "--allow-principal", "User:relay", "--producer", "--topic", "t"];
    server.tool("org.apache.kafka.tools.AclCommand", &rights);
    assert!(sends(&login, "t", &scram));
    assert!(sends(&login, "t", &by("sasl_plaintext", &user("SCRAM-SHA-512", "hunter2"))));
    assert!(sends(&login, "t", &by("sasl_plaintext", &user("PLAIN", "hunter2"))));
    assert!(!sends(&login, "t", &by("sasl_plaintext", &user("PLAIN", "hunter3"))));

    let secure = server.brokers_at("secure");
    let trusting = |protocol, ca| {
        let mut settings = by(protocol, &user("PLAIN", "hunter2"));
        settings.push(("ssl.ca.location", ca));
        settings
    };
    let ca: &'static str = right_ca.leak();
    let other_ca: &'static str = wrong_ca.leak();
    assert!(sends(&secure, "t", &trusting("sasl_ssl", ca)));
    assert!(!sends(&secure, "t", &trusting("sasl_ssl", other_ca)), "another authority is trusted");
    let misnamed = server.brokers_at("wrong");
    assert!(!sends(&misnamed, "t", &trusting("ssl", other_ca)), "another name is taken");
    assert_eq!(topic.read().len(), 4);

    server.certify("wrong", &Certificates { ..certificates });
    server.restart(1);
    server.tool(
        "org.apache.kafka.tools.AclCommand",
        &["--add", "--allow-principal", "User:ANONYMOUS", "--producer", "--topic", "t"],
    );
    assert!(sends(&misnamed, "t", &trusting("ssl", ca)), "the certificate is mended");
    assert!(!sends(&server.brokers(), "missing", &[]), "a topic is created by whoever asks");
    std::fs::remove_dir_all(&folder).unwrap();
}
