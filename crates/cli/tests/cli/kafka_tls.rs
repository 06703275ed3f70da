//! TLS and logins (F5, F6): each way in publishes, what does not fit is named with its remedy, and no secret is shown.

use std::sync::LazyLock;

use postrider_servers::{Certificates, KafkaListener, KafkaOptions, PrivateKafka, Topic, topic_name};

use crate::world::World;

/// A broker with a listener for each way, its authority, and what it says of a relay.
struct Ways {
    kafka: PrivateKafka,
    server: Certificates,
    relay: Certificates,
}

static WAYS: LazyLock<Ways> = LazyLock::new(|| {
    let [server, relay, elsewhere] = Certificates::of_each(["127.0.0.1", "relay", "elsewhere.example"]);
    let listener = |name: &str, login, certificates: Option<&Certificates>| KafkaListener {
        name: name.to_owned(),
        login,
        certificates: certificates.cloned(),
    };
    let mutual =
        ["ssl.client.auth=required", "ssl.truststore.type=PEM", "ssl.truststore.location=authority.pem"];
    let kafka = PrivateKafka::start_with(&KafkaOptions {
        listeners: vec![
            listener("login", true, None),
            listener("secure", false, Some(&server)),
            listener("both", true, Some(&server)),
            listener("mutual", false, Some(&server)),
            listener("misnamed", false, Some(&elsewhere)),
            listener("misnamedlogin", true, Some(&elsewhere)),
        ],
        users: vec![("relay".to_owned(), "hunter2".to_owned())],
        settings: mutual.map(|line| format!("listener.name.mutual.{line}")).to_vec(),
        files: vec![("authority.pem".to_owned(), server.authority.clone().into_bytes())],
        ..KafkaOptions::default()
    });
    Ways { kafka, server, relay }
});

/// An outbox with an event in it, and a relay that takes this way.
fn world(listener: &str, topic: &str, properties: &[(&str, &str)]) -> World {
    let world = World::new();
    let properties: String =
        properties.iter().map(|(name, value)| format!("\"{name}\" = \"{value}\"\n")).collect();
    let files = [
        ("ca.pem", &WAYS.server.authority),
        ("other.pem", &Certificates::of("127.0.0.1").authority),
        ("relay.pem", &WAYS.relay.server),
        ("relay.key", &WAYS.relay.key),
    ];
    for (name, text) in files {
        world.write(name, text);
    }
    world.write(
        "postrider.toml",
        &format!(
            "[outbox]\nurl = \"sqlite://shop.db\"\n[relay]\npublish_deadline = \"3s\"\n[[sink]]\nurl = \"kafka://{}\"\n\
             [sink.properties]\n{properties}[[route]]\ntopic = \"{topic}\"\n",
            WAYS.kafka.brokers_at(listener)
        ),
    );
    world.run(&["migrate"]).ok();
    world.append("shop.order.created.v1", "7", "{}");
    world
}

/// `check` finds nothing, and the event arrives.
#[track_caller]
fn publishes(listener: &str, properties: &[(&str, &str)]) {
    let mut topic = Topic::create_on(&WAYS.kafka.inside(), &topic_name("tls"), 1, &[]);
    let world = world(listener, topic.name(), properties);
    for args in [&["check"][..], &["run", "--until-empty", "-vv"]] {
        let did = world.run(args);
        shows_no_secret(&format!("{}{}", did.stdout, did.stderr));
        did.ok();
    }
    assert_eq!(topic.read().len(), 1, "{listener}");
}

/// `check` and `run` say what is wrong and what to do; nothing arrives, and nothing is dead.
#[track_caller]
fn refused(listener: &str, properties: &[(&str, &str)], parts: &[&str]) -> String {
    let mut topic = Topic::create_on(&WAYS.kafka.inside(), &topic_name("tls"), 1, &[]);
    let world = world(listener, topic.name(), properties);
    let check = world.run(&["check"]);
    let run = world.run(&["run", "--until-empty", "--timeout", "5s"]);
    for did in [&check, &run] {
        assert_eq!(did.code, 4, "{}{}", did.stdout, did.stderr);
        for part in parts {
            assert!(did.stderr.contains(part), "\"{part}\" is not in: {}", did.stderr);
        }
        shows_no_secret(&format!("{}{}", did.stdout, did.stderr));
    }
    assert!(world.run(&["list", "--state", "dead", "--json"]).ok().is_empty());
    assert_eq!(topic.read().len(), 0);
    format!("{}{}", check.stderr, run.stderr)
}

#[track_caller]
fn shows_no_secret(told: &str) {
    let key = WAYS.relay.key.lines().nth(1).unwrap();
    assert!(!told.contains("hunter") && !told.contains(key), "{told}");
}

const SCRAM: [(&str, &str); 3] =
    [("sasl.mechanism", "SCRAM-SHA-512"), ("sasl.username", "relay"), ("sasl.password", "hunter2")];

/// F6: the server's certificate is verified by a private authority.
#[test]
fn events_arrive_over_tls() {
    publishes("secure", &[("security.protocol", "ssl"), ("ssl.ca.location", "ca.pem")]);
}

/// F6: a login over TLS.
#[test]
fn events_arrive_with_a_login_over_tls() {
    publishes(
        "both",
        &[&[("security.protocol", "sasl_ssl"), ("ssl.ca.location", "ca.pem")], &SCRAM[..]].concat(),
    );
}

#[test]
fn events_arrive_with_a_login() {
    publishes("login", &[&[("security.protocol", "sasl_plaintext")], &SCRAM[..]].concat());
    let plain = [("sasl.mechanism", "PLAIN"), SCRAM[1], SCRAM[2]];
    publishes("login", &[&[("security.protocol", "sasl_plaintext")], &plain[..]].concat());
}

const CERTIFIED: [(&str, &str); 4] = [
    ("security.protocol", "ssl"),
    ("ssl.ca.location", "ca.pem"),
    ("ssl.certificate.location", "relay.pem"),
    ("ssl.key.location", "relay.key"),
];

/// F6: a certificate on both sides.
#[test]
fn events_arrive_with_a_certificate_of_the_relays() {
    publishes("mutual", &CERTIFIED);
}

/// F5, F6: the broker asks for a certificate, and the relay has none.
#[test]
fn a_missing_certificate_of_the_relays_is_named() {
    refused("mutual", &CERTIFIED[..2], &["certificate", "ssl.certificate.location"]);
}

/// F5, F6: another authority than the broker's, and none at all: each has its own remedy, and neither is taken for a name.
#[test]
fn an_authority_that_does_not_know_the_broker_is_named() {
    let properties = [("security.protocol", "ssl"), ("ssl.ca.location", "other.pem")];
    let told = [
        "certificate verify failed: nobody vouches for it whom ssl.ca.location names",
        "Let ssl.ca.location",
    ];
    let said = refused("secure", &properties, &told);
    assert!(!said.contains("another name"), "{said}");
    let told =
        ["certificate verify failed: nobody vouches for it whom the system trusts", "Set ssl.ca.location"];
    let said = refused("secure", &properties[..1], &told);
    assert!(!said.contains("another name"), "{said}");
}

/// F5, F6: the certificate is for another name than the url has; the authority is right, and nobody is sent to look for it.
#[test]
fn a_certificate_for_another_name_is_named() {
    let told = ["certificate verify failed: it is for another name", "by a name that is in its certificate"];
    let tls = [("security.protocol", "ssl"), ("ssl.ca.location", "ca.pem")];
    let login = [&[("security.protocol", "sasl_ssl"), tls[1]], &SCRAM[..]].concat();
    for (listener, properties) in [("misnamed", &tls[..]), ("misnamedlogin", &login)] {
        let said = refused(listener, properties, &told);
        assert!(!said.contains("ssl.ca.location"), "{listener}: {said}");
    }
}

/// F5, F6: a wrong password, over TLS.
#[test]
fn a_wrong_password_over_tls_is_named() {
    let wrong = [SCRAM[0], SCRAM[1], ("sasl.password", "hunter3")];
    let properties =
        [&[("security.protocol", "sasl_ssl"), ("ssl.ca.location", "ca.pem")], &wrong[..]].concat();
    refused("both", &properties, &["SASL authentication error", "sasl.password"]);
}

/// F5: TLS where the broker has none, and none where it has.
#[test]
fn another_protocol_than_the_brokers_is_named() {
    refused("plain", &[("security.protocol", "ssl"), ("ssl.ca.location", "ca.pem")], &["security.protocol"]);
    refused("secure", &[], &["The likely cause is security.protocol"]);
    refused("login", &[], &["The likely cause is security.protocol"]);
}

/// F5: a file that is not there is a fault of the configuration.
#[test]
fn a_file_that_is_not_there_is_named() {
    let world = world("secure", "any", &[("security.protocol", "ssl"), ("ssl.ca.location", "nowhere.pem")]);
    world.run(&["check"]).failed(
        2,
        &["postrider.toml:", "\"ssl.ca.location\": \"nowhere.pem\" cannot be read", "Correct the path"],
    );
}
