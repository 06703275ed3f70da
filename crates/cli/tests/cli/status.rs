//! What `status` tells of relays that run: what only they know, through the database.

use rustix::process::Signal;
use serde_json::Value;

use crate::wait::until;
use crate::world::World;

fn status(world: &World) -> Value {
    serde_json::from_str(&world.run(&["status", "--json"]).ok()).unwrap()
}

/// The relay in a state, if one has said so.
fn relay<'s>(status: &'s Value, state: &str) -> Option<&'s Value> {
    status["relays"].as_array().unwrap().iter().find(|relay| relay["state"] == state)
}

#[test]
fn status_shows_who_relays_and_how_fast() {
    let world = World::with_config("[[sink]]\nurl = \"file://events.jsonl\"\n");
    assert!(world.run(&["status"]).ok().contains("none is running"));
    let mut first = world.start("first", &["run"], &[]);
    let mut written = 0;
    until("a rate", || {
        world.append("shop.order.created.v1", &written.to_string(), "{}");
        written += 1;
        let status = status(&world);
        let active = relay(&status, "active");
        active.is_some_and(|active| {
            assert_eq!(active["holder"], status["holder"]);
            active["events_per_second"].as_f64().unwrap() > 0.0
        })
    });
    until("all of them", || {
        relay(&status(&world), "active").is_some_and(|active| active["published"] == written)
    });
    let shown = world.run(&["status"]).ok();
    assert!(shown.contains(" events/s") && shown.contains("as of ") && !shown.contains("circuit"), "{shown}");

    let mut second = world.start("second", &["run"], &[]);
    until("a standby", || relay(&status(&world), "standby").is_some());
    for relay in [&mut second, &mut first] {
        relay.signal(Signal::TERM);
        assert_eq!(relay.wait().code(), Some(0), "{}", relay.said());
    }
    assert_eq!(status(&world)["relays"], Value::Array(Vec::new()), "who has stopped is no news");
    assert!(world.run(&["status"]).ok().contains("none is running"));
}

/// B7: an open circuit is seen from outside, with the reason.
#[test]
fn status_shows_an_open_circuit_and_why() {
    let world = World::with_config("[[sink]]\nname = \"events\"\nurl = \"file://missing/events.jsonl\"\n");
    for key in 0..12 {
        world.append("shop.order.created.v1", &key.to_string(), "{\"card\":\"4111\"}");
    }
    let _relay = world.start("relay", &["run"], &[]);
    let mut seen = Value::Null;
    until("an open circuit", || {
        seen = status(&world);
        relay(&seen, "active").is_some_and(|active| active["circuits"] != Value::Array(Vec::new()))
    });
    let active = relay(&seen, "active").unwrap();
    assert_eq!(
        (&active["circuits"][0]["sink"], &active["circuits"][0]["state"]),
        (&"events".into(), &"open".into())
    );
    assert!(active["circuits"][0]["since"].as_str().unwrap().starts_with("20"), "{active}");
    assert!(active["error"].as_str().unwrap().contains("missing"), "{active}");
    let shown = world.run(&["status"]).ok();
    for part in ["0.0 events/s", "circuit", "open: sink events", "error", "missing"] {
        assert!(shown.contains(part), "{part} is not in: {shown}");
    }
    assert!(!format!("{seen}{shown}").contains("4111"), "no payload: {shown}");
}

/// Whoever was killed is told as silent as soon as two of its reports are missing.
#[test]
fn a_relay_that_was_killed_is_silent_before_long() {
    let world = World::with_config("[[sink]]\nurl = \"file://events.jsonl\"\n");
    let mut killed = world.start("relay", &["run"], &[]);
    until("a report", || relay(&status(&world), "active").is_some());
    killed.signal(Signal::KILL);
    killed.wait();
    let mut seen = Value::Null;
    until("silence", || {
        seen = status(&world);
        relay(&seen, "active").is_none()
    });
    let silent = relay(&seen, "silent").unwrap_or_else(|| panic!("{seen}"));
    assert!(silent["age_seconds"].as_f64().unwrap() < 9.0, "{silent}");
    let shown = world.run(&["status"]).ok();
    assert!(shown.contains("silent for ") && shown.contains("killed, or cut off"), "{shown}");
}

/// DESIGN, "Order": at the limit of what is parked the reading stops, and `status` names the key at fault.
#[test]
fn a_reading_that_is_full_is_told_by_status() {
    let world = World::with_config("[[sink]]\nurl = \"file://events.jsonl\"\n");
    let values = "'shop.order.created.v1', 'Order', 'culprit', ";
    world
        .database("postrider.db")
        .execute_batch(&format!(
            "begin; insert into outbox (type, aggregate_type, aggregate_id, payload, time) values ({values} 'no json', 0); \
             insert into outbox (type, aggregate_type, aggregate_id, payload, time) \
             with recursive n(n) as (select 1 union all select n + 1 from n where n < 60000) select {values} '{{}}', 0 from n; commit"
        ))
        .unwrap();
    let _relay = world.start("relay", &["run"], &[]);
    let mut seen = Value::Null;
    until("a full reading", || {
        seen = status(&world);
        relay(&seen, "active").is_some_and(|active| active["full"] == true)
    });
    let shown = world.run(&["status"]).ok();
    for part in ["full", "nothing further is read", "behind key Order/culprit", "revive, bury or prune"] {
        assert!(shown.contains(part), "{part} is not in: {shown}");
    }
}
