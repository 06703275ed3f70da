//! What is away comes back, and the relay is still there (F8).

use std::collections::BTreeSet;

use postrider_servers::{Database, PrivatePostgres};

use crate::wait::until;
use crate::world::World;

const CONFIG: &str = "[[sink]]\nurl = \"file://events/today.jsonl\"\n[breaker]\nopen = \"100ms\"\n";

/// A broker that is down never ends the relay, and costs no event its life.
#[test]
fn a_sink_that_comes_back_gets_everything() {
    let world = World::with_config(CONFIG);
    let mut relay = world.start("relay", &["run"], &[]);
    for key in 0..12 {
        world.append("shop.order.created.v1", &key.to_string(), "{}");
    }
    relay.wait_until_said("circuit=\"open\"");
    let said = relay.said();
    let warning = said.lines().find(|line| line.contains("circuit=\"open\"")).unwrap();
    for part in ["WARN", "sink=\"file\"", "events/today.jsonl", "Create the directory"] {
        assert!(warning.contains(part), "\"{part}\" is not in: {said}");
    }
    std::fs::create_dir(world.path("events")).unwrap();
    until("all of them", || world.read("events/today.jsonl").lines().count() == 12);
    relay.wait_until_said("circuit=\"closed\"");
    assert!(world.run(&["list", "--state", "dead", "--json"]).ok().is_empty());
}

/// After the start a database that does not answer is asked again, for ever.
#[test]
fn a_database_that_comes_back_is_read_on() {
    let world = World::with_config("[[sink]]\nurl = \"file://events.jsonl\"\n");
    let mut relay = world.start("relay", &["run"], &[]);
    world.append("shop.order.created.v1", "1", "{}");
    until("the first event", || world.read("events.jsonl").lines().count() == 1);
    // Whoever keeps a transaction open keeps every other writer out; longer than the relay's patience.
    let blocker = world.database("postrider.db");
    blocker.execute_batch("begin immediate").unwrap();
    relay.wait_until_said("it is tried again until it can");
    blocker.execute_batch("rollback").unwrap();
    world.append("shop.order.created.v1", "2", "{}");
    until("the second event", || world.read("events.jsonl").lines().count() == 2);
    relay.wait_until_said("the database answers again");
}

fn on_postgres(url: &str) -> World {
    World::with_config(&format!("[outbox]\nurl = \"{url}\"\n[[sink]]\nurl = \"file://events.jsonl\"\n"))
}

/// A server that crashes may forget that an event was published, and then it comes again.
fn arrived(world: &World, events: usize) {
    let distinct = || world.read("events.jsonl").lines().map(str::to_owned).collect::<BTreeSet<_>>().len();
    until(&format!("{events} events"), || distinct() == events);
}

/// F8: an outage of the server is said once, not with every try; when it is over, how long it was.
#[test]
fn an_outage_is_said_once_and_its_length_at_its_end() {
    let mut server = PrivatePostgres::start();
    let world = on_postgres(&server.url());
    let mut relay = world.start("relay", &["run"], &[]);
    world.append("shop.order.created.v1", "1", "{}");
    arrived(&world, 1);
    server.stop_immediate();
    relay.wait_until_said("it is tried again until it can");
    server.restart();
    world.append("shop.order.created.v1", "2", "{}");
    arrived(&world, 2);
    relay.wait_until_said("the database answers again");
    let said = relay.said();
    let mut told: Vec<&str> = said.lines().filter_map(|line| Some(line.split_once("WARN")?.1)).collect();
    let back = told.iter().find(|line| line.contains("answers again")).unwrap();
    assert!(back.contains("away_for="), "{said}");
    let all = told.len();
    told.sort_unstable();
    told.dedup();
    assert_eq!(told.len(), all, "the same is not said twice: {said}");
}

/// F5: what the server says is told as what it is, and not as silence.
#[test]
fn a_statement_that_was_cancelled_is_no_silence() {
    let database = Database::create_blocking();
    let world = on_postgres(&database.url());
    let mut relay = world.start("relay", &["run"], &[]);
    world.append("shop.order.created.v1", "1", "{}");
    arrived(&world, 1);
    let cancel = "do $$ begin lock table outbox in access exclusive mode; for n in 1..200 loop \
        perform pg_cancel_backend(pid) from pg_locks where not granted and relation = 'outbox'::regclass; \
        perform pg_sleep(0.01); end loop; end $$";
    database.query(cancel);
    relay.wait_until_said("a statement took longer than statement_timeout, or somebody cancelled it");
    world.append("shop.order.created.v1", "2", "{}");
    arrived(&world, 2);
    assert!(!relay.said().contains("does not answer"), "{}", relay.said());
}
