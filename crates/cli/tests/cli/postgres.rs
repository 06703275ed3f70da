//! The commands on PostgreSQL.

use postrider_servers::Database;
use serde_json::Value;

use crate::adoption::COMMERCE;
use crate::changed::WAYS;
use crate::world::World;

const SINK: &str = "[[sink]]\nurl = \"file://events.jsonl\"\n";

fn world(database: &Database, more: &str) -> World {
    let world = World::new();
    world.write("postrider.toml", &format!("[outbox]\nurl = \"{}\"\n{more}{SINK}", database.url()));
    world
}

/// F5: a database that cannot be reached is exit code 3 for every command, and its password is in no message.
#[test]
fn a_server_that_is_not_there() {
    let world = World::new();
    world.write(
        "postrider.toml",
        "[outbox]\nurl = \"postgres://app:swordfish-7@127.0.0.1:1/shop?sslmode=disable\"\n",
    );
    let append = ["append", "--type", "a.b.c.v1", "--aggregate-type", "A", "--aggregate-id", "1"];
    for command in [
        &["run"][..],
        &["check"],
        &["migrate"],
        &["status"],
        &["list"],
        &["show", "1"],
        &["revive", "1"],
        &append,
    ] {
        let did = world.run_with(command, "{}");
        did.failed(3, &["127.0.0.1:1/shop"]);
        assert!(!format!("{}{}", did.stdout, did.stderr).contains("swordfish"), "{}", did.stderr);
    }
    world.run(&["migrate", "--print"]).ok();
}

/// F5: a database that answers and is not set up is exit code 2, for `check` 5, with the remedy.
#[test]
fn tables_that_are_not_there() {
    let database = Database::create_blocking();
    let world = world(&database, "");
    for command in [&["run"][..], &["status"], &["list"]] {
        world.run(command).failed(2, &["postrider migrate"]);
    }
    let check = world.run(&["check"]);
    check.failed(5, &["postrider migrate"]);
    assert!(check.stdout.contains("new    outbox"), "{}", check.stdout);
    world.write("postrider.toml", &format!("[outbox]\nurl = \"{}x\"\n", database.url()));
    world.run(&["status"]).failed(3, &["no such database"]);
}

/// F9, F8: append, run and the operator's verbs on the native layout.
#[test]
fn the_whole_road_on_postgresql() {
    let database = Database::create_blocking();
    let world = world(&database, "");
    world.run(&["migrate"]).ok();
    assert_eq!(world.run(&["migrate"]).ok(), "Everything is up to date.\n");
    world.run(&["check"]).ok();
    let first = world.append("shop.order.created.v1", "7", "{\"n\":1}");
    world.append("shop.order.paid.v1", "7", "{\"n\":2}");
    let once = [
        "append",
        "--type",
        "shop.order.paid.v1",
        "--aggregate-type",
        "Order",
        "--aggregate-id",
        "8",
        "--json",
    ];
    let once = |world: &World| -> Value {
        let args = [&once[..], &["--idempotency-key", "k"]].concat();
        serde_json::from_str(&world.run_with(&args, "{\"n\":3}").ok()).unwrap()
    };
    assert_eq!(once(&world)["repeated"], false);
    assert_eq!(once(&world)["repeated"], true);
    database.query(
        "insert into outbox (type, aggregate_type, aggregate_id, payload) values ('shop.order.sent.v1', 'Order', '9', '{\"n\":4}')",
    );

    let status: Value = serde_json::from_str(&world.run(&["status", "--json"]).ok()).unwrap();
    assert_eq!((&status["pending"], &status["published"]), (&4.into(), &0.into()), "{status}");
    world.run(&["bury", &first, "--reason", "wrong price"]).ok();
    let run = world.run(&["run", "--until-empty"]);
    assert!(run.stderr.contains("Published 2 events.") && run.stderr.contains("1 dead"), "{}", run.stderr);
    run.ok();
    assert!(world.run(&["show", &first]).ok().contains("wrong price"));
    world.run(&["revive", &first]).ok();
    world.run(&["run", "--until-empty"]).ok();
    let numbers: Vec<u64> = events(&world).iter().map(|event| event["data"]["n"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [3, 4, 1, 2]);
    assert_eq!(world.run(&["list"]).ok().lines().count(), 5);
    world.run(&["show", "999"]).failed(1, &["999"]);
    world.run(&["bury", "999"]).failed(1, &["entry 999", "no such entry"]);
}

/// B19: the team's own tables as they are; no row of the outbox is changed (B4).
#[test]
fn commerce_as_the_team_has_it() {
    let database = Database::create_blocking();
    database.query(COMMERCE);
    for (id, kind) in [(1, "loopers.order.created.v1"), (2, "loopers.product.viewed.v1")] {
        database.query(&format!(
            "insert into outbox (event_id, event_type, source, aggregate_type, aggregate_id, payload, created_at) values \
             ('e{id}', '{kind}', 'commerce-api', 'Product', '7', '{{\"n\": {id}}}', '2026-01-02T03:04:05Z')"
        ));
    }
    let rows = || database.query("select xmin, outbox.* from outbox order by id");
    let before = rows();
    let world = world(&database, "layout = \"commerce\"\nstart = \"beginning\"\n");
    world.run(&["migrate"]).ok();
    world.run(&["check"]).ok();
    world.run(&["run", "--until-empty"]).ok();
    let events = events(&world);
    let ids: Vec<_> = events.iter().map(|event| event["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["e1", "e2"]);
    assert_eq!(events[0]["time"], "2026-01-02T03:04:05Z");
    assert_eq!(events[0]["source"], "commerce-api");
    assert_eq!(rows(), before);
    assert!(database.query("select 1 from outbox_failed").is_empty());
}

/// B4: the team's cursor says where to begin, and grows with the relay; the highest id is the latest.
#[test]
fn commerce_goes_on_where_the_teams_cursor_stands() {
    let database = Database::create_blocking();
    database.query(COMMERCE);
    database.query(
        "insert into outbox (event_id, event_type, source, aggregate_type, aggregate_id, payload) \
         select 'e' || n, 'loopers.order.created.v1', 'commerce-api', 'Order', n, '{}' from generate_series(1, 3) as n;
         insert into outbox_cursor (last_processed_id) values (0), (1)",
    );
    let world = world(&database, "layout = \"commerce\"\n");
    world.run(&["migrate"]).ok();
    world.run(&["run", "--until-empty"]).ok();
    let ids: Vec<_> = events(&world).iter().map(|event| event["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ids, ["e2", "e3"]);
    let latest = database.query("select last_processed_id from outbox_cursor order by id desc limit 1");
    assert_eq!(latest[0][0].as_deref(), Some("3"));
}

/// F5: who waits for the end is told what an outbox waits for that is empty otherwise, and the wait has an end.
#[test]
fn what_until_empty_waits_for_is_said() {
    let database = Database::create_blocking();
    let world = world(&database, "");
    world.run(&["migrate"]).ok();
    let insert = |key: u32| {
        format!(
            "insert into outbox (type, aggregate_type, aggregate_id) values ('shop.order.sent.v1', 'Order', '{key}')"
        )
    };
    let name = format!("late {}", database.name());
    database.query(&format!("begin; {}; prepare transaction '{name}'", insert(1)));
    database.query(&insert(2));
    let run = world.run(&["run", "--until-empty", "--timeout", "2s"]);
    let writer = format!("1 id that may still commit: prepared transaction \"{name}\"");
    for part in
        ["Published 1 event.", &format!("Waiting for {writer}"), "for 2s", "1 ids that may still commit"]
    {
        assert!(run.stderr.contains(part), "\"{part}\" is not in: {}", run.stderr);
    }
    run.ok();
    assert!(world.run(&["status"]).ok().contains(&name));
    database.query(&format!("commit prepared '{name}'"));
    let run = world.run(&["run", "--until-empty", "--timeout", "2s"]);
    assert!(run.stderr.contains("Published 1 event.") && !run.stderr.contains("Waiting"), "{}", run.stderr);
    run.ok();
}

/// D2, F1: rows of an unknown status, and rows without a time, are listed, and can be revived.
#[test]
fn rows_that_nobody_claims_are_shown() {
    let database = Database::create_blocking();
    database.query(
        &crate::adoption::ORDER_SERVICE.replace("created_at timestamp not null", "created_at timestamp"),
    );
    database.query(
        "insert into outbox (id, event_type, aggregate_type, aggregate_id, payload, status) values \
         ('018f3b0c-7d4e-7abc-8def-000000000001', 'Sent', 'Order', gen_random_uuid(), '{}', 'NWE')",
    );
    let world = world(&database, "layout = \"order-service\"\n");
    world.run(&["migrate"]).ok();
    let listed = world.run(&["list", "--state", "unknown"]).ok();
    let line = listed.lines().nth(1).unwrap();
    assert!(line.contains("unknown") && line.contains("its status is \"NWE\""), "{listed}");
    assert!(line.split_whitespace().any(|cell| cell == "-"), "no age: {listed}");
    assert!(world.run(&["show", "018f3b0c-7d4e-7abc-8def-000000000001"]).ok().contains("\"NWE\""));
    database.query("update outbox set created_at = now()");
    world.run(&["revive", "--state", "unknown"]).ok();
    world.run(&["run", "--until-empty"]).ok();
    assert_eq!(events(&world).len(), 1);
}

/// Issue 4: who waits for the end does not take a neighbour's locks for it, and the wait has an end.
#[test]
fn until_empty_waits_for_what_others_have_locked() {
    for (layout, tables, table, (names, values)) in WAYS.into_iter().skip(1) {
        let database = Database::create_blocking();
        database.query(tables);
        let world = world(&database, &format!("layout = \"{layout}\"\n"));
        world.run(&["migrate"]).ok();
        database.query(&format!("insert into {table} ({names}, payload) values ({values}, '{{\"n\":1}}')"));
        // A prepared transaction keeps its locks without a session.
        let name = format!("lock {}", database.name());
        database.query(&format!("begin; select 1 from {table} for update; prepare transaction '{name}'"));
        let run = world.run(&["run", "--until-empty", "--timeout", "1s"]);
        assert!(
            run.stderr.contains("Another relay or transaction has what is left"),
            "{layout}: {}",
            run.stderr
        );
        run.ok();
        assert!(events(&world).is_empty());
        let mut waiting = world.start("waiting", &["run", "--until-empty"], &[]);
        database.query(&format!("rollback prepared '{name}'"));
        assert!(waiting.wait().success(), "{}", waiting.said());
        assert_eq!(events(&world).len(), 1, "{layout}");
    }
}

/// Issue 4: a relay of each way works behind a transaction pooler, where nothing outlives a transaction.
#[test]
fn a_relay_behind_a_transaction_pooler() {
    let Some(pooler) = postrider_servers::pgbouncer() else { return };
    for (layout, tables, table, (names, values)) in WAYS {
        let (world, database) = (World::new(), Database::create_blocking());
        database.query(tables);
        let url = database.url_at(&pooler);
        let joint = if url.contains('?') { '&' } else { '?' };
        world.write(
            "postrider.toml",
            &format!("[outbox]\nurl = \"{url}{joint}pooler=transaction\"\nlayout = \"{layout}\"\n{SINK}"),
        );
        world.run(&["migrate"]).ok();
        let insert = |first: u32, last: u32| {
            database.query(&format!(
                "insert into {table} ({names}, payload) select {values}, format('{{\"n\":%s}}', n)::json \
                 from generate_series({first}, {last}) as n"
            ));
        };
        insert(1, 20);
        world.run(&["run", "--until-empty"]).ok();
        insert(21, 30);
        world.run(&["run", "--until-empty"]).ok();
        let mut came: Vec<u64> =
            events(&world).iter().map(|event| event["data"]["n"].as_u64().unwrap()).collect();
        came.sort_unstable();
        assert_eq!(came, (1..=30).collect::<Vec<u64>>(), "{layout}");
        world.run(&["check"]).ok();
    }
}

fn events(world: &World) -> Vec<Value> {
    world.read("events.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
