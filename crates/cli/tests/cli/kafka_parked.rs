//! A broken topic with very much behind it (F2): the others flow on, and what it held goes out in order.

use std::collections::{HashMap, HashSet};

use postrider_servers::{Database, Topic, topic_name};
use rustix::process::Signal;

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
    let rows = database.query("select event_id::text from outbox order by id");
    let places: HashMap<String, usize> =
        rows.iter().enumerate().map(|(at, row)| (row[0].clone().unwrap(), at)).collect();
    let (mut latest, mut seen) = (HashMap::new(), HashSet::new());
    for record in topic.read().iter().filter(|record| seen.insert(record.header("ce_id"))) {
        let at = places[&record.header("ce_id")];
        let before = latest.insert(record.key_text(), at);
        assert!(before.is_none_or(|before| before < at), "{at} came after {before:?}");
    }
    assert_eq!(seen.len(), BEHIND);
}
