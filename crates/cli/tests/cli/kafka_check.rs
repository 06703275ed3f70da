//! `check` on a real broker (B16, F5, F6): each finding names the place and the remedy, and shows no secret.

use postrider_servers::{Topic, topic_name};

use crate::kafka_faults::{GUARDED, allow, login, sink};
use crate::world::World;

/// An outbox whose events all go to this topic.
fn world(sink: &str, topic: &str) -> World {
    World::with_config(&format!(
        "[outbox]\nurl = \"sqlite://shop.db\"\n{sink}[[route]]\ntopic = \"{topic}\"\n"
    ))
}

/// The line that names the topic.
fn place(world: &World) -> String {
    let at = world.read("postrider.toml").lines().position(|line| line.starts_with("topic = ")).unwrap();
    format!("postrider.toml:{}", at + 1)
}

#[track_caller]
fn finds(world: &World, code: i32, parts: &[&str]) {
    let check = world.run(&["check"]);
    assert_eq!(check.code, code, "{}{}", check.stdout, check.stderr);
    for part in parts {
        assert!(check.stderr.contains(part), "\"{part}\" is not in: {}", check.stderr);
    }
    let told = format!("{}{}{}", check.stdout, check.stderr, world.run(&["check", "--json"]).stdout);
    assert!(!told.contains("hunter"), "{told}");
}

/// F5: a topic that this login may not see; allowed, all is well.
#[test]
fn check_names_a_forbidden_topic() {
    let topic = Topic::create_on(&GUARDED.inside(), &topic_name("forbidden"), 1, &[]);
    let world = world(&login("relay", "hunter2"), topic.name());
    let place = place(&world);
    finds(&world, 5, &[&place, topic.name(), "authorization failed", "Describe", "(Write)"]);
    allow(topic.name());
    let rights = [
        "--add",
        "--allow-principal",
        "User:relay",
        "--operation",
        "DescribeConfigs",
        "--topic",
        topic.name(),
    ];
    GUARDED.tool("org.apache.kafka.tools.AclCommand", &rights);
    crate::wait::until("the right is known", || world.run(&["check"]).code == 0);
}

/// F5: no such topic, and nobody to create it.
#[test]
fn check_names_a_missing_topic() {
    let name = topic_name("missing");
    let world = world(&sink(&GUARDED.brokers(), ""), &name);
    let place = place(&world);
    finds(&world, 5, &[&place, &format!("there is no topic \"{name}\""), "[[topic]]", "`postrider migrate`"]);
}

/// B16, F5: a topic whose writes need more replicas than it has.
#[test]
fn check_names_a_topic_that_asks_for_more_replicas_than_are_in_sync() {
    let name = topic_name("short");
    let _topic = Topic::create_on(&GUARDED.inside(), &name, 2, &[("min.insync.replicas", "2")]);
    let world = world(&sink(&GUARDED.brokers(), ""), &name);
    let problem = format!(
        "topic \"{name}\": partitions 0, 1 are with fewer replicas in sync than the 2 that a write needs"
    );
    finds(&world, 5, &[&place(&world), &problem, "Bring the other brokers back"]);
}

/// F5, F6: a wrong password is a broker that cannot be reached, with where to look, and is not shown.
#[test]
fn check_names_a_wrong_login() {
    let world = world(&login("relay", "hunter3"), "any");
    finds(
        &world,
        4,
        &[&GUARDED.brokers_at("login"), "SASL authentication error", "sasl.username and sasl.password"],
    );
}
