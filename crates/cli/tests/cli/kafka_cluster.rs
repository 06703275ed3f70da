//! Three brokers (B16): leaders move, brokers die, a partition has no leader; through the real binary.

use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use postrider_servers::{Database, KafkaOptions, PrivateKafka, Topic, topic_name};
use rustix::process::Signal;

use crate::landing::Landing;
use crate::shop::{Road, Shop};
use crate::wait::{timed, until};
use crate::world::{Process, World};

/// The first broker is the one that knows of the others, and stays: one test at a time has them.
pub(crate) fn cluster() -> MutexGuard<'static, PrivateKafka> {
    static CLUSTER: LazyLock<Mutex<PrivateKafka>> = LazyLock::new(|| {
        Mutex::new(PrivateKafka::start_with(&KafkaOptions { brokers: 3, ..KafkaOptions::default() }))
    });
    CLUSTER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The native road to a topic whose partitions lie there.
fn world(cluster: &PrivateKafka, places: &[&[i32]], config: &[(&str, &str)]) -> World {
    let topic = Topic::create_placed(&cluster.inside(), &topic_name("orders"), places, config);
    let database = Database::create_blocking();
    let url = database.url();
    let landing = Some(Landing::new(cluster.brokers(), topic));
    Road::CursorToKafka.furnish(World { server: Some(database), landing, ..World::new() }, &url, "2s", 50)
}

/// On many orders.
fn shop(world: &World) -> Shop<'_> {
    let mut shop = Shop::new(world, Road::CursorToKafka);
    shop.orders = 40;
    shop
}

#[track_caller]
fn status_says(world: &World, parts: &[&str]) {
    let mut said = String::new();
    let says = || {
        said = world.run(&["status"]).ok();
        parts.iter().all(|part| said.contains(part))
    };
    assert!(crate::wait::comes_to_hold(crate::wait::DEADLINE, says), "{parts:?} is not in: {said}");
}

/// `check` says so, and is done soon however many topics there are.
#[track_caller]
pub(crate) fn check_says(world: &World, parts: &[&str]) {
    const SOON: Duration = Duration::from_secs(20);
    let mut said = String::new();
    let says = || {
        let (check, took) = timed(|| world.run(&["check"]));
        assert!(took < SOON, "check took {took:?}: {}{}", check.stdout, check.stderr);
        said = format!("{}{}", check.stdout, check.stderr);
        check.code == 5 && parts.iter().all(|part| said.contains(part))
    };
    assert!(crate::wait::comes_to_hold(crate::wait::DEADLINE, says), "{parts:?} is not in: {said}");
}

fn nothing_is_dead(world: &World) {
    assert!(world.run(&["list", "--state", "dead", "--json"]).ok().is_empty(), "an outage buries nothing");
}

fn ends(mut relay: Process, shop: &Shop<'_>) {
    relay.signal(Signal::TERM);
    assert_eq!(relay.wait().code(), Some(0), "{}", relay.said());
    assert_eq!(relay.said().matches("failed try").count(), 0, "an outage costs no retry: {}", relay.said());
    shop.prove();
}

const THREE_COPIES: &[&[i32]] = &[&[1, 2, 3], &[2, 3, 1], &[3, 1, 2]];

/// B16, F8: with one of three away all goes on; with two away writes are refused, nothing is lost or dead, `status` says
/// what is missing, and what was held goes out in order when they return.
#[test]
fn b16_one_broker_away_is_nothing_and_two_away_lose_nothing() {
    let mut cluster = cluster();
    let world = world(&cluster, THREE_COPIES, &[]);
    let mut shop = shop(&world);
    let relay = world.start("relay", &["run", "-v"], &[]);
    shop.commit(80);
    until("the first ones", || shop.arrived() == shop.committed());
    cluster.kill(2);
    shop.commit(80);
    until("all of them, with one broker away", || shop.arrived() == shop.committed());
    cluster.kill(3);
    shop.commit(80);
    status_says(&world, &["1 of 3 replicas are in sync", "bring the others back"]);
    check_says(
        &world,
        &["with fewer replicas in sync than the 2 that a write needs", "Bring the other brokers back"],
    );
    // Too few copies are no news to read either: the relay says what has no receipt.
    assert!(
        !world.run(&["list", "--state", "pending", "--json"]).ok().is_empty(),
        "writes are taken by one of three"
    );
    nothing_is_dead(&world);
    cluster.restart(3);
    until("all of them, with two brokers again", || shop.arrived() == shop.committed());
    cluster.restart(2);
    nothing_is_dead(&world);
    ends(relay, &shop);
}

/// B16, F2, F8: leaders move under load, in good order and by a kill: every event arrives, each key in order.
#[test]
fn b16_leaders_move_under_load_and_every_key_is_in_order() {
    let mut cluster = cluster();
    let world = world(&cluster, THREE_COPIES, &[]);
    let mut shop = shop(&world);
    let relay = world.start("relay", &["run", "-v"], &[]);
    let brokers: &mut PrivateKafka = &mut cluster;
    std::thread::scope(|scope| {
        let mover = scope.spawn(|| {
            brokers.stop(2);
            brokers.restart(2);
            brokers.kill(3);
            brokers.restart(3);
        });
        while !mover.is_finished() {
            shop.commit(20);
            let behind = shop.committed().saturating_sub(40);
            until("the load goes on", || shop.arrived() >= behind || mover.is_finished());
        }
    });
    shop.commit(80);
    until("all of them", || shop.arrived() == shop.committed());
    nothing_is_dead(&world);
    ends(relay, &shop);
}

/// F2, F8: what goes to a partition without a leader waits; what goes to the others of that topic does not.
#[test]
fn a_partition_without_a_leader_holds_only_itself() {
    let mut cluster = cluster();
    let world = world(&cluster, &[&[1], &[2], &[3]], &[("min.insync.replicas", "1")]);
    let mut shop = shop(&world);
    let mut relay = world.start("relay", &["run", "-v"], &[]);
    shop.commit(80);
    until("the first ones", || shop.arrived() == shop.committed());
    let landing = world.landing.as_ref().unwrap();
    let elsewhere = || {
        let mut ids: Vec<String> = Vec::new();
        let records = landing.records();
        ids.extend(
            records.iter().filter(|record| record.partition != 2).map(|record| record.header("ce_id")),
        );
        ids.sort_unstable();
        ids.dedup();
        ids.len()
    };
    // Of 80 events on 40 orders, each order has two: as many come again.
    let (all, flowing) = (shop.arrived(), elsewhere());
    assert!(flowing > 0 && flowing < all, "every partition has some keys");
    cluster.kill(3);
    shop.commit(80);
    until("all of the other partitions", || elsewhere() == 2 * flowing);
    relay.wait_until("the partition", |said| {
        let told = |line: &str| {
            line.contains("WARN") && line.contains("partition 2 ") && line.contains("Bring a broker back")
        };
        said.lines().any(told)
    });
    status_says(&world, &["has no leader", "Bring a broker back"]);
    check_says(&world, &["postrider.toml:", "partition 2 is without a leader", "Bring the brokers back"]);
    shop.commit(80);
    until("all of the other partitions again", || elsewhere() == 3 * flowing);
    assert_eq!(shop.arrived(), all + 2 * flowing);
    nothing_is_dead(&world);
    cluster.restart(3);
    until("all of them", || shop.arrived() == shop.committed());
    ends(relay, &shop);
}
