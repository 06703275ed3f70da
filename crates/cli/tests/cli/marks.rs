//! Tables without a status, whose published rows have something in a column (F1).

use postrider_servers::Database;
use serde_json::Value;

use crate::world::World;

const SENT_AT: &str = "
    create table outbox (
        id bigint generated always as identity primary key, event_type text not null, aggregate_type text not null,
        aggregate_id text not null, payload text not null, created_at timestamptz not null default now(),
        sent_at timestamp, attempts int not null default 0);
    create index on outbox (id) where sent_at is null;
    insert into outbox (event_type, aggregate_type, aggregate_id, payload, sent_at) values
        ('old', 'Order', '1', '{}', '2026-01-01'), ('first', 'Order', '1', '{}', null);";

const FLAG: &str = "
    create table outbox (
        id uuid primary key, event_type text not null, aggregate_type text not null, aggregate_id text not null,
        payload jsonb not null, created_at timestamptz not null, is_sent boolean);
    create index on outbox (created_at, id) where is_sent is not true;
    insert into outbox values
        (gen_random_uuid(), 'old', 'Order', '1', '{}', now(), true),
        (gen_random_uuid(), 'first', 'Order', '1', '{}', now(), null);";

fn adopted(tables: &str) -> (World, Database) {
    let (world, database) = (World::new(), Database::create_blocking());
    database.query(tables);
    world.run(&["init", "--from", &database.url()]).ok();
    world.run(&["migrate"]).ok();
    (world, database)
}

fn state(world: &World, state: &str) -> Vec<Value> {
    let listed = world.run(&["list", "--state", state, "--json"]).ok();
    listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// F1: such a table is adopted as it is: what is published is not sent again, what is not is, and every command knows which
/// is which. `append` and the function that `migrate` makes write rows that are to be published.
#[test]
fn a_table_whose_column_shows_what_is_published_is_adopted() {
    for (tables, mark, is_set) in [(SENT_AT, "sent_at", "sent_at is not null"), (FLAG, "is_sent", "is_sent")]
    {
        let (world, database) = adopted(tables);
        let layout = world.read("outbox-layout.toml");
        assert!(layout.contains(&format!("published = {{ column = \"{mark}\" }}")), "{layout}");
        let checked = world.run(&["check"]);
        assert_eq!(checked.code, 0, "{}{}", checked.stdout, checked.stderr);
        world.append("second", "1", "{}");
        database.query(
            "select * from postrider_append_outbox(type => 'third', aggregate_type => 'Order', aggregate_id => '2', payload => '{}')",
        );
        assert_eq!((state(&world, "pending").len(), state(&world, "published").len()), (3, 1));
        world.run(&["run", "--until-empty"]).ok();
        let landed = world.landed();
        for (kind, times) in [("old", 0), ("first", 1), ("second", 1), ("third", 1)] {
            assert_eq!(landed.matches(&format!("\"type\":\"{kind}\"")).count(), times, "{kind} in {landed}");
        }
        let status: Value = serde_json::from_str(&world.run(&["status", "--json"]).ok()).unwrap();
        assert_eq!((&status["pending"], &status["published"]), (&0.into(), &4.into()), "{status}");
        assert_eq!(database.query(&format!("select 1 from outbox where {is_set}")).len(), 4);
        assert_eq!(world.run(&["run", "--until-empty"]).ok(), "");
        assert_eq!(world.landed(), landed, "nothing is sent twice");
        world.run(&["prune", "--older-than", "0s"]).ok();
        assert_eq!(database.query("select 1 from outbox").len(), 0);
    }
}

/// F5: a column that cannot show it is refused by `check` and by `run`, with the statement that mends it.
#[test]
fn a_column_that_is_never_empty_is_refused() {
    let (world, database) = adopted(SENT_AT);
    for (change, said, remedy) in [
        (
            "alter column sent_at set default now()",
            "would count as published",
            "alter column \"sent_at\" drop default;",
        ),
        (
            "alter column sent_at drop default, alter column sent_at type text",
            "neither a time nor a flag",
            "columns.status",
        ),
        ("drop column sent_at", "published.column", "add the column"),
    ] {
        database.query(&format!("alter table outbox {change}"));
        let checked = world.run(&["check"]);
        assert_eq!(checked.code, 5, "{}{}", checked.stdout, checked.stderr);
        assert!(checked.stderr.contains(said) && checked.stderr.contains(remedy), "{}", checked.stderr);
        world.run(&["run", "--until-empty"]).failed(2, &[remedy]);
    }
    world.write("postrider.toml", "[outbox]\nurl = \"sqlite://x.db\"\nlayout = \"./outbox-layout.toml\"\n");
    world.run(&["migrate"]).failed(2, &["which SQLite does not have", "Add a status column"]);
}
