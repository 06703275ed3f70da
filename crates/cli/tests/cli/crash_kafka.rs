//! Kafka dies, PostgreSQL does, or the connections to both, while a relay stands at a named point between the steps (F8):
//! nothing is lost, each key is in order, and the relay goes on by itself.

use postrider_core::point::POINTS;
use postrider_servers::{Database, Door, PrivatePostgres};
use rustix::process::Signal;

use crate::kafka_commerce::broker;
use crate::landing::Landing;
use crate::shop::{Road, Shop};
use crate::wait::until;
use crate::world::World;

const ROADS: [Road; 3] = [Road::CursorToKafka, Road::LeaseToKafka, Road::HoldToKafka];
const LEASE_TTL: &str = "2s";

/// A relay at a point of its road.
pub(crate) struct Stand {
    world: World,
    road: Road,
    point: &'static str,
}

/// The ways take turns at the points, beginning with another one for each thing that happens; `cargo xtask soak` has the
/// whole product.
pub(crate) fn stands(roads: &[Road], first: usize, world: impl Fn(Road) -> World) -> Vec<Stand> {
    let whole = std::env::var_os("POSTRIDER_SOAK").is_some();
    let mut stands = Vec::new();
    for (turn, point) in POINTS.iter().filter(|point| roads[0].passes(point)).enumerate() {
        for (at, road) in roads.iter().copied().enumerate() {
            if whole || (turn + first) % roads.len() == at {
                stands.push(Stand { world: world(road), road, point });
            }
        }
    }
    stands
}

/// All of them stand at their points when it happens, once; then they go on.
pub(crate) fn interrupted(stands: &[Stand], happens: impl FnOnce()) {
    let mut all = Vec::new();
    for Stand { world, road, point } in stands {
        let mut shop = Shop::new(world, *road);
        shop.commit(10);
        shop.roll_back(2);
        let pause = format!("{point}:1");
        let relay = world.start("relay", &["run", "-v"], &[("POSTRIDER_PAUSE_AT", &pause)]);
        all.push((shop, relay, format!("{point} by {road:?}")));
    }
    for (_, relay, place) in &all {
        until(&format!("the pause at {place}"), || relay.stands_still());
    }
    happens();
    for (shop, relay, _) in &mut all {
        relay.signal(Signal::CONT);
        shop.commit(6);
        shop.roll_back(1);
    }
    for (shop, relay, place) in &mut all {
        until(&format!("all of them, after {place}"), || shop.arrived() == shop.committed());
        relay.signal(Signal::TERM);
        assert_eq!(relay.wait().code(), Some(0), "{place}: {}", relay.said());
    }
    for ((shop, ..), Stand { world, .. }) in all.iter().zip(stands) {
        // What was settled without an answer is settled again; nothing is left behind.
        world.run(&["run", "--until-empty"]).ok();
        shop.prove();
        assert!(
            world.run(&["list", "--state", "dead", "--json"]).ok().is_empty(),
            "an outage buries nothing"
        );
    }
}

#[test]
fn a_crash_of_kafka_at_every_point_loses_nothing() {
    let mut broker = broker();
    let stands = stands(&ROADS, 0, |road| {
        let database = Database::create_blocking();
        let url = database.url();
        let ends =
            World { server: Some(database), landing: Some(Landing::behind_doors(&broker)), ..World::new() };
        road.furnish(ends, &url, LEASE_TTL, 4)
    });
    interrupted(&stands, || {
        broker.kill(1);
        broker.restart(1);
    });
}

#[test]
fn a_crash_of_postgres_at_every_point_on_the_way_to_kafka_loses_nothing() {
    let mut server = PrivatePostgres::start();
    let url = server.url();
    let stands = stands(&ROADS, 1, |road| road.world_in(LEASE_TTL, 4, Database::create_blocking_on(&url)));
    interrupted(&stands, || {
        server.kill();
        server.restart();
    });
}

#[test]
fn a_crash_of_both_connections_at_every_point_loses_nothing() {
    let broker = broker();
    let door = Door::before(&postrider_servers::postgres());
    let stands = stands(&ROADS, 2, |road| {
        let database = Database::create_blocking();
        let url = door.url(&database.url());
        let ends =
            World { server: Some(database), landing: Some(Landing::behind_doors(&broker)), ..World::new() };
        road.furnish(ends, &url, LEASE_TTL, 4)
    });
    interrupted(&stands, || {
        door.cut();
        broker.doors().for_each(Door::cut);
    });
}
