//! The way from MariaDB and MySQL 8.0 to Kafka, and to a file: the relay dies at every named point, or the broker does, the
//! database, or the connections to both (F8).

use postrider_core::point::POINTS;
use postrider_servers::{Door, MysqlDatabase, PrivateMysql, mariadb, mysql};

use crate::crash::{LEASE_TTL, crash_in};
use crate::crash_kafka::{interrupted, stands};
use crate::kafka_commerce::broker;
use crate::landing::Landing;
use crate::shop::Road;
use crate::world::World;

const TO_KAFKA: [Road; 3] = [Road::MysqlLeaseToKafka, Road::MysqlCursorToKafka, Road::MysqlHoldToKafka];
const TO_FILE: [Road; 3] = [Road::MysqlLease, Road::MysqlCursor, Road::MysqlHold];
/// What stands still for as long as a server needs to come back keeps it.
const LONG_TTL: &str = "2s";

/// A road's world on a server; the relay goes by `door`, the shop does not.
fn world_on(road: Road, server: &str, door: Option<&Door>, landing: Option<Landing>, ttl: &str) -> World {
    let database = MysqlDatabase::create_blocking_on(server);
    let url = door.map_or_else(|| database.url(), |door| door.url(&database.url()));
    let ends = World { mysql: Some(database), landing, ..World::new() };
    road.furnish(ends, &url, ttl, 4)
}

fn is_soak() -> bool {
    std::env::var_os("POSTRIDER_SOAK").is_some()
}

/// Kills relays at every point of these roads on a server. `cargo xtask soak` has the second passing, too.
fn killed_everywhere(roads: &[Road], server: &str) {
    let passings = if is_soak() { 1..=2 } else { 1..=1 };
    std::thread::scope(|scope| {
        for (turn, point) in POINTS.iter().filter(|point| roads[0].passes(point)).enumerate() {
            for (at, road) in roads.iter().copied().enumerate() {
                if is_soak() || turn % roads.len() == at {
                    let passings = passings.clone();
                    scope.spawn(move || {
                        for passing in passings {
                            let world = world_on(road, server, None, None, LEASE_TTL);
                            crash_in(&world, road, point, passing);
                        }
                    });
                }
            }
        }
    });
}

#[test]
fn mariadb_to_kafka_killed_at_every_point() {
    killed_everywhere(&TO_KAFKA, &mariadb());
}

#[test]
fn mysql_to_kafka_killed_at_every_point() {
    let Some(server) = mysql() else { return };
    killed_everywhere(&TO_KAFKA, &server);
}

#[test]
fn mysql_to_a_file_killed_at_every_point() {
    let Some(server) = mysql() else { return };
    killed_everywhere(&TO_FILE, &server);
}

/// The two servers take turns, where there are two.
#[test]
fn a_crash_of_kafka_at_every_point_on_the_way_from_mysql_loses_nothing() {
    let mut broker = broker();
    let servers: Vec<String> = [Some(mariadb()), mysql()].into_iter().flatten().collect();
    let turn = std::cell::Cell::new(0);
    let stands = stands(&TO_KAFKA, 0, |road| {
        let server = &servers[turn.replace(turn.get() + 1) % servers.len()];
        world_on(road, server, None, Some(Landing::behind_doors(&broker)), LONG_TTL)
    });
    interrupted(&stands, || {
        broker.kill(1);
        broker.restart(1);
    });
}

fn a_crash_of_the_server(mut server: PrivateMysql) {
    let url = server.url();
    let stands = stands(&TO_KAFKA, 0, |road| world_on(road, &url, None, None, LONG_TTL));
    interrupted(&stands, || {
        server.kill();
        server.restart();
    });
}

#[test]
fn a_crash_of_mariadb_at_every_point_on_the_way_to_kafka_loses_nothing() {
    a_crash_of_the_server(PrivateMysql::mariadb());
}

#[test]
fn a_crash_of_mysql_at_every_point_on_the_way_to_kafka_loses_nothing() {
    if let Some(server) = PrivateMysql::mysql() {
        a_crash_of_the_server(server);
    }
}

/// The server's and the broker's at once.
#[test]
fn a_crash_of_all_connections_at_every_point_on_the_way_from_mysql_loses_nothing() {
    let broker = broker();
    for server in [Some(mariadb()), mysql()].into_iter().flatten() {
        let door = Door::before(&server);
        let stands = stands(&TO_KAFKA, 0, |road| {
            world_on(road, &server, Some(&door), Some(Landing::behind_doors(&broker)), LONG_TTL)
        });
        interrupted(&stands, || {
            door.cut();
            broker.doors().for_each(Door::cut);
        });
    }
}
