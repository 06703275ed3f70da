//! Two relays on one outbox.

use std::fs::File;
use std::time::Duration;

use rustix::process::Signal;

use crate::shop::{Road, Shop};
use crate::world::{Process, World, timed, until};

const STANDBY: &str = "standing by";
const HOLDS: &str = "this relay holds the lease";

/// Nothing is published by both while neither is paused past its lease (F8).
fn nothing_is_published_twice(road: Road) {
    // Longer than any hiccup of a loaded machine.
    let world = road.world("30s", 20);
    let mut shop = Shop::new(&world, road);
    let mut first = world.start("first", &["run"], &[]);
    let mut second = world.start("second", &["run"], &[]);
    for _ in 0..40 {
        shop.commit(15);
        shop.roll_back(1);
        until("half of them", || shop.arrived() * 2 >= shop.committed());
    }
    until("all of them", || shop.arrived() == shop.committed());
    for relay in [&mut first, &mut second] {
        relay.signal(Signal::TERM);
        assert_eq!(relay.wait().code(), Some(0), "{}", relay.said());
    }
    assert_eq!(shop.prove(), 0, "duplicates");
}

#[test]
fn two_relays_publish_nothing_twice_by_cursor() {
    nothing_is_published_twice(Road::Cursor);
}

#[test]
fn two_relays_publish_nothing_twice_by_lease() {
    nothing_is_published_twice(Road::Lease);
}

/// When one is killed the other takes over within the lease plus a second.
fn the_other_takes_over(road: Road) {
    let world = road.world("2s", 20);
    let mut shop = Shop::new(&world, road);
    let first = world.start("first", &["run", "-v"], &[]);
    shop.commit(5);
    until("the first relay", || shop.arrived() == shop.committed());
    let mut second = world.start("second", &["run", "-v"], &[]);
    second.wait_until_said(STANDBY);
    first.kill();
    shop.commit(5);
    let ((), took) = timed(|| until("the second relay", || shop.arrived() == shop.committed()));
    assert!(took.as_millis() <= 3_000, "it took {took:?} with a lease of 2s");
    shop.prove();
}

#[test]
fn the_other_takes_over_when_one_dies_by_cursor() {
    the_other_takes_over(Road::Cursor);
}

#[test]
fn the_other_takes_over_when_one_dies_by_lease() {
    the_other_takes_over(Road::Lease);
}

/// Stopped past its lease and continued, a relay causes at most duplicates with the same id and the same bytes (F8).
fn a_pause_past_the_lease(road: Road) {
    let world = road.world("500ms", 5);
    let mut shop = Shop::new(&world, road);
    let mut first = world.start("first", &["run", "-v"], &[]);
    shop.commit(200);
    until("the first events", || shop.arrived() > 10);
    pause(&first, &world);
    let before = shop.arrived();
    let mut second = world.start("second", &["run", "-v"], &[]);
    second.wait_until_said(HOLDS);
    shop.commit(50);
    until("the second relay", || shop.arrived() > before);
    first.signal(Signal::CONT);
    shop.commit(50);
    until("all of them", || shop.arrived() == shop.committed());
    for relay in [&mut first, &mut second] {
        relay.signal(Signal::TERM);
        assert_eq!(relay.wait().code(), Some(0), "{}", relay.said());
    }
    shop.prove();
}

#[test]
fn a_relay_paused_past_its_lease_causes_at_most_duplicates_by_cursor() {
    a_pause_past_the_lease(Road::Cursor);
}

#[test]
fn a_relay_paused_past_its_lease_causes_at_most_duplicates_by_lease() {
    a_pause_past_the_lease(Road::Lease);
}

/// Stops a relay where it holds neither the file's lock nor the database's: with one of them it would stop everybody.
fn pause(relay: &Process, world: &World) {
    let database = world.database("shop.db");
    database.busy_timeout(Duration::ZERO).unwrap();
    until("a moment without locks", || {
        relay.signal(Signal::STOP);
        until("the process to stand still", || relay.stands_still());
        let free = File::open(world.path("events.jsonl")).unwrap().try_lock().is_ok()
            && database.execute_batch("begin immediate; rollback").is_ok();
        if !free {
            relay.signal(Signal::CONT);
        }
        free
    });
}
