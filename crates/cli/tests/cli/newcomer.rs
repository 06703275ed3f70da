//! The first minutes of somebody new.

use std::io::Write;
use std::process::Stdio;

use serde_json::Value;

use crate::world::{World, finish};

/// init, migrate, check, append, run, status, list, show: each does what its name says, and nothing else is needed.
#[test]
fn the_path_of_a_newcomer() {
    let world = World::new();
    let wrote = world.run(&["init"]);
    assert!(wrote.stderr.contains("postrider migrate"), "{}", wrote.stderr);
    wrote.ok();
    let check = world.run(&["check"]);
    check.failed(3, &["no such database file yet", "`postrider migrate` creates it"]);
    assert!(check.stdout.contains("new    outbox") && !check.stdout.contains("FAULT"), "{}", check.stdout);
    world.run(&["migrate"]).ok();
    world.run(&["check"]).ok();

    let first = world.append("shop.order.created.v1", "17", "{\"total\": 42}\n");
    let lines = [
        "append",
        "--type",
        "shop.order.paid.v1",
        "--aggregate-type",
        "Order",
        "--aggregate-id",
        "17",
        "--lines",
    ];
    let more = world.run_with(&lines, "{\"n\":1}\n{\"n\":2}\n").ok();
    assert_eq!(more.lines().count(), 2);

    let status: Value = serde_json::from_str(&world.run(&["status", "--json"]).ok()).unwrap();
    assert_eq!((&status["pending"], &status["published"]), (&3.into(), &0.into()), "{status}");

    let run = world.run(&["run", "--until-empty"]);
    assert!(run.stderr.contains("Published 3 events"), "{}", run.stderr);
    assert_eq!(run.ok(), "", "data on stdout, everything else on stderr");

    let events: Vec<Value> =
        world.read("events.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events.len(), 3);
    assert_eq!(events[0]["id"], *first);
    assert_eq!(events[0]["type"], "shop.order.created.v1");
    assert_eq!(events[0]["aggregateid"], "17");
    assert_eq!(events[0]["data"]["total"], 42);
    assert_eq!((&events[1]["data"]["n"], &events[2]["data"]["n"]), (&1.into(), &2.into()));

    let status: Value = serde_json::from_str(&world.run(&["status", "--json"]).ok()).unwrap();
    assert_eq!((&status["pending"], &status["published"]), (&0.into(), &3.into()), "{status}");
    assert!(world.run(&["status"]).ok().contains("published"));

    let listed = world.run(&["list"]).ok();
    assert!(listed.starts_with("ID") && listed.lines().count() == 4, "{listed}");
    let listed = world.run(&["list", "--json", "--type", "*.created.*"]).ok();
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!((&listed["event_id"], &listed["state"]), (&first.as_str().into(), &"published".into()));

    let id = listed["id"].as_str().unwrap();
    assert!(world.run(&["show", id]).ok().contains("shop.order.created.v1"));
    assert_eq!(world.run(&["show", id, "--json"]).ok(), world.run(&["show", &first, "--json"]).ok());
    let shown: Value = serde_json::from_str(&world.run(&["show", id, "--json"]).ok()).unwrap();
    assert_eq!(shown["payload"]["total"], 42);
    assert_eq!(world.run(&["show", id, "--payload"]).ok().trim(), "{\"total\": 42}", "as it was written");
}

/// Whoever waits for stdin keeps no other writer waiting.
#[test]
fn lines_are_read_before_anything_is_written() {
    let world = World::with_config("");
    let args = [
        "append",
        "--type",
        "shop.order.paid.v1",
        "--aggregate-type",
        "Order",
        "--aggregate-id",
        "1",
        "--lines",
    ];
    let mut command = world.command(&args);
    command.stdin(Stdio::piped()).stdout(Stdio::null());
    let mut slow = command.spawn().unwrap();
    let mut stdin = slow.stdin.take().unwrap();
    // More than a pipe holds: when it is all written, the command has begun to read.
    stdin.write_all("{\"n\":1}\n".repeat(20_000).as_bytes()).unwrap();
    world.append("shop.order.created.v1", "2", "{}");
    assert_eq!(world.run(&["list", "--json"]).ok().lines().count(), 1);
    drop(stdin);
    assert!(slow.wait().unwrap().success());
    let status: Value = serde_json::from_str(&world.run(&["status", "--json"]).ok()).unwrap();
    assert_eq!(status["pending"], 20_001);
}

#[test]
fn init_does_not_write_over_a_file() {
    let world = World::new();
    world.write("postrider.toml", "# mine");
    world.run(&["init"]).failed(2, &["postrider.toml", "--force"]);
    assert_eq!(world.read("postrider.toml"), "# mine");
    let printed = world.run(&["init", "--print"]).ok();
    world.run(&["init", "--force"]).ok();
    assert_eq!(world.read("postrider.toml"), printed);
    world.run(&["init", "-c", "other.toml"]).ok();
    assert_eq!(world.read("other.toml"), printed);
}

#[test]
fn migrate_is_repeated_without_harm_and_prints_its_sql() {
    let world = World::new();
    world.run(&["init"]).ok();
    let sql = world.run(&["migrate", "--print"]).ok();
    assert!(sql.contains("create table"), "{sql}");
    assert!(!world.path("postrider.db").exists(), "--print writes nothing");
    world.run(&["migrate"]).ok();
    world.append("shop.order.created.v1", "1", "{}");
    world.run(&["migrate"]).ok();
    assert_eq!(world.run(&["list"]).ok().lines().count(), 2);
}

/// The same idempotency key twice is one event, and both callers get the same answer (A2).
#[test]
fn an_idempotency_key_appends_once() {
    let world = World::with_config("");
    let args = [
        "append",
        "--type",
        "shop.order.created.v1",
        "--aggregate-type",
        "Order",
        "--aggregate-id",
        "1",
        "--idempotency-key",
        "request-1",
    ];
    let first = world.run_with(&args, "{}").ok();
    let second = world.run_with(&args, "{}").ok();
    assert_eq!(first, second);
    assert_eq!(world.run(&["list", "--json"]).ok().lines().count(), 1);
}

/// F7: the writer's trace context travels.
#[test]
fn a_trace_context_travels() {
    let world = World::with_config("[[sink]]\nurl = \"file://events.jsonl\"\n");
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let args = [
        "append",
        "--type",
        "shop.order.created.v1",
        "--aggregate-type",
        "Order",
        "--aggregate-id",
        "1",
        "--key",
        "customer-9",
        "--source",
        "/till/3",
        "--traceparent",
        parent,
    ];
    world.run_with(&args, "{}").ok();
    world.run(&["run", "--until-empty"]).ok();
    let event: Value = serde_json::from_str(&world.read("events.jsonl")).unwrap();
    assert_eq!(event["traceparent"], parent);
    assert_eq!(event["source"], "/till/3");
    assert_eq!(event["partitionkey"], "customer-9");
}

#[test]
fn a_payload_that_is_not_json_travels_under_its_own_content_type() {
    let world = World::with_config("[[sink]]\nurl = \"file://events.jsonl\"\n");
    let args = [
        "append",
        "--type",
        "shop.order.created.v1",
        "--aggregate-type",
        "Order",
        "--aggregate-id",
        "1",
        "--content-type",
        "text/plain",
    ];
    world.run_with(&args, "hello").ok();
    world.run(&["run", "--until-empty"]).ok();
    let event: Value = serde_json::from_str(&world.read("events.jsonl")).unwrap();
    assert_eq!(
        (&event["datacontenttype"], &event["data_base64"]),
        (&"text/plain".into(), &"aGVsbG8=".into())
    );
}

/// Data on stdout: with the sink `stdout:` a pipe gets the events and nothing else.
#[test]
fn events_on_stdout_are_alone_there() {
    let world = World::with_config("[[sink]]\nurl = \"stdout:\"\n");
    world.append("shop.order.created.v1", "1", "{\"n\":1}");
    let events = world.run(&["run", "--until-empty"]).ok();
    assert_eq!(events.lines().count(), 1);
    let event: Value = serde_json::from_str(&events).unwrap();
    assert_eq!(event["data"]["n"], 1);
}

#[test]
fn help_shows_examples_and_exit_codes() {
    let world = World::new();
    let help = world.run(&["--help"]).ok();
    for part in ["postrider demo", "Exit codes:", "5  `check` found a fault", "POSTRIDER_CONFIG"] {
        assert!(help.contains(part), "{part} is not in: {help}");
    }
    let commands = [
        "demo", "run", "init", "migrate", "check", "append", "status", "list", "show", "revive", "bury",
        "prune",
    ];
    for command in commands {
        let help = world.run(&[command, "--help"]).ok();
        assert!(help.contains("Examples:") && help.contains(&format!("postrider {command}")), "{help}");
    }
}

#[test]
fn help_lists_every_exit_code_of_run() {
    let help = World::new().run(&["run", "--help"]).ok();
    for code in ["  0  ", "  1  ", "  2  ", "  3  ", "  4  "] {
        assert!(help.contains(&format!("\n{code}")), "{code} in {help}");
    }
}

#[test]
fn the_config_comes_from_the_environment_too() {
    let world = World::new();
    world.write("shop.toml", "[outbox]\nurl = \"sqlite://shop.db\"\n");
    let mut command = world.command(&["migrate"]);
    command.env("POSTRIDER_CONFIG", "shop.toml");
    finish(command, b"").ok();
    assert!(world.path("shop.db").exists());
}
