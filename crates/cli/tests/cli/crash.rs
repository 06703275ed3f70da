//! `kill -9` at every named point between the steps, on the real binary (F8).

use postrider_core::point::POINTS;

use crate::shop::{Road, Shop};
use crate::world::World;

/// Short, because the next relay has to wait for the dead one's lease.
pub(crate) const LEASE_TTL: &str = "500ms";

/// At the first passing nothing has been settled yet; at the second, something has.
fn crash_everywhere(road: Road, passing: u32) {
    std::thread::scope(|scope| {
        for point in POINTS.iter().filter(|point| road.passes(point)) {
            scope.spawn(move || crash(road, point, passing));
        }
    });
}

fn crash(road: Road, point: &str, passing: u32) {
    crash_in(&road.world(LEASE_TTL, 4), road, point, passing);
}

/// The same in a world that is there.
pub(crate) fn crash_in(world: &World, road: Road, point: &str, passing: u32) {
    let mut shop = Shop::new(world, road);
    shop.commit(10);
    shop.roll_back(2);
    shop.commit(6);

    let stop_at = format!("{point}:{passing}");
    let mut relay = world.start("first", &["run"], &[("POSTRIDER_STOP_AT", &stop_at)]);
    relay.wait_until_said(&format!("stopped at {point}"));
    relay.kill();
    shop.no_ghosts();

    shop.commit(5);
    shop.roll_back(1);
    world.run(&["run", "--until-empty"]).ok();
    let duplicates = shop.prove();
    if passing == 1 {
        check_duplicates(point, duplicates);
    }
}

/// The process did die where it was told to: what had arrived and was not settled comes again, and nothing else does.
fn check_duplicates(point: &str, duplicates: usize) {
    match point {
        "claimed" | "planned" | "file.locked" => assert_eq!(duplicates, 0, "killed at {point}"),
        "file.written" | "file.synced" | "kafka.acked" | "judged" | "sqlite.settling"
        | "postgres.settling" | "mysql.settling" => {
            assert!(duplicates > 0, "killed at {point}, and nothing came again");
        }
        _ => {}
    }
}

#[test]
fn cursor_killed_at_the_first_passing_of_every_point() {
    crash_everywhere(Road::Cursor, 1);
}

#[test]
fn cursor_killed_at_the_second_passing_of_every_point() {
    crash_everywhere(Road::Cursor, 2);
}

#[test]
fn lease_killed_at_the_first_passing_of_every_point() {
    crash_everywhere(Road::Lease, 1);
}

#[test]
fn lease_killed_at_the_second_passing_of_every_point() {
    crash_everywhere(Road::Lease, 2);
}

/// Each point once per way on a server; `cargo xtask soak` has the rest of the product.
#[test]
fn postgres_cursor_killed_at_every_point() {
    crash_everywhere(Road::PostgresCursor, 1);
}

#[test]
fn postgres_lease_killed_at_every_point() {
    crash_everywhere(Road::PostgresLease, 1);
}

#[test]
fn postgres_hold_killed_at_every_point() {
    crash_everywhere(Road::PostgresHold, 1);
}

#[test]
fn mysql_lease_killed_at_every_point() {
    crash_everywhere(Road::MysqlLease, 1);
}

#[test]
fn mysql_cursor_killed_at_every_point() {
    crash_everywhere(Road::MysqlCursor, 1);
}

#[test]
fn mysql_hold_killed_at_every_point() {
    crash_everywhere(Road::MysqlHold, 1);
}

#[test]
fn cursor_to_kafka_killed_at_every_point() {
    crash_everywhere(Road::CursorToKafka, 1);
}

#[test]
fn lease_to_kafka_killed_at_every_point() {
    crash_everywhere(Road::LeaseToKafka, 1);
}

#[test]
fn hold_to_kafka_killed_at_every_point() {
    crash_everywhere(Road::HoldToKafka, 1);
}
