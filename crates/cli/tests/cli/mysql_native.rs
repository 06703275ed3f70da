//! Every command on MariaDB over the native layout, as a newcomer types it.

use postrider_servers::MysqlDatabase;
use serde_json::Value;

use crate::world::World;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn insert(database: &MysqlDatabase, order: &str, n: u32) {
    database.query(&format!(
        "insert into outbox (type, aggregate_type, aggregate_id, payload) \
         values ('shop.order.placed.v1', 'Order', '{order}', '{{\"n\": {n}}}')"
    ));
}

/// F1, F5, F7: migrate, check, status, list, show, bury, revive, run and prune, on rows that name four columns.
#[test]
fn the_native_layout_by_every_command() {
    let database = MysqlDatabase::create_blocking();
    let world = World::new();
    world.write(
        "postrider.toml",
        &format!("[outbox]\nurl = \"{}\"\n[[sink]]\nurl = \"file://events.jsonl\"\n", database.url()),
    );
    for command in [&["run"][..], &["status"], &["list"]] {
        world.run(command).failed(2, &["postrider migrate"]);
    }
    let printed = world.run(&["migrate", "--print"]).ok();
    assert!(printed.contains("create table `outbox`") && printed.is_ascii(), "{printed}");
    assert!(world.run(&["migrate"]).ok().contains("created table `outbox`"));
    assert_eq!(world.run(&["migrate"]).ok(), "Everything is up to date.\n");
    world.run(&["check"]).ok();
    for n in 1..=3 {
        insert(&database, "7", n);
    }
    insert(&database, "8", 4);
    let status = json(&world.run(&["status", "--json"]).ok());
    assert_eq!((&status["pending"], &status["published"]), (&4.into(), &0.into()), "{status}");
    assert!(world.run(&["list"]).ok().contains("shop.order.placed.v1"));
    let shown = world.run(&["show", "2"]).ok();
    assert!(shown.contains("Order/7"), "{shown}");
    world.run(&["bury", "2", "--reason", "by hand"]).ok();
    let run = world.run(&["run", "--until-empty"]);
    run.ok();
    let landed = || -> Vec<u64> {
        world.landed().lines().map(|line| json(line)["data"]["n"].as_u64().unwrap()).collect()
    };
    assert_eq!(landed(), [1, 4], "what is dead holds its key");
    world.run(&["revive", "2"]).ok();
    world.run(&["run", "--until-empty"]).ok();
    assert_eq!(landed(), [1, 4, 2, 3]);
    let first: Value = json(world.landed().lines().next().unwrap());
    assert_eq!(first["source"], "/outbox", "{first}");
    assert!(first["time"].as_str().is_some_and(|time| time.ends_with('Z')), "{first}");
    assert_eq!(first["id"].as_str().map(str::len), Some(36), "{first}");
    let status = json(&world.run(&["status", "--json"]).ok());
    assert_eq!((&status["pending"], &status["published"]), (&0.into(), &4.into()), "{status}");
    world.run(&["prune", "--older-than", "0s"]).ok();
    assert_eq!(database.query("select count(*) from outbox")[0][0].as_deref(), Some("0"));
    insert(&database, "7", 5);
    world.run(&["run", "--until-empty"]).ok();
    assert_eq!(landed().last(), Some(&5));
}

/// F10: a table of the application's own, which is only appended to, from where it is told.
#[test]
fn an_append_only_table_of_the_teams_own() {
    let database = MysqlDatabase::create_blocking();
    database.query(
        "create table letters (no int unsigned auto_increment primary key, kind varchar(50) not null, whom varchar(50) not null, \
         body json not null, at timestamp(3) not null default current_timestamp(3)); \
         insert into letters (kind, whom, body) values ('sent', 'ann', '{\"n\": 1}'), ('sent', 'bob', '{\"n\": 2}')",
    );
    let world = World::new();
    world.write(
        "letters.toml",
        "name = \"letters\"\ntable = \"letters\"\nway = \"cursor\"\ntopic = \"letters\"\n[columns]\nid = \"no\"\ntype = \"kind\"\n\
         source = { constant = \"/post\" }\naggregate_type = { constant = \"Person\" }\naggregate_id = \"whom\"\npayload = \"body\"\n\
         time = \"at\"\n",
    );
    let configure = |start: &str| {
        world.write(
            "postrider.toml",
            &format!(
                "[outbox]\nurl = \"{}\"\nlayout = \"./letters.toml\"\n{start}[[sink]]\nurl = \"file://events.jsonl\"\n",
                database.url()
            ),
        );
    };
    configure("");
    world.run(&["migrate"]).ok();
    world.run(&["run", "--until-empty"]).failed(2, &["where to begin is not said"]);
    world.run(&["check"]).failed(5, &["where to begin is not said"]);
    configure("start = 1\n");
    world.run(&["run", "--until-empty"]).ok();
    let landed = world.landed();
    assert_eq!(landed.lines().count(), 1, "{landed}");
    assert_eq!(json(landed.lines().next().unwrap())["data"]["n"], 2);
}
