//! Kafka is away under load (B7, F8): seconds here, a minute in `cargo xtask soak`.

use std::time::Duration;

use postrider_servers::Database;
use rustix::process::Signal;

use crate::kafka_commerce::broker;
use crate::landing::Landing;
use crate::shop::{Road, Shop};
use crate::wait::{comes_to_hold, until};
use crate::world::World;

const BATCH: u32 = 8;
const THREE_RETRIES: &str = "publish_deadline = \"2s\"\n[breaker]\nopen = \"300ms\"\ntrials = 3\n\
                             [retry]\nretries_max = 3\nbackoff = [\"50ms\", \"50ms\", \"50ms\"]\n";

/// More often than an entry may be retried, the relay looks whether Kafka is back.
const ROUNDS_MIN: usize = 5;

/// B7, F8: with three retries configured, nothing is dead, nothing is lost, order is kept, and only trials are sent meanwhile.
#[test]
fn an_outage_under_load_costs_no_event_its_life() {
    let mut broker = broker();
    let database = Database::create_blocking();
    let url = database.url();
    let mut landing = Landing::behind_doors(&broker);
    landing.more = THREE_RETRIES.to_owned();
    let world = World { server: Some(database), landing: Some(landing), ..World::new() };
    let world = Road::CursorToKafka.furnish(world, &url, "2s", BATCH);
    let mut shop = Shop::new(&world, Road::CursorToKafka);
    shop.orders = 20;
    let mut relay = world.start("relay", &["run", "-v"], &[]);
    shop.commit(40);
    until("the first ones", || shop.arrived() == shop.committed());

    broker.kill(1);
    let minute = std::env::var_os("POSTRIDER_SOAK").is_some();
    let least = Duration::from_secs(if minute { 60 } else { 4 });
    comes_to_hold(least, || {
        shop.commit(1);
        false
    });
    until("some trials in vain", || {
        shop.commit(1);
        half_open(&relay.said()) >= ROUNDS_MIN
    });
    let said = relay.said();
    assert_eq!(said.matches("failed try").count(), 0, "an outage costs no retry: {said}");
    let (_, after) = said.split_once("circuit=\"open\"").expect("the circuit opens");
    let trials = 3 * half_open(after);
    let sent = attempted(after);
    // What was under way when it opened is answered behind it.
    assert!(sent <= trials + BATCH as usize, "{sent} were sent, {trials} trials were due: {after}");
    assert!(world.run(&["list", "--state", "dead", "--json"]).ok().is_empty());

    broker.restart(1);
    until("all of them", || shop.arrived() == shop.committed());
    relay.wait_until_said("circuit=\"closed\"");
    shop.commit(20);
    until("the last ones", || shop.arrived() == shop.committed());
    shop.prove();
    assert!(world.run(&["list", "--state", "dead", "--json"]).ok().is_empty());
    relay.signal(Signal::TERM);
    assert_eq!(relay.wait().code(), Some(0), "{}", relay.said());
}

fn half_open(said: &str) -> usize {
    said.matches("circuit=\"half-open\"").count()
}

/// Messages that were tried in vain; others were only held back with them.
fn attempted(said: &str) -> usize {
    let in_vain = |line: &&str| {
        line.contains("not published yet") && !line.contains("not attempted") && !line.contains("purged with")
    };
    said.lines().filter(in_vain).count()
}
