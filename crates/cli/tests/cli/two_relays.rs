//! Two relays on one outbox.

use std::fs::File;
use std::io::ErrorKind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use postrider_core::point::POINTS;
use rustix::process::Signal;

use crate::shop::{Road, Shop};
use crate::wait::{comes_to_hold, timed, until};
use crate::world::World;

const STANDBY: &str = "standing by";
/// Longer than a relay that runs keeps a lock.
const LOCKED_FOR_MOMENTS: Duration = Duration::from_secs(2);
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

#[test]
fn two_relays_publish_nothing_twice_by_lease_on_mariadb() {
    nothing_is_published_twice(Road::MysqlLease);
}

/// A script that runs until empty beside a healthy relay ends when that one has emptied the outbox.
fn until_empty_ends_beside_an_active_relay(road: Road) {
    let world = road.world("30s", 4);
    let mut shop = Shop::new(&world, road);
    let _active = world.start("active", &["run"], &[]);
    until("the lease", || !world.run(&["status", "--json"]).ok().contains("\"holder\":null"));
    let empty = world.run(&["run", "--until-empty"]);
    assert!(empty.stderr.contains("Another relay holds the lease"), "{}", empty.stderr);
    assert!(empty.stderr.contains("Published 0 events."), "{}", empty.stderr);
    empty.ok();
    shop.commit(50);
    world.run(&["run", "--until-empty"]).ok();
    assert_eq!(shop.arrived(), shop.committed(), "it ended when all had arrived, not before");
}

#[test]
fn until_empty_ends_beside_an_active_relay_by_cursor() {
    until_empty_ends_beside_an_active_relay(Road::Cursor);
}

#[test]
fn until_empty_ends_beside_an_active_relay_by_lease() {
    until_empty_ends_beside_an_active_relay(Road::Lease);
}

/// Beside a relay that does not get on, a script waits for no longer than it was told to.
#[test]
fn until_empty_waits_for_another_relay_no_longer_than_its_timeout() {
    let world = World::with_config("[[sink]]\nurl = \"file://missing/events.jsonl\"\n");
    world.append("shop.order.created.v1", "1", "{}");
    let _active = world.start("active", &["run"], &[]);
    until("the lease", || !world.run(&["status", "--json"]).ok().contains("\"holder\":null"));
    let empty = world.run(&["run", "--until-empty", "--timeout", "1s"]);
    assert!(empty.stderr.contains("Another relay is active"), "{}", empty.stderr);
    assert!(empty.stderr.contains("Published 0 events."), "{}", empty.stderr);
    empty.ok();
}

/// What a dead entry holds back is left by whoever runs until empty, active or not.
#[test]
fn until_empty_does_not_wait_for_what_the_dead_hold_back() {
    let world = World::with_config("[[sink]]\nurl = \"file://events.jsonl\"\n");
    world.append("shop.order.created.v1", "1", "{}");
    world.append("shop.order.paid.v1", "1", "{}");
    world.run(&["bury", "--type", "*.created.*"]).ok();
    let _active = world.start("active", &["run"], &[]);
    until("the lease", || !world.run(&["status", "--json"]).ok().contains("\"holder\":null"));
    let empty = world.run(&["run", "--until-empty"]);
    assert!(empty.stderr.contains("1 held back") && empty.stderr.contains("1 dead"), "{}", empty.stderr);
    empty.ok();
}

/// When one is killed the other takes over within the lease plus a second. A loaded machine may be late by itself: one of
/// three tries has to be in time, and a relay that waits for longer than it should is late in all of them.
fn the_other_takes_over(road: Road) {
    let mut took = Vec::new();
    for _ in 0..3 {
        took.push(takeover(road));
        if took.last().is_some_and(|took| *took <= Duration::from_secs(3)) {
            return;
        }
    }
    panic!("it took {took:?} with a lease of 2s");
}

fn takeover(road: Road) -> Duration {
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
    shop.prove();
    took
}

#[test]
fn the_other_takes_over_when_one_dies_by_cursor() {
    the_other_takes_over(Road::Cursor);
}

#[test]
fn the_other_takes_over_when_one_dies_by_lease() {
    the_other_takes_over(Road::Lease);
}

#[test]
fn the_other_takes_over_by_lease_on_mariadb() {
    the_other_takes_over(Road::MysqlLease);
}

/// Stopped (SIGSTOP) past its lease at every point and continued, a relay causes at most duplicates with the same id and
/// the same bytes (F8).
fn a_pause_past_the_lease(road: Road) {
    let overtaken = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for point in POINTS.iter().filter(|point| road.passes(point)) {
            let overtaken = &overtaken;
            scope.spawn(move || overtaken.fetch_add(usize::from(pause(road, point)), Ordering::Relaxed));
        }
    });
    assert!(overtaken.into_inner() > 0, "no pause let the other relay go on");
}

/// Answers whether the second relay published everything meanwhile: not where the first stopped with a lock in hands.
fn pause(road: Road, point: &str) -> bool {
    let world = road.world("2s", 4);
    let mut shop = Shop::new(&world, road);
    let mut first = world.start("first", &["run"], &[("POSTRIDER_PAUSE_AT", &format!("{point}:2"))]);
    until("the first relay to hold the lease", || {
        !world.run(&["status", "--json"]).ok().contains("\"holder\":null")
    });
    let mut second = world.start("second", &["run", "-v"], &[]);
    second.wait_until_said(STANDBY);
    shop.commit(16);
    until("the pause", || first.stands_still());
    let overtaken = database_is_free(&world) && {
        second.wait_until_said(HOLDS);
        shop.commit(6);
        file_is_free(&world) && {
            until("the second relay", || shop.arrived() == shop.committed());
            true
        }
    };
    first.signal(Signal::CONT);
    shop.commit(6);
    until("all of them", || shop.arrived() == shop.committed());
    for relay in [&mut first, &mut second] {
        relay.signal(Signal::TERM);
        assert_eq!(relay.wait().code(), Some(0), "{point}: {}", relay.said());
    }
    shop.prove();
    overtaken
}

/// Whether nobody keeps the database locked; the other relay has it for moments only.
fn database_is_free(world: &World) -> bool {
    if let Some(database) = &world.mysql {
        let lease = "select 1 from postrider_leases for update nowait";
        return comes_to_hold(LOCKED_FOR_MOMENTS, || database.try_query(lease).is_ok());
    }
    let database = world.database("shop.db");
    database.busy_timeout(LOCKED_FOR_MOMENTS).unwrap();
    database.execute_batch("begin immediate; rollback").is_ok()
}

/// The same of the file. One that is not there yet is locked by nobody: the first relay stopped before it made it.
fn file_is_free(world: &World) -> bool {
    let file = match File::open(world.path("events.jsonl")) {
        Ok(file) => file,
        Err(error) => return error.kind() == ErrorKind::NotFound,
    };
    comes_to_hold(Duration::from_secs(2), || file.try_lock().is_ok())
}

#[test]
fn a_relay_paused_past_its_lease_causes_at_most_duplicates_by_cursor() {
    a_pause_past_the_lease(Road::Cursor);
}

#[test]
fn a_relay_paused_past_its_lease_causes_at_most_duplicates_by_lease() {
    a_pause_past_the_lease(Road::Lease);
}

#[test]
fn a_pause_past_the_lease_by_lease_on_mariadb() {
    a_pause_past_the_lease(Road::MysqlLease);
}
