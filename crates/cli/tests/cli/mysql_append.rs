//! `postrider append` on MariaDB, and what the relay makes of it.

use postrider_servers::MysqlDatabase;
use serde_json::Value;

use crate::bank::{DONATION, LEDGER};
use crate::mysql::{events, world};

const POSTED: [&str; 7] =
    ["append", "--type", "LEDGER_POSTED", "--aggregate-type", "TRANSACTION", "--aggregate-id", "7"];

/// F9, F8, E3: a script appends, alone, line by line and once; what it appended is relayed.
#[test]
fn a_script_appends_to_the_ledger() {
    let database = MysqlDatabase::create_blocking();
    database.query(LEDGER);
    let world = world(&database, "ledger");
    world.run(&["migrate"]).ok();
    let one = world.run_with(&POSTED, "{\"accountId\": 3, \"n\": 1}").ok();
    assert_eq!(one, "1\n", "the row's id is the event's");
    let lines: String = (2..=2_500).map(|n| format!("{{\"accountId\": 3, \"n\": {n}}}\n")).collect();
    let many = world.run_with(&[&POSTED[..], &["--lines"]].concat(), &lines).ok();
    assert_eq!(many.lines().count(), 2_499);
    let once = [&POSTED[..], &["--idempotency-key", "r-1", "--json"]].concat();
    let told = |text: String| serde_json::from_str::<Value>(&text).unwrap();
    let first = told(world.run_with(&once, "{\"accountId\": 3, \"n\": 2501}").ok());
    let again = told(world.run_with(&once, "{\"accountId\": 3, \"n\": 2501}").ok());
    assert_eq!((&first["repeated"], &again["repeated"]), (&false.into(), &true.into()));
    assert_eq!(first["id"], again["id"]);
    world.run(&["run", "--until-empty"]).ok();
    let numbers: Vec<u64> = events(&world).iter().map(|event| event["data"]["n"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=2_501).collect::<Vec<_>>());
}

/// A4, A13, F5: the hash is the writer's and the relay finds it good; what the table cannot keep is refused.
#[test]
fn a_script_appends_a_donation() {
    let database = MysqlDatabase::create_blocking();
    database.query(DONATION);
    let world = world(&database, "donation");
    world.run(&["migrate"]).ok();
    let append = |id: &str, aggregate: &str| {
        let kind = [
            "append",
            "--type",
            "DONATED",
            "--aggregate-type",
            "Donation",
            "--aggregate-id",
            aggregate,
            "--id",
            id,
        ];
        world.run_with(&kind, "{\"amount\": 3}")
    };
    assert_eq!(append("r-1", "r-1").ok(), "r-1\n");
    append("r-2", "other").failed(2, &["one column for both"]);
    append("r|3", "r|3").failed(2, &["has a |"]);
    append(&"r".repeat(51), &"r".repeat(51)).failed(2, &["column \"request_id\" takes 50"]);
    append("r-1", "r-1").failed(2, &["an event with this id is there already", "idempotency key"]);
    assert_eq!(database.query("select count(*) from donation_outbox")[0][0].as_deref(), Some("1"));
    world.run(&["run", "--until-empty"]).ok();
    assert_eq!(events(&world)[0]["data"]["amount"], 3);
}
