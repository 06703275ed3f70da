//! F4: a graceful stop finishes or gives back what is in flight, and nobody waits for a lease.

use std::collections::HashSet;
use std::fs::File;

use rustix::process::Signal;
use serde_json::Value;

use crate::wait::{timed, until};
use crate::world::World;

/// A lease that would be noticed, were anybody to wait for it.
const LEASE_SECONDS: u64 = 300;

fn world() -> World {
    World::with_config(&format!(
        "[outbox]\nlease_ttl = \"{LEASE_SECONDS}s\"\n[[sink]]\nurl = \"file://events.jsonl\"\n[relay]\nbatch_entries = 10\n"
    ))
}

fn append(world: &World, events: usize) {
    let lines: String = (0..events).map(|n| format!("{{\"n\":{n}}}\n")).collect();
    let args = [
        "append",
        "--type",
        "shop.order.created.v1",
        "--aggregate-type",
        "Order",
        "--aggregate-id",
        "1",
        "--lines",
    ];
    world.run_with(&args, &lines).ok();
}

/// F4: SIGTERM while publishing: everything claimed is settled or released, and the next relay starts at once.
#[test]
fn a_relay_that_is_stopped_while_publishing_leaves_nothing_behind() {
    for signal in [Signal::TERM, Signal::INT] {
        let world = world();
        append(&world, 3_000);
        let mut relay = world.start("first", &["run"], &[]);
        until("the first events", || !world.read("events.jsonl").is_empty());
        relay.signal(signal);
        assert_eq!(relay.wait().code(), Some(0), "{}", relay.said());
        let stopped_at = world.read("events.jsonl").lines().count();
        assert!(stopped_at < 3_000, "it was stopped in the middle");

        let status: Value = serde_json::from_str(&world.run(&["status", "--json"]).ok()).unwrap();
        assert_eq!(status["leased"], 0, "{status}");
        assert_eq!(status["holder"], Value::Null, "{status}");
        let (_, took) = timed(|| world.run(&["run", "--until-empty"]).ok());
        assert!(took.as_secs() < LEASE_SECONDS / 2, "the next relay waited {took:?}");

        let events = world.read("events.jsonl");
        let ids: HashSet<String> = events
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!((ids.len(), events.lines().count()), (3_000, 3_000), "each of them once");
    }
}

/// F4: a second signal ends at once, whatever the sink is waiting for.
#[test]
fn a_second_signal_ends_at_once() {
    let world = world();
    append(&world, 10);
    let file = File::create(world.path("events.jsonl")).unwrap();
    file.lock().unwrap();
    let mut relay = world.start("stuck", &["run", "-v"], &[]);
    relay.wait_until_said("claimed");
    relay.signal(Signal::TERM);
    relay.wait_until_said("Once more ends at once");
    relay.signal(Signal::TERM);
    let (status, took) = timed(|| relay.wait());
    assert_eq!(status.code(), Some(1), "{}", relay.said());
    assert!(took.as_secs() < 15, "it took {took:?}, as if it waited for stop_timeout");
    assert_eq!(world.read("events.jsonl"), "");
}
