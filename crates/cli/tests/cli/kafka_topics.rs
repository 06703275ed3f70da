//! Topics from the configuration (B16): created, compared, and tested by `check`.

use postrider_servers::{KafkaOptions, PrivateKafka, Topic, kafka, topic_name};

use crate::world::World;

fn world(brokers: &str, more: &str) -> World {
    let world = World::new();
    world.write(
        "postrider.toml",
        &format!("[outbox]\nurl = \"sqlite://shop.db\"\n[[sink]]\nname = \"kafka\"\nurl = \"kafka://{brokers}\"\n{more}"),
    );
    world
}

fn setting(brokers: &str, topic: &str) -> String {
    let args = ["--bootstrap-server", brokers, "--describe", "--topic", topic];
    postrider_servers::kafka_tool("org.apache.kafka.tools.TopicCommand", &args)
}

/// B16: partitions, replication, retention and min.insync.replicas as configured; a second run changes nothing; what differs is
/// named, by `migrate` and by `check`.
#[test]
fn b16_topics_are_created_and_what_differs_is_named() {
    let (brokers, name) = (kafka(), topic_name("provisioned"));
    let topic = |partitions: u32, retention: &str| {
        format!(
            "[[topic]]\nnames = [\"{name}\", \"{name}.dlq\"]\npartitions = {partitions}\nreplication = 1\nretention = \"{retention}\"\n\
             min_insync_replicas = 1\n[topic.config]\n\"max.message.bytes\" = 1048588\n\
             [[route]]\ntopic = \"{name}\"\n"
        )
    };
    let world = world(&brokers, &topic(3, "7d"));
    let check = world.run(&["check"]);
    assert_eq!(check.code, 3, "{}", check.stderr);
    assert!(
        check.stderr.contains(&format!("there is no topic \"{name}\". `postrider migrate` creates it")),
        "{}",
        check.stderr
    );

    let print = world.run(&["migrate", "--print"]).ok();
    let command = format!(
        "-- kafka-topics.sh --bootstrap-server {brokers} --create --if-not-exists --topic {name} --partitions 3"
    );
    assert!(print.contains(&command), "{print}");
    let done = world.run(&["migrate"]).ok();
    assert!(done.contains(&format!("created topic {name}, partitions 3, replication 1")), "{done}");
    assert!(done.contains(&format!("created topic {name}.dlq")), "{done}");
    let described = setting(&brokers, &name);
    for part in
        ["PartitionCount: 3", "ReplicationFactor: 1", "retention.ms=604800000", "min.insync.replicas=1"]
    {
        assert!(described.contains(part), "{part}: {described}");
    }
    assert_eq!(world.run(&["migrate"]).ok(), "Everything is up to date.\n");
    world.run(&["check"]).ok();

    world.write("postrider.toml", &world.read("postrider.toml").replace(&topic(3, "7d"), &topic(4, "30d")));
    let migrate = world.run(&["migrate"]);
    for part in [
        format!("topic \"{name}\": partitions is 3, and 4 is configured"),
        format!("topic \"{name}.dlq\": retention is 7d, and 30d is configured"),
    ] {
        assert!(migrate.stderr.contains(&part), "{part}: {}", migrate.stderr);
    }
    assert_eq!(migrate.ok(), "Nothing is missing. What differs was left as it is.\n");
    let check = world.run(&["check"]);
    assert_eq!(check.code, 5, "{}", check.stderr);
    assert!(check.stderr.contains("partitions is 3, and 4 is configured"), "{}", check.stderr);
}

/// B16, F5: more replicas in sync than there are replicas would refuse every write.
#[test]
fn b16_min_insync_above_the_replication_is_refused() {
    let world =
        world("127.0.0.1:1", "[[topic]]\nnames = [\"a\"]\nreplication = 1\nmin_insync_replicas = 2\n");
    world
        .run(&["check"])
        .failed(2, &["postrider.toml:7", "min_insync_replicas = 2 is above replication = 1"]);
    world
        .run(&["migrate"])
        .failed(2, &["postrider.toml:7", "min_insync_replicas = 2 is above replication = 1"]);
}

/// B16, F5: what the broker does not take is a fault of the configuration, with the setting's name and line.
#[test]
fn b16_what_the_broker_refuses_to_create_is_named_at_its_line() {
    let name = topic_name("unfit");
    let settings = "[topic.config]\n\"segment.ms\" = 600000\n\"cleanup.policy\" = \"shred\"\n";
    let unfit = world(&kafka(), &format!("[[topic]]\nnames = [\"{name}\"]\n{settings}"));
    unfit.run(&["migrate"]).failed(2, &["postrider.toml:10", "cleanup.policy", "Correct"]);
    let unfit = world(&kafka(), &format!("[[topic]]\nnames = [\"{name}\"]\nreplication = 9\n"));
    unfit.run(&["migrate"]).failed(2, &["postrider.toml:7", "replication", "The cluster has 1 broker"]);
}

/// F5: a broker that is not there is exit code 4, with where it was looked for.
#[test]
fn a_broker_that_is_not_there_is_named() {
    let world = world("127.0.0.1:1", "[[topic]]\nnames = [\"a\"]\n");
    let migrate = world.run(&["migrate"]);
    migrate.failed(4, &["kafka 127.0.0.1:1"]);
    let check = world.run(&["check"]);
    assert_eq!(check.code, 4, "{}", check.stderr);
}

/// F5: the size limits on both sides, and a topic that is not there.
#[test]
fn check_names_limits_that_do_not_fit_and_topics_that_are_missing() {
    let (brokers, name) = (kafka(), topic_name("limits"));
    let _topic = Topic::create_on(&brokers, &name, 1, &[("max.message.bytes", "20000")]);
    let world = world(
        &brokers,
        &format!("[[route]]\ntype = \"a.*\"\ntopic = \"{name}\"\n[[route]]\ntopic = \"{name}-missing\"\n"),
    );
    world.run(&["migrate"]).ok();
    let check = world.run(&["check"]);
    assert_eq!(check.code, 5, "{}{}", check.stdout, check.stderr);
    assert!(
        check.stderr.contains(&format!("max.message.bytes of topic \"{name}\" is 20000 bytes")),
        "{}",
        check.stderr
    );
    assert!(check.stderr.contains("payload_bytes_max"), "{}", check.stderr);
    assert!(
        format!("{}{}", check.stdout, check.stderr)
            .contains(&format!("there is no topic \"{name}-missing\"")),
        "{}",
        check.stdout
    );

    let small = world.read("postrider.toml").replace("[[sink]]", "payload_bytes_max = 10000\n[[sink]]");
    world.write("postrider.toml", &small.replace(&format!("\"{name}-missing\""), &format!("\"{name}\"")));
    world.run(&["check"]).ok();
    let client =
        small.replace("[[route]]\ntype", "[sink.properties]\nmessage.max.bytes = 2000\n[[route]]\ntype");
    world.write("postrider.toml", &client);
    let check = world.run(&["check"]);
    assert!(check.stderr.contains("message.max.bytes of this sink is 2000 bytes"), "{}", check.stderr);
}

/// B16: the team's five topics and their dead letters on three brokers, by the example's own file; with one broker away `check`
/// still finds every partition led, with two away it names each topic's missing replicas, and is soon done with all ten.
#[test]
fn b16_the_example_provisions_the_teams_topics_on_three_brokers() {
    let mut cluster = PrivateKafka::start_with(&KafkaOptions { brokers: 3, ..KafkaOptions::default() });
    let example = include_str!("../../../../examples/commerce/postrider.toml");
    let world = World::new();
    let mut config = String::new();
    for line in example.lines() {
        let at = |key: &str| line.starts_with(&format!("{key} ")) || line.starts_with(&format!("{key}="));
        let line = match line {
            _ if at("url") && line.contains("kafka://") => format!("url = \"kafka://{}\"", cluster.inside()),
            _ if at("url") => "url = \"sqlite://shop.db\"".to_owned(),
            // SQLite has no side tables of a team's own: the topics are what is tested here.
            _ if at("layout") => "layout = \"native\"".to_owned(),
            _ => line.to_owned(),
        };
        config.push_str(&format!("{line}\n"));
    }
    world.write("postrider.toml", &config);
    let done = world.run(&["migrate"]).ok();
    for name in ["like-events", "order-events", "payment-events", "product-view-events", "stock-events"] {
        let described = setting(&cluster.inside(), name);
        for part in
            ["PartitionCount: 3", "ReplicationFactor: 3", "retention.ms=604800000", "min.insync.replicas=2"]
        {
            assert!(described.contains(part), "{name}: {part}: {described}");
        }
        let letters =
            format!("topic {name}.dlq, partitions 1, replication 3, min_insync_replicas 2, retention 30d");
        assert!(done.contains(&letters), "{letters}: {done}");
    }
    world.run(&["check"]).ok();
    cluster.kill(3);
    crate::wait::until("one broker away", || world.run(&["check"]).code == 0);
    cluster.kill(2);
    crate::kafka_cluster::check_says(
        &world,
        &[
            "topic \"order-events\": partitions 0, 1, 2 are with fewer replicas in sync than the 2",
            "topic \"stock-events.dlq\"",
        ],
    );
}

/// Ledger's own table with a posting and its reversal, and a relay that goes by this route.
fn ledger(brokers: &str, route: &str) -> World {
    let world = World::new();
    world
        .database("bank.db")
        .execute_batch(
            "create table outbox_event (id integer primary key autoincrement, aggregate_type text not null, \
             aggregate_id text not null, event_type text not null, payload text not null, status text not null default 'PENDING', \
             retry_count integer not null default 0, created_at text not null default current_timestamp, processed_at text);
             insert into outbox_event (aggregate_type, aggregate_id, event_type, payload) values \
             ('TRANSACTION', 't1', 'LEDGER_POSTED', '{\"accountId\":\"a1\"}'), \
             ('TRANSACTION', 't1', 'LEDGER_REVERSED', '{\"accountId\":\"a1\"}');",
        )
        .unwrap();
    world.write(
        "postrider.toml",
        &format!(
            "[outbox]\nurl = \"sqlite://bank.db\"\nlayout = \"ledger\"\n[[sink]]\nurl = \"kafka://{brokers}\"\n{route}"
        ),
    );
    world.run(&["migrate"]).ok();
    world
}

/// E5: one topic for all, or one per type, by config; a real broker has them there, under the account.
#[test]
fn e5_one_topic_for_all_or_one_per_type() {
    let broker = crate::kafka_commerce::broker();
    let topic = |name: &str| Topic::create_on(&broker.inside(), name, 1, &[]);
    let [mut all, mut posted, mut reversed] =
        ["ledger-events", "ledger-posted-events", "ledger-reversed-events"].map(topic);
    let types = |topic: &mut Topic| -> Vec<String> {
        topic.read().iter().map(|record| record.header("ce_type") + " " + &record.key_text()).collect()
    };
    ledger(&broker.brokers(), "").run(&["run", "--until-empty"]).ok();
    assert_eq!(types(&mut all), ["LEDGER_POSTED a1", "LEDGER_REVERSED a1"]);
    assert_eq!(types(&mut posted).len() + types(&mut reversed).len(), 0);
    let one_each = "[[route]]\ntopic = \"{type:kebab}-events\"\n";
    ledger(&broker.brokers(), one_each).run(&["run", "--until-empty"]).ok();
    assert_eq!(
        (types(&mut posted), types(&mut reversed)),
        (vec!["LEDGER_POSTED a1".into()], vec!["LEDGER_REVERSED a1".into()])
    );
    assert_eq!(types(&mut all).len(), 2, "and none of them there");
}
