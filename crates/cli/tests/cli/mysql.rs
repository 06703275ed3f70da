//! The commands on MariaDB, with the two teams' own tables.

use postrider_core::rows::content_hash;
use postrider_servers::MysqlDatabase;
use serde_json::Value;

use crate::bank::{DONATION, LEDGER};
use crate::world::World;

pub(crate) fn world(database: &MysqlDatabase, layout: &str) -> World {
    let world = World::new();
    world.write(
        "postrider.toml",
        &format!(
            "[outbox]\nurl = \"{}\"\nlayout = \"{layout}\"\n[[sink]]\nurl = \"file://events.jsonl\"\n",
            database.url()
        ),
    );
    world
}

pub(crate) fn events(world: &World) -> Vec<Value> {
    world.landed().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A5–A7, A10, A13, F8: rows written by plain SQL arrive; what was tampered with does not, and is in both tables.
#[test]
fn donation_as_the_team_has_it() {
    let database = MysqlDatabase::create_blocking();
    database.query(DONATION);
    for n in 1..=3 {
        let (request, kind, payload) = (format!("r-{n}"), "DONATION_COMPLETED", format!("{{\"n\": {n}}}"));
        let hash = content_hash(&request, kind, payload.as_bytes());
        database.query(&format!(
            "insert into donation_outbox (request_id, event_type, payload, content_hash, created_at) values \
             ('{request}', '{kind}', '{payload}', '{hash}', utc_timestamp(6))"
        ));
    }
    database.query("update donation_outbox set payload = '{\"n\": 200}' where request_id = 'r-2'");
    let world = world(&database, "donation");
    for command in [&["run"][..], &["status"], &["list"]] {
        world.run(command).failed(2, &["postrider migrate"]);
    }
    world.run(&["migrate"]).ok();
    assert_eq!(world.run(&["migrate"]).ok(), "Everything is up to date.\n");
    world.run(&["check"]).ok();
    let run = world.run(&["run", "--until-empty"]);
    assert!(run.stderr.contains("Published 2 events.") && run.stderr.contains("1 dead"), "{}", run.stderr);
    run.ok();
    let numbers: Vec<u64> = events(&world).iter().map(|event| event["data"]["n"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [1, 3]);
    let words = database.query("select status, version, locked_by from donation_outbox order by id");
    let words: Vec<Vec<String>> = words
        .into_iter()
        .map(|row| row.into_iter().map(|value| value.unwrap_or_default()).collect())
        .collect();
    assert_eq!(words, [["COMPLETED", "2", ""], ["DEAD_LETTER", "2", ""], ["COMPLETED", "2", ""]]);
    let dlq = database.query("select request_id, reason from donation_dlq");
    assert_eq!(dlq[0][0].as_deref(), Some("r-2"));
    assert!(dlq[0][1].as_ref().unwrap().contains("content_hash"), "{dlq:?}");
    let status: Value = serde_json::from_str(&world.run(&["status", "--json"]).ok()).unwrap();
    assert_eq!((&status["published"], &status["dead"]), (&2.into(), &1.into()), "{status}");
    assert!(world.run(&["show", "2"]).ok().contains("content_hash"));
}

/// E3–E5, F8: rows written by plain SQL arrive by account and in order, and are PROCESSED.
#[test]
fn ledger_as_the_team_has_it() {
    let database = MysqlDatabase::create_blocking();
    database.query(LEDGER);
    for n in 1..=6 {
        let account = n % 2;
        database.query(&format!(
            "insert into outbox_event (aggregate_type, aggregate_id, event_type, payload, created_at) values \
             ('TRANSACTION', {n}, 'LEDGER_POSTED', '{{\"accountId\": \"a{account}\", \"n\": {n}}}', utc_timestamp(6))"
        ));
    }
    let world = world(&database, "ledger");
    world.run(&["migrate"]).ok();
    let check = world.run(&["check"]).ok();
    assert!(check.contains("advice") && check.contains("(status, id)"), "{check}");
    world.run(&["run", "--until-empty"]).ok();
    let events = events(&world);
    for account in ["a0", "a1"] {
        let of = events.iter().filter(|event| event["data"]["accountId"] == account);
        let numbers: Vec<u64> = of.map(|event| event["data"]["n"].as_u64().unwrap()).collect();
        assert!(numbers.len() == 3 && numbers.is_sorted(), "{account}: {numbers:?}");
    }
    assert_eq!(events[0]["aggregateid"], "1");
    assert_eq!(events[0]["partitionkey"], "a1");
    let processed =
        "select count(*) from outbox_event where status = 'PROCESSED' and processed_at is not null";
    assert_eq!(database.query(processed)[0][0].as_deref(), Some("6"));
}

/// F5, F6: a server that is not there is exit code 3, what is not in this build yet is said, and no password is shown.
#[test]
fn what_cannot_be_done_is_said() {
    let world = World::new();
    world.write(
        "postrider.toml",
        "[outbox]\nurl = \"mysql://app:swordfish-7@127.0.0.1:1/bank?sslmode=disable\"\nlayout = \"ledger\"\n",
    );
    for command in [&["run"][..], &["check"], &["migrate"], &["status"], &["list"]] {
        let did = world.run(command);
        did.failed(3, &["127.0.0.1:1/bank"]);
        assert!(!format!("{}{}", did.stdout, did.stderr).contains("swordfish"), "{}", did.stderr);
    }
    world.run(&["migrate", "--print"]).ok();
    let append = ["append", "--type", "A", "--aggregate-type", "A", "--aggregate-id", "1"];
    world.run_with(&append, "{}").failed(3, &["127.0.0.1:1/bank"]);
    world.write("postrider.toml", "[outbox]\nurl = \"mariadb://app@127.0.0.1:1/bank\"\n");
    world.run(&["run"]).failed(3, &["127.0.0.1:1/bank"]);
    let database = MysqlDatabase::create_blocking();
    world.write("postrider.toml", &format!("[outbox]\nurl = \"{}x\"\nlayout = \"ledger\"\n", database.url()));
    world.run(&["status"]).failed(3, &["no such database"]);
}
