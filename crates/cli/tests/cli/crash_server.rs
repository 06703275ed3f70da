//! The database dies, or the connection to it, at every named point between the steps (F8): nothing is lost, and the relay
//! goes on by itself.

use postrider_core::point::POINTS;
use postrider_servers::{Database, Door, PrivatePostgres};
use rustix::process::Signal;

use crate::shop::{Road, Shop};
use crate::wait::until;
use crate::world::World;

const ROADS: [Road; 3] = [Road::PostgresCursor, Road::PostgresLease, Road::PostgresHold];

/// Stops a relay at a point, lets something happen, and lets it go on.
fn interrupted(world: &World, road: Road, point: &str, happens: impl FnOnce()) {
    let mut shop = Shop::new(world, road);
    shop.commit(10);
    shop.roll_back(2);
    let mut relay = world.start("relay", &["run", "-v"], &[("POSTRIDER_PAUSE_AT", &format!("{point}:1"))]);
    until(&format!("the pause at {point}"), || relay.stands_still());
    happens();
    relay.signal(Signal::CONT);
    shop.commit(6);
    shop.roll_back(1);
    until(&format!("all of them, after {point} by {road:?}"), || shop.arrived() == shop.committed());
    relay.signal(Signal::TERM);
    assert_eq!(relay.wait().code(), Some(0), "{point}: {}", relay.said());
    // What was settled without an answer is settled again; nothing is left behind.
    world.run(&["run", "--until-empty"]).ok();
    shop.prove();
}

#[test]
fn a_crash_of_the_connection_at_every_point_loses_nothing() {
    for road in ROADS {
        std::thread::scope(|scope| {
            for point in POINTS.iter().filter(|point| road.passes(point)) {
                scope.spawn(move || {
                    let mut door = None;
                    let world = road.world_at("2s", 4, |database| {
                        let url = database.url();
                        door.insert(Door::before(&url)).url(&url)
                    });
                    let door = door.unwrap();
                    interrupted(&world, road, point, || door.cut());
                });
            }
        });
    }
}

/// One server that is killed over and over; the ways take turns at the points, `cargo xtask soak` has the whole product.
#[test]
fn a_crash_of_the_server_at_every_point_loses_nothing() {
    let mut server = PrivatePostgres::start();
    let whole = std::env::var_os("POSTRIDER_SOAK").is_some();
    for (turn, point) in POINTS.iter().filter(|point| Road::PostgresCursor.passes(point)).enumerate() {
        for (at, road) in ROADS.into_iter().enumerate() {
            if !whole && turn % ROADS.len() != at {
                continue;
            }
            let database = Database::create_blocking_on(&server.url());
            let world = road.world_in("2s", 4, database);
            interrupted(&world, road, point, || {
                server.kill();
                server.restart();
            });
        }
    }
}
