//! Times without a zone, in a zone with a name (C1).

use postrider_servers::Database;

use crate::world::World;

const TABLE: &str = "
    create table outbox (
        id bigint generated always as identity primary key, event_type text not null, aggregate_type text not null,
        aggregate_id text not null, payload text not null, created_at timestamp not null, sent_at timestamp);
    create index on outbox (id) where sent_at is null;";

fn in_zone(world: &World, zone: &str) {
    let layout = world.read("outbox-layout.toml");
    let line = layout.lines().find(|line| line.starts_with("zone ")).unwrap_or_else(|| panic!("{layout}"));
    world.write("outbox-layout.toml", &layout.replace(line, &format!("zone = \"{zone}\"")));
}

/// C1: times are read and written in the zone that is named, whatever its season; each event comes, also out of an hour that
/// the clock repeats or leaves out.
#[test]
fn c1_times_without_a_zone_are_read_in_the_zone_that_is_named() {
    let (world, database) = (World::new(), Database::create_blocking());
    database.query(TABLE);
    world.run(&["init", "--from", &database.url()]).ok();
    in_zone(&world, "Europe/Berlin");
    world.run(&["migrate"]).ok();
    world.run(&["check"]).ok();
    for (local, moment) in [
        ("2026-01-15 12:00:00.5", "2026-01-15T11:00:00.5Z"),
        ("2026-07-15 12:00:00", "2026-07-15T10:00:00Z"),
        ("2026-10-25 02:30:00", "2026-10-25T00:30:00Z"),
        ("2027-03-28 02:30:00", "2027-03-28T01:30:00Z"),
    ] {
        database.query(&format!(
            "insert into outbox (event_type, aggregate_type, aggregate_id, payload, created_at) values ('a', 'Order', '1', '{{}}', '{local}')"
        ));
        world.run(&["run", "--until-empty"]).ok();
        let landed = world.landed();
        assert!(
            landed.lines().last().unwrap_or_default().contains(&format!("\"time\":\"{moment}\"")),
            "{local}: {landed}"
        );
    }
    world.append("b", "1", "{}");
    let append = "select * from postrider_append_outbox(type => 'c', aggregate_type => 'Order', aggregate_id => '1', payload => '{}')";
    database.query(append);
    world.run(&["run", "--until-empty"]).ok();
    assert_eq!(world.landed().lines().count(), 6);
    let near = "select 1 from outbox where sent_at - (now() at time zone 'Europe/Berlin') between '-1 minute' and '1 minute'";
    assert_eq!(database.query(near).len(), 6, "published at the zone's own time");
    let near = "select 1 from outbox where event_type in ('b', 'c') and created_at - (now() at time zone 'Europe/Berlin') between '-1 minute' and '1 minute'";
    assert_eq!(database.query(near).len(), 2, "appended at the zone's own time");
}

/// F5: a name that the server does not know, a column of text and a database without zones are refused with the remedy.
#[test]
fn a_zone_that_cannot_be_is_refused() {
    let (world, database) = (World::new(), Database::create_blocking());
    database.query(TABLE);
    world.run(&["init", "--from", &database.url()]).ok();
    in_zone(&world, "Asia/Soul");
    world.run(&["migrate"]).ok();
    for (command, code) in [(&["check"][..], 5), (&["run", "--until-empty"], 2)] {
        world
            .run(command)
            .failed(code, &["\"Asia/Soul\" is none that the server knows", "Did you mean \"Asia/Seoul\"?"]);
    }
    world.write("outbox-layout.toml", &world.read("outbox-layout.toml").replace("Asia/Soul", "Asia/Seoul"));
    world.run(&["check"]).ok();
    database.query("alter table outbox alter created_at type text");
    world.run(&["run", "--until-empty"]).failed(2, &["columns.time is \"created_at\", a text", "+09:00"]);
    world.write("postrider.toml", "[outbox]\nurl = \"sqlite://x.db\"\nlayout = \"./outbox-layout.toml\"\n");
    world.run(&["migrate"]).failed(2, &["SQLite knows none", "+09:00"]);
}
