//! What is away comes back, and the relay is still there (F8).

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
    relay.wait_until_said("the database does not answer");
    blocker.execute_batch("rollback").unwrap();
    world.append("shop.order.created.v1", "2", "{}");
    until("the second event", || world.read("events.jsonl").lines().count() == 2);
    relay.wait_until_said("the database answers again");
}
