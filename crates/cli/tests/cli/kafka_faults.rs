//! What an operator has to mend at Kafka (B7, F2, F5): each fault holds its own scope, says what is wrong and what to do,
//! counts nothing, buries nothing, and when it is mended what was held goes out in order.

use std::sync::LazyLock;

use postrider_servers::{
    Certificates, Database, KafkaListener, KafkaOptions, PrivateKafka, Topic, topic_name,
};
use rustix::process::Signal;

use crate::wait::until;
use crate::world::{Process, World};

/// A broker that asks for logins and rights, and creates no topic by itself.
pub(crate) static GUARDED: LazyLock<PrivateKafka> = LazyLock::new(|| {
    PrivateKafka::start_with(&KafkaOptions {
        listeners: vec![KafkaListener { name: "login".to_owned(), login: true, certificates: None }],
        users: ["relay", "newcomer"].map(|name| (name.to_owned(), "hunter2".to_owned())).to_vec(),
        guarded: true,
        settings: vec!["auto.create.topics.enable=false".to_owned()],
        ..KafkaOptions::default()
    })
});

const QUICK: &str =
    "[relay]\npublish_deadline = \"3s\"\n[breaker]\nopen = \"300ms\"\n[retry]\nretries_max = 1\n";
const EVENTS: usize = 30;

/// An outbox with orders and stock, and a relay that sends each to its topic.
struct Fault {
    world: World,
    database: Database,
    orders: Topic,
    stock: String,
    relay: Process,
}

impl Fault {
    /// `sinks` is what the configuration says of them; the second one, if any, takes the orders.
    fn begin(kafka: &PrivateKafka, sinks: &str, orders_by: &str) -> Self {
        let (database, world) = (Database::create_blocking(), World::new());
        let orders = Topic::create_on(&kafka.inside(), &topic_name("orders"), 2, &[]);
        let stock = topic_name("stock");
        let (url, name) = (database.url(), orders.name());
        world.write(
            "postrider.toml",
            &format!(
                "[outbox]\nurl = \"{url}\"\n{sinks}[[route]]\ntype = \"shop.order.*\"\ntopic = \"{name}\"\n{orders_by}\
                 [[route]]\ntopic = \"{stock}\"\n{QUICK}"
            ),
        );
        world.run(&["migrate"]).ok();
        let relay = world.start("relay", &["run", "-v"], &[]);
        let fault = Self { world, database, orders, stock, relay };
        fault.write(0);
        fault
    }

    /// Events of both kinds, numbered on from `first`, on three keys in turn.
    fn write(&self, first: usize) {
        let row = |n: usize| {
            let kind = if n.is_multiple_of(2) { "order" } else { "stock" };
            format!(
                "('{kind}-{n}', 'shop.{kind}.changed.v1', '/shop', '{kind}', '{kind}-{}', '{{\"n\":{n}}}', 1700000000000000)",
                n % 3
            )
        };
        let rows: Vec<String> = (first..first + EVENTS).map(row).collect();
        self.database.query(&format!(
            "insert into outbox (event_id, type, source, aggregate_type, aggregate_id, payload, time) values {}",
            rows.join(", ")
        ));
    }

    /// F5: log and `status` say it in these words, and no secret.
    #[track_caller]
    fn is_told(&mut self, parts: &[&str]) {
        self.relay.wait_until(&format!("{parts:?}"), |said| {
            said.lines().any(|line| line.contains("WARN") && parts.iter().all(|part| line.contains(part)))
        });
        until(&format!("{parts:?} in status"), || {
            let status = self.world.run(&["status"]).ok();
            parts.iter().all(|part| status.contains(part))
        });
        let told = format!("{}{}", self.relay.said(), self.world.run(&["status", "--json"]).ok());
        assert!(!told.contains("hunter"), "{told}");
    }

    /// F2: the orders flow on, the first ones and those that come later.
    #[track_caller]
    fn orders_flow(&mut self, arrived: impl Fn(&mut Topic, &World) -> usize) {
        until("the orders", || arrived(&mut self.orders, &self.world) == EVENTS / 2);
        self.write(EVENTS);
        until("the later orders", || arrived(&mut self.orders, &self.world) == EVENTS);
        assert!(self.world.run(&["list", "--state", "dead", "--json"]).ok().is_empty(), "nothing is buried");
    }

    /// Once mended, everything that was held comes, each key in order, and nothing was counted.
    #[track_caller]
    fn mended(mut self, topic: &mut Topic, held: usize) {
        until("what was held", || different(topic) == held);
        let mut latest = std::collections::HashMap::new();
        let mut seen = std::collections::HashSet::new();
        for record in topic.read().iter().filter(|record| seen.insert(record.header("ce_id"))) {
            let n: usize =
                record.header("ce_id").rsplit('-').next().and_then(|number| number.parse().ok()).unwrap();
            let before = latest.insert(record.key_text(), n);
            assert!(
                before.is_none_or(|before| before < n),
                "{} came after {before:?}",
                record.header("ce_id")
            );
        }
        assert_eq!(self.relay.said().matches("failed try").count(), 0, "{}", self.relay.said());
        assert!(self.world.run(&["list", "--state", "dead", "--json"]).ok().is_empty());
        self.relay.signal(Signal::TERM);
        assert_eq!(self.relay.wait().code(), Some(0), "{}", self.relay.said());
    }
}

fn different(topic: &mut Topic) -> usize {
    let ids = topic.read().iter().map(|record| record.header("ce_id"));
    ids.collect::<std::collections::HashSet<_>>().len()
}

fn in_the_file(world: &World) -> usize {
    world.read("events.jsonl").lines().count()
}

pub(crate) fn sink(brokers: &str, properties: &str) -> String {
    format!("[[sink]]\nname = \"kafka\"\nurl = \"kafka://{brokers}\"\n[sink.properties]\n{properties}")
}

pub(crate) fn login(user: &str, password: &str) -> String {
    sink(
        &GUARDED.brokers_at("login"),
        &format!(
            "\"security.protocol\" = \"sasl_plaintext\"\n\"sasl.mechanism\" = \"SCRAM-SHA-256\"\n\
             \"sasl.username\" = \"{user}\"\n\"sasl.password\" = \"{password}\"\n"
        ),
    )
}

pub(crate) fn allow(topic: &str) {
    let rights = ["--add", "--allow-principal", "User:relay", "--producer", "--topic", topic];
    GUARDED.tool("org.apache.kafka.tools.AclCommand", &rights);
}

#[test]
fn a_missing_topic_holds_what_goes_there_until_it_is_created() {
    let mut fault = Fault::begin(&GUARDED, &sink(&GUARDED.brokers(), ""), "");
    let stock = fault.stock.clone();
    fault.is_told(&[&stock, "Create the topic"]);
    fault.orders_flow(|orders, _| different(orders));
    let mut stock = Topic::create_on(&GUARDED.inside(), &stock, 2, &[]);
    fault.mended(&mut stock, EVENTS);
}

#[test]
fn a_forbidden_topic_holds_what_goes_there_until_it_is_allowed() {
    let mut fault = Fault::begin(&GUARDED, &login("relay", "hunter2"), "");
    let mut stock = Topic::create_on(&GUARDED.inside(), &fault.stock, 2, &[]);
    allow(fault.orders.name());
    fault.is_told(&[stock.name(), "authorization failed", "kafka-acls"]);
    fault.orders_flow(|orders, _| different(orders));
    allow(stock.name());
    fault.mended(&mut stock, EVENTS);
}

const FILE: &str = "[[sink]]\nname = \"file\"\nurl = \"file://events.jsonl\"\n";

#[test]
fn a_refused_login_holds_its_sink_until_the_password_is_right() {
    let sinks = format!("{}{FILE}", login("newcomer", "hunter3"));
    let mut fault = Fault::begin(&GUARDED, &sinks, "sink = \"file\"\n");
    // With the other topic's rights: the login is what is wrong.
    let everything = ["--add", "--allow-principal", "User:newcomer", "--producer", "--topic", "*"];
    GUARDED.tool("org.apache.kafka.tools.AclCommand", &everything);
    let mut stock = Topic::create_on(&GUARDED.inside(), &fault.stock, 2, &[]);
    fault.is_told(&["SASL authentication error", "sasl.password"]);
    fault.orders_flow(|_, world| in_the_file(world));
    let password = "SCRAM-SHA-256=[password=hunter3]";
    let change = ["--alter", "--add-config", password, "--entity-type", "users", "--entity-name", "newcomer"];
    GUARDED.tool("kafka.admin.ConfigCommand", &change);
    fault.mended(&mut stock, EVENTS);
}

#[test]
fn a_certificate_for_another_name_holds_its_sink_until_it_is_replaced() {
    let [wrong, right] = Certificates::of_each(["elsewhere.example", "127.0.0.1"]);
    let tls = KafkaListener { name: "secure".to_owned(), login: false, certificates: Some(wrong.clone()) };
    let mut kafka =
        PrivateKafka::start_with(&KafkaOptions { listeners: vec![tls], ..KafkaOptions::default() });
    let folder = tempfile::tempdir().unwrap();
    let authority = folder.path().join("authority.pem");
    std::fs::write(&authority, &wrong.authority).unwrap();
    let properties =
        format!("\"security.protocol\" = \"ssl\"\n\"ssl.ca.location\" = \"{}\"\n", authority.display());
    let sinks = format!("{}{FILE}", sink(&kafka.brokers_at("secure"), &properties));
    let mut fault = Fault::begin(&kafka, &sinks, "sink = \"file\"\n");
    let mut stock = Topic::create_on(&kafka.inside(), &fault.stock, 2, &[]);
    fault.is_told(&[
        "certificate verify failed: it is for another name",
        "by a name that is in its certificate",
    ]);
    fault.orders_flow(|_, world| in_the_file(world));
    kafka.certify("secure", &right);
    kafka.restart(1);
    fault.mended(&mut stock, EVENTS);
}
