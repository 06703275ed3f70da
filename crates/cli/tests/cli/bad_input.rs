//! F5: bad input gets one paragraph with the place and the remedy, the documented exit code, and nothing is lost.

use crate::world::{World, finish};

const APPEND: &[&str] =
    &["append", "--type", "shop.order.created.v1", "--aggregate-type", "Order", "--aggregate-id", "1"];

/// F5: an unknown config key names the line and the nearest key.
#[test]
fn an_unknown_config_key() {
    let world = World::new();
    world.write("postrider.toml", "[outbox]\nurl = \"sqlite://shop.db\"\n\n[relay]\nbatch_entires = 10\n");
    for command in [&["run"][..], &["check"], &["migrate"], &["status"], &["list"], &["revive", "1"]] {
        world.run(command).failed(2, &["postrider.toml:5", "\"batch_entires\"", "\"batch_entries\""]);
    }
    assert!(!world.path("shop.db").exists());
}

#[test]
fn a_config_that_is_not_there_or_not_readable() {
    let world = World::new();
    world.run(&["run"]).failed(2, &["postrider.toml", "no such file", "postrider init", "-c FILE"]);
    world.run(&["run", "-c", "/proc/self/mem"]).failed(2, &["/proc/self/mem"]);
    world.run(&["run", "-c", "."]).failed(2, &["."]);
    std::fs::write(world.path("binary.toml"), b"[outbox]\nurl = \"\xff\xfe\"").unwrap();
    world.run(&["run", "-c", "binary.toml"]).failed(2, &["binary.toml:2", "UTF-8"]);
    world.write("huge.toml", &"#".repeat(2 << 20));
    world.run(&["run", "-c", "huge.toml"]).failed(2, &["huge.toml", "2097152 bytes"]);
}

/// F5: an impossible mapping names the table and the missing column.
#[test]
fn an_impossible_mapping() {
    let world = World::new();
    world.write(
        "shop.toml",
        "name = \"shop\"\ntable = \"shop_outbox\"\nway = \"cursor\"\n[columns]\nid = \"id\"\ntype = \"kind\"\n\
         payload = \"body\"\ntime = \"happened_at\"\naggregate_type = { constant = \"Order\" }\naggregate_id = \"order_id\"\n",
    );
    world.write(
        "postrider.toml",
        "[outbox]\nurl = \"sqlite://shop.db\"\nlayout = \"./shop.toml\"\nstart = \"beginning\"\n",
    );
    let table = "create table shop_outbox (id integer primary key autoincrement, kind text not null, \
                 order_id text not null, happened_at text not null)";
    world.database("shop.db").execute_batch(table).unwrap();
    world.run(&["check"]).failed(5, &["shop_outbox", "body"]);
    world.run(&["run"]).failed(2, &["shop_outbox", "body"]);
}

#[test]
fn a_layout_that_cannot_be() {
    let world = World::new();
    world.write("postrider.toml", "[outbox]\nlayout = \"nativ\"\n");
    world.run(&["check"]).failed(2, &["\"nativ\"", "\"native\""]);
    world.write("postrider.toml", "[outbox]\nlayout = \"none/such.toml\"\n");
    world.run(&["check"]).failed(2, &["none/such.toml", "[outbox] layout"]);
    world.write("broken.toml", "name = \"x\"\ntabel = \"y\"\n");
    world.write("postrider.toml", "[outbox]\nlayout = \"./broken.toml\"\n");
    world.run(&["check"]).failed(2, &["broken.toml:2", "\"tabel\"", "\"table\""]);
}

/// F5: a payload that is not JSON, where JSON is required, is refused before anything is written, and is not shown.
#[test]
fn a_payload_that_is_not_json() {
    let world = World::with_config("");
    let did = world.run_with(APPEND, "{\"card\": 4111111111111111");
    did.failed(2, &["shop.order.created.v1", "not JSON"]);
    assert!(!did.stderr.contains("4111"), "{}", did.stderr);
    world.run_with(APPEND, "").failed(2, &["stdin", "empty"]);

    let lines = [APPEND, &["--lines"]].concat();
    let did = world.run_with(&lines, "{\"n\":1}\n{\"n\":2}\nnonsense\n{\"n\":4}\n");
    did.failed(2, &["stdin:3", "not JSON"]);
    assert_eq!(world.run(&["list", "--json"]).ok(), "", "one transaction: nothing is written");
}

/// F5: more lines than one transaction takes are refused with the line, and nothing is written.
#[test]
fn more_lines_than_one_transaction_takes() {
    let world = World::with_config("");
    let lines = [APPEND, &["--lines"]].concat();
    let did = world.run_with(&lines, &"{}\n".repeat(100_001));
    did.failed(2, &["stdin:100001", "at most 100,000 events", "split -l 100000"]);
    assert_eq!(world.run(&["list", "--json"]).ok(), "");
}

/// F5: an event over the size limit.
#[test]
fn an_event_over_the_size_limit() {
    let world = World::with_config("[outbox]\npayload_bytes_max = \"1KiB\"\n");
    let large = format!("\"{}\"", "x".repeat(5_000));
    world.run_with(APPEND, &large).failed(2, &["5002 bytes", "1024", "payload_bytes_max"]);
    let lines = [APPEND, &["--lines"]].concat();
    world.run_with(&lines, &format!("{{}}\n{large}\n")).failed(2, &["stdin:2", "5002 bytes"]);
    assert_eq!(world.run(&["list", "--json"]).ok(), "");
}

#[test]
fn an_event_type_off_the_convention() {
    let world = World::with_config("");
    let args = ["append", "--type", "OrderCreated", "--aggregate-type", "Order", "--aggregate-id", "1"];
    world.run_with(&args, "{}").failed(2, &["\"OrderCreated\"", "company.domain.action.v1"]);
}

/// A database that is not there is exit code 3, for whoever needs it.
#[test]
fn a_database_that_is_not_there() {
    let world = World::new();
    world.write("postrider.toml", "[outbox]\nurl = \"sqlite://none/shop.db\"\n");
    for command in [&["run"][..], &["status"], &["list"], &["show", "1"], &["revive", "1"], &["check"]] {
        world.run(command).failed(3, &["none/shop.db"]);
    }
    world.run_with(APPEND, "{}").failed(3, &["none/shop.db", "postrider migrate"]);
    world.run(&["migrate"]).failed(3, &["none/shop.db"]);

    world
        .write("shop.db", "this is a letter to my aunt, not a database; it is long enough to be read as one");
    world.write("postrider.toml", "[outbox]\nurl = \"sqlite://shop.db\"\n");
    world.run(&["run"]).failed(3, &["shop.db", "not a SQLite database"]);
    assert!(world.read("shop.db").starts_with("this is a letter"), "left as it was");
}

#[test]
fn tables_that_are_not_there() {
    let world = World::new();
    world.write("postrider.toml", "");
    world.database("postrider.db").execute_batch("create table other (id integer)").unwrap();
    world.run(&["run"]).failed(2, &["outbox", "postrider migrate"]);
    world.run(&["check"]).failed(5, &["outbox", "postrider migrate"]);
}

/// Rows that are there before a position is: nobody guesses whether they are to be published.
#[test]
fn a_table_with_rows_and_no_position() {
    let world = World::new();
    world.write("postrider.toml", "[[sink]]\nurl = \"file://events.jsonl\"\n");
    world.run(&["migrate"]).ok();
    world.append("shop.order.created.v1", "1", "{}");
    let database = world.database("postrider.db");
    assert_eq!(database.execute("delete from postrider_position", []).unwrap(), 1);
    world.run(&["run", "--until-empty"]).failed(2, &["start = "]);
    assert_eq!(world.read("events.jsonl"), "");
}

#[test]
fn sinks_that_cannot_be() {
    let world = World::with_config("");
    for (url, said) in [
        ("nats://localhost:4222", "not in this build yet"),
        ("carrier-pigeon:", "names no kind of sink"),
        ("file://", "names no file"),
        ("", "names no kind of sink"),
    ] {
        world.write("postrider.toml", &format!("[[sink]]\nname = \"a\"\nurl = \"{url}\"\n"));
        world.run(&["run", "--until-empty"]).failed(2, &["postrider.toml:2", said]);
    }
    world.write(
        "postrider.toml",
        "[[sink]]\nname = \"a\"\nurl = \"file://x\"\n[sink.properties]\nrotate_byte = \"1MiB\"\n",
    );
    world.run(&["run", "--until-empty"]).failed(2, &["\"rotate_byte\"", "\"rotate_bytes\""]);
    world.write("postrider.toml", "[outbox]\nurl = \"shop.db\"\n");
    world.run(&["status"]).failed(2, &["shop.db", "sqlite://"]);
}

/// A file that Postrider did not write is refused by `check` and by the relay, and stays as it is.
#[test]
fn a_file_of_somebody_else_is_no_sink() {
    let world = World::with_config("[[sink]]\nurl = \"file://notes.txt\"\n[breaker]\nopen = \"100ms\"\n");
    world.append("shop.order.created.v1", "1", "{}");
    for content in ["buy milk\nand bread", "buy milk\n"] {
        world.write("notes.txt", content);
        let said = ["notes.txt", "is not a file of events", "Name another file"];
        world.run(&["check"]).failed(4, &said);
        world.run(&["run", "--until-empty", "--timeout", "300ms"]).failed(4, &said);
        assert_eq!(world.read("notes.txt"), content);
    }
}

/// Events written into the outbox's own files would destroy it.
#[test]
fn the_outbox_is_no_sink() {
    let world = World::with_config("");
    world.append("shop.order.created.v1", "1", "{}");
    std::fs::hard_link(world.path("postrider.db"), world.path("other.jsonl")).unwrap();
    std::os::unix::fs::symlink("postrider.db", world.path("link.jsonl")).unwrap();
    let absolute = world.path("postrider.db").display().to_string();
    let before = std::fs::read(&absolute).unwrap();
    let names = [
        "postrider.db",
        "./postrider.db",
        &absolute,
        "postrider.db-wal",
        "postrider.db-shm",
        "other.jsonl",
        "link.jsonl",
    ];
    for name in names {
        world.write("postrider.toml", &format!("[[sink]]\nname = \"a\"\nurl = \"file://{name}\"\n"));
        for command in [&["run", "--until-empty"][..], &["check"]] {
            let said = ["postrider.toml:2", "the outbox's own database", "Name another file"];
            world.run(command).failed(2, &said);
        }
    }
    assert!(std::fs::read(&absolute).unwrap() == before, "left as it was");
}

/// F5: a value of the wrong kind names its key and its line.
#[test]
fn a_config_value_of_the_wrong_kind() {
    let world = World::new();
    for (text, line, key) in [
        ("[relay]\nbatch_entries = \"many\"\n", "postrider.toml:2", "batch_entries"),
        ("[relay]\npoll = { busy = [], idle = \"20ms\" }\n", "postrider.toml:2", "busy"),
        ("[outbox]\n\nlayout = 3\n", "postrider.toml:3", "layout"),
        ("[retry]\nretries_max = true\n", "postrider.toml:2", "retries_max"),
    ] {
        world.write("postrider.toml", text);
        world.run(&["check"]).failed(2, &[line, key]);
    }
}

/// A database that another keeps locked is not mended by `migrate`.
#[test]
fn an_append_to_a_locked_database_says_what_to_do() {
    let world = World::with_config("");
    let database = world.database("postrider.db");
    database.execute_batch("begin immediate").unwrap();
    let did = world.run_with(APPEND, "{}");
    did.failed(3, &["postrider.db", "Try again", "locked"]);
    assert!(!did.stderr.contains("migrate"), "{}", did.stderr);
}

/// A broker that cannot be reached is exit code 4, and costs no event.
#[test]
fn a_sink_that_cannot_be_reached() {
    let world =
        World::with_config("[[sink]]\nurl = \"file://none/events.jsonl\"\n[breaker]\nopen = \"100ms\"\n");
    world.append("shop.order.created.v1", "1", "{}");
    world.run(&["check"]).failed(4, &["none"]);
    world.run(&["run", "--until-empty", "--timeout", "300ms"]).failed(
        4,
        &["sink \"file\"", "stayed away", "--timeout", "none/events.jsonl", "Create the directory"],
    );
    std::fs::create_dir(world.path("none")).unwrap();
    world.run(&["run", "--until-empty"]).ok();
    assert_eq!(world.read("none/events.jsonl").lines().count(), 1);
}

#[test]
fn bad_usage() {
    let world = World::with_config("");
    for verb in ["revive", "bury", "prune"] {
        world.run(&[verb]).failed(2, &["which entries", "--all"]);
        world.run(&[verb, "--all", "--dry-run"]).ok();
    }
    world.run(&["show", "404"]).failed(1, &["404", "postrider list"]);
    for args in [&["rnu"][..], &["run", "--util-empty"], &["list", "--older-than", "soon"], &["append"], &[]]
    {
        let did = world.run(args);
        assert_eq!(did.code, 2, "{args:?}: {}", did.stderr);
        assert!(!did.stderr.contains("panicked"), "{}", did.stderr);
    }
    assert!(world.run(&["statsu"]).stderr.contains("'status'"), "clap names the nearest");
}

/// F5: any bytes as a config end with code 2 and one paragraph, through the whole binary.
#[test]
fn bytes_that_are_no_config() {
    let world = World::new();
    let texts: &[&[u8]] =
        &[b"\0", b"[[[", b"outbox = 3", b"[outbox]\nurl = []", b"\"\"\"", b"[sink]\nurl=1", b"a=1e999"];
    for bytes in texts {
        std::fs::write(world.path("postrider.toml"), bytes).unwrap();
        finish(world.command(&["check"]), b"").failed(2, &["postrider.toml"]);
    }
}
