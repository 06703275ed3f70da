//! A broken topic with very much behind it (F2): the others flow on, and what it held goes out in order.

use std::collections::{HashMap, HashSet};

use postrider_servers::{Database, Topic, topic_name};
use rustix::process::Signal;

use crate::kafka_cluster::cluster;
use crate::kafka_faults::{GUARDED, sink};
use crate::wait::{comes_to_hold, until};
use crate::world::World;

/// More than a cursor keeps one by one.
const BEHIND: usize = 60_000;

fn write(database: &Database, kind: &str, events: usize) {
    database.query(&format!(
        "insert into outbox (type, aggregate_type, aggregate_id, payload) \
         select 'shop.{kind}.changed.v1', '{kind}', 'k' || (n % 50), '{{}}' from generate_series(1, {events}) as n"
    ));
}

fn kept(database: &Database) -> usize {
    let rows = database.query("select count(*) from postrider_exceptions");
    rows[0][0].as_deref().unwrap().parse().unwrap()
}

/// F2: 60,000 rows behind a missing topic, with an entry that was tried before each of their keys, are one range: another topic
/// flows on, after a takeover too, `status` has nothing full, and all of them come in order when the topic is there.
#[test]
fn any_number_of_rows_behind_a_missing_topic_holds_up_no_other() {
    let (database, world) = (Database::create_blocking(), World::new());
    let mut orders = Topic::create_on(&GUARDED.inside(), &topic_name("orders"), 2, &[]);
    let stock = topic_name("stock");
    let (url, name, sink) = (database.url(), orders.name(), sink(&GUARDED.brokers(), ""));
    world.write(
        "postrider.toml",
        &format!(
            "[outbox]\nurl = \"{url}\"\nlease_ttl = \"2s\"\n{sink}[[route]]\ntype = \"shop.order.*\"\ntopic = \"{name}\"\n\
             [[route]]\ntopic = \"{stock}\"\n[breaker]\nopen = \"100ms\"\n"
        ),
    );
    world.run(&["migrate"]).ok();
    write(&database, "stock", BEHIND);
    write(&database, "order", 100);
    let first = world.start("first", &["run"], &[]);
    until("the orders", || orders.read().len() >= 100);
    first.kill();
    let mut second = world.start("second", &["run"], &[]);
    write(&database, "order", 100);
    until("the orders after a takeover", || orders.read().len() >= 200);
    assert!(kept(&database) < 10_000, "{} are kept one by one", kept(&database));
    let status = world.run(&["status"]).ok();
    assert!(!status.contains("nothing further is read") && status.contains(&stock), "{status}");

    let mut topic = Topic::create_on(&GUARDED.inside(), &stock, 2, &[]);
    let all = || topic.read().len() >= BEHIND;
    assert!(comes_to_hold(4 * crate::wait::DEADLINE, all), "what was held comes when the topic is there");
    second.signal(Signal::TERM);
    assert_eq!(second.wait().code(), Some(0), "{}", second.said());
    assert_eq!(in_order(&database, &mut topic), BEHIND);
}

/// How many different events there are; each key's are in the order of their rows.
#[track_caller]
fn in_order(database: &Database, topic: &mut Topic) -> usize {
    let rows = database.query("select event_id::text from outbox order by id");
    let places: HashMap<String, usize> =
        rows.iter().enumerate().map(|(at, row)| (row[0].clone().unwrap(), at)).collect();
    let (mut latest, mut seen) = (HashMap::new(), HashSet::new());
    for record in topic.read().iter().filter(|record| seen.insert(record.header("ce_id"))) {
        let at = places[&record.header("ce_id")];
        let before = latest.insert(record.key_text(), at);
        assert!(before.is_none_or(|before| before < at), "{at} came after {before:?}");
    }
    seen.len()
}

/// B6, F2: rows behind a *partition* that is away are kept one by one. At the limit nothing further is read: `status` says so, with
/// the key and the partition that is to be mended; nothing is dead, and mended all of them come, in order.
#[test]
fn too_many_rows_behind_a_partition_stop_the_reading_and_status_says_why() {
    let mut cluster = cluster();
    let (database, world) = (Database::create_blocking(), World::new());
    let placed: &[&[i32]] = &[&[1], &[3]];
    let mut topic = Topic::create_placed(
        &cluster.inside(),
        &topic_name("parted"),
        placed,
        &[("min.insync.replicas", "1")],
    );
    let (url, name, sink) = (database.url(), topic.name(), sink(&cluster.brokers(), ""));
    world.write(
        "postrider.toml",
        &format!(
            "[outbox]\nurl = \"{url}\"\n{sink}[[route]]\ntopic = \"{name}\"\n[breaker]\nopen = \"500ms\"\n"
        ),
    );
    world.run(&["migrate"]).ok();
    let mut relay = world.start("relay", &["run"], &[]);
    write(&database, "order", 50);
    until("one of each key", || topic.read().len() >= 50);
    let away = topic.read().iter().find(|record| record.partition == 1).expect("both have keys").key_text();
    cluster.kill(3);
    database.query(&format!(
        "insert into outbox (type, aggregate_type, aggregate_id, payload) \
         select 'shop.order.changed.v1', 'order', '{away}', '{{}}' from generate_series(1, {BEHIND})"
    ));
    let mut status = String::new();
    let told = || {
        status = world.run(&["status"]).ok();
        status.contains("nothing further is read")
    };
    assert!(comes_to_hold(4 * crate::wait::DEADLINE, told), "{status}");
    for part in [&*format!("behind key order/{away}"), "has no leader", "Bring a broker back"] {
        assert!(status.contains(part), "\"{part}\" is not in: {status}");
    }
    assert!(kept(&database) <= 50_000, "{} are kept", kept(&database));
    assert!(world.run(&["list", "--state", "dead", "--json"]).ok().is_empty());
    cluster.restart(3);
    let all = || topic.read().len() >= BEHIND + 50;
    assert!(comes_to_hold(4 * crate::wait::DEADLINE, all), "what was held comes when the partition is there");
    assert_eq!(in_order(&database, &mut topic), BEHIND + 50);
    relay.signal(Signal::TERM);
    assert_eq!(relay.wait().code(), Some(0), "{}", relay.said());
}
