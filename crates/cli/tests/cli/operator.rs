//! The operator's verbs.

use serde_json::Value;

use crate::world::World;

const CONFIG: &str = "[[sink]]\nurl = \"file://events.jsonl\"\n";

fn count(world: &World, args: &[&str], name: &str) -> u64 {
    let done: Value = serde_json::from_str(&world.run(args).ok()).unwrap();
    done[name].as_u64().unwrap()
}

fn ids(world: &World, args: &[&str]) -> Vec<String> {
    let listed = world.run(args).ok();
    let id = |line: &str| serde_json::from_str::<Value>(line).unwrap()["id"].as_str().unwrap().to_owned();
    listed.lines().map(id).collect()
}

#[test]
fn bury_holds_an_entry_back_and_revive_lets_it_go() {
    let world = World::with_config(CONFIG);
    world.append("shop.order.created.v1", "1", "{\"n\":1}");
    world.append("shop.order.paid.v1", "1", "{\"n\":2}");
    world.append("shop.order.created.v1", "2", "{\"n\":3}");

    let bury = ["bury", "--key", "1", "--type", "*.created.*", "--reason", "wrong price", "--json"];
    assert_eq!(count(&world, &[&bury[..], &["--dry-run"]].concat(), "buried"), 1);
    assert_eq!(ids(&world, &["list", "--state", "dead", "--json"]).len(), 0, "a dry run writes nothing");
    assert_eq!(count(&world, &bury, "buried"), 1);
    let dead = ids(&world, &["list", "--state", "dead", "--json"]);
    assert_eq!(dead.len(), 1);
    assert!(world.run(&["show", &dead[0]]).ok().contains("wrong price"));

    let run = world.run(&["run", "--until-empty"]);
    assert!(run.stderr.contains("Published 1 event.") && run.stderr.contains("1 dead"), "{}", run.stderr);
    run.ok();
    assert_eq!(numbers(&world), [3], "the dead entry holds its key, and nothing else");

    assert_eq!(count(&world, &["revive", &dead[0], "--json"], "revived"), 1);
    world.run(&["run", "--until-empty"]).ok();
    assert_eq!(numbers(&world), [3, 1, 2], "in order");
}

/// A key is typed as its id, or as `list` shows it.
#[test]
fn a_key_is_found_by_what_the_list_shows() {
    let world = World::with_config(CONFIG);
    world.append("shop.order.created.v1", "7", "{\"n\":1}");
    let listed: Value = serde_json::from_str(&world.run(&["list", "--json"]).ok()).unwrap();
    assert_eq!(listed["key"], "Order/7");
    for (key, found) in [("7", 1), ("Order/7", 1), ("Product/7", 0), ("Order", 0)] {
        assert_eq!(ids(&world, &["list", "--key", key, "--json"]).len(), found, "{key}");
        assert_eq!(
            count(&world, &["bury", "--key", key, "--dry-run", "--json"], "buried"),
            found as u64,
            "{key}"
        );
    }
}

/// F5: an id that stands for nothing is a mistake of whoever typed it, and then nothing at all is done.
#[test]
fn a_verb_on_an_entry_that_does_not_exist_says_so() {
    let world = World::with_config(CONFIG);
    let event = world.append("shop.order.created.v1", "1", "{\"n\":1}");
    for verb in ["bury", "revive", "prune"] {
        world.run(&[verb, "1", "17"]).failed(1, &["entry 17", "no such entry", "postrider list"]);
        world.run(&[verb, "no-such-event"]).failed(1, &["entry no-such-event"]);
    }
    assert_eq!(ids(&world, &["list", "--state", "dead", "--json"]).len(), 0, "1 was left alone");
    assert_eq!(count(&world, &["bury", &event, "--json"], "buried"), 1, "the event's id will do");
    assert_eq!(count(&world, &["bury", "1", "--json"], "buried"), 0, "it is there, and dead already");
}

/// Whoever may insert a row must not paint an operator's terminal, forge a line of the log or flood it.
#[test]
fn what_an_event_says_is_escaped_and_cut_wherever_it_is_shown() {
    let world = World::with_config(CONFIG);
    let sly = format!("\u{1b}[31mred\n2026-01-01 ERROR forged {}", "x".repeat(3_000));
    let insert =
        "insert into outbox (type, aggregate_type, aggregate_id, payload) values (?1, 'Order', ?1, '{}')";
    world.database("postrider.db").execute(insert, [&sly]).unwrap();
    let run = world.run(&["run", "--until-empty", "-v"]);
    let bury = world.run(&["bury", "--all"]);
    let (list, show) = (world.run(&["list"]), world.run(&["show", "1"]));
    let status = world.run(&["status"]);
    for did in [&run, &bury, &list, &show, &status] {
        let said = format!("{}{}", did.stdout, did.stderr);
        assert!(!said.contains('\u{1b}'), "{said:?}");
        assert!(!said.lines().any(|line| line.starts_with("2026-01-01 ERROR forged")), "{said}");
        assert!(!said.contains(&"x".repeat(1_001)), "{said}");
    }
    assert_eq!(list.stdout.lines().count(), 2, "{}", list.stdout);
    assert!(list.stdout.contains("\\u{1b}[31mred\\n"), "{}", list.stdout);
    assert!(list.stdout.lines().all(|line| line.chars().count() < 600), "{}", list.stdout);
    assert!(show.stdout.contains("\\u{1b}[31mred\\n"), "{}", show.stdout);
}

#[test]
fn what_a_sink_rejects_is_dead_with_its_reason() {
    let world = World::with_config(CONFIG);
    world.append(
        "shop.order.created.v1",
        "1",
        "{\"n\":1,\"padding\":\"0123456789012345678901234567890123456789\"}",
    );
    world.append("shop.order.created.v1", "2", "{\"n\":2}");
    world.write("postrider.toml", &format!("[outbox]\npayload_bytes_max = 20\n{CONFIG}"));
    let run = world.run(&["run", "--until-empty"]);
    assert!(run.stderr.contains("ERROR") && run.stderr.contains("1 dead"), "{}", run.stderr);
    run.ok();
    assert_eq!(numbers(&world), [2]);
    world.write("postrider.toml", CONFIG);
    assert_eq!(count(&world, &["revive", "--all", "--json"], "revived"), 1);
    world.run(&["run", "--until-empty"]).ok();
    assert_eq!(numbers(&world), [2, 1]);
}

#[test]
fn prune_deletes_what_is_published_and_nothing_else() {
    let world = World::with_config(CONFIG);
    for key in ["1", "2", "3"] {
        world.append("shop.order.created.v1", key, "{}");
    }
    world.run(&["bury", "--key", "3"]).ok();
    world.run(&["run", "--until-empty"]).ok();
    assert_eq!(count(&world, &["prune", "--older-than", "1h", "--json"], "pruned"), 0, "too young");
    assert_eq!(count(&world, &["prune", "--all", "--dry-run", "--json"], "pruned"), 2);
    assert_eq!(ids(&world, &["list", "--json"]).len(), 3);
    assert_eq!(count(&world, &["prune", "--all", "--limit", "1", "--json"], "pruned"), 1);
    assert_eq!(count(&world, &["prune", "--all", "--json"], "pruned"), 1);
    assert_eq!(ids(&world, &["list", "--json"]).len(), 1, "the dead one stays");
    world.append("shop.order.created.v1", "4", "{\"n\":4}");
    world.run(&["run", "--until-empty"]).ok();
    assert_eq!(world.read("events.jsonl").lines().count(), 3, "what was pruned does not come back");
}

/// STO-03: a dry run counts all of them, however many batches they are.
#[test]
fn a_dry_prune_counts_beyond_one_batch() {
    let world = World::with_config(CONFIG);
    let database = world.database("postrider.db");
    let published = "insert into outbox (type, aggregate_type, aggregate_id, payload) \
                     with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < 10050) \
                     select 'shop.order.created.v1', 'Order', n, '{}' from numbers; \
                     update postrider_position set position = 10050";
    database.execute_batch(published).unwrap();
    assert_eq!(world.run(&["prune", "--all", "--dry-run"]).ok(), "Would delete 10,050 entries.\n");
    assert_eq!(count(&world, &["prune", "--all", "--dry-run", "--limit", "7", "--json"], "pruned"), 7);
    assert_eq!(world.run(&["prune", "--all"]).ok(), "Deleted 10,050 entries.\n");
}

fn numbers(world: &World) -> Vec<u64> {
    let number = |line: &str| serde_json::from_str::<Value>(line).unwrap()["data"]["n"].as_u64().unwrap();
    world.read("events.jsonl").lines().map(number).collect()
}
