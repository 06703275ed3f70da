//! F6: secrets are used, and never shown again.

use crate::world::{World, finish};

const SECRET: &str = "hunter2-swordfish";

#[test]
fn a_secret_from_the_environment_is_never_printed() {
    let world = World::new();
    world.write(
        "postrider.toml",
        "[outbox]\nurl = \"sqlite://${DB_SECRET}.db\"\n[[sink]]\nurl = \"file://${DB_SECRET}.jsonl\"\n",
    );
    let run = |args: &[&str], stdin: &str| {
        let mut command = world.command(args);
        command.env("DB_SECRET", SECRET).env("RUST_LOG", "trace");
        let did = finish(command, stdin.as_bytes());
        for text in [&did.stdout, &did.stderr] {
            assert!(!text.contains(SECRET), "{args:?}: {text}");
        }
        did
    };
    run(&["status"], "").failed(3, &["${DB_SECRET}.db"]);
    run(&["migrate"], "").ok();
    let append =
        ["append", "--type", "shop.order.created.v1", "--aggregate-type", "Order", "--aggregate-id", "1"];
    run(&append, "{\"password\": \"in the payload\"}").ok();
    run(&["check"], "").ok();
    let relayed = run(&["run", "--until-empty", "-vv"], "");
    assert!(!relayed.stderr.contains("in the payload"), "{}", relayed.stderr);
    relayed.ok();
    assert!(run(&["status"], "").ok().contains("sqlite://${DB_SECRET}.db"));
    run(&["status", "--json"], "").ok();
    assert_eq!(world.read(&format!("{SECRET}.jsonl")).lines().count(), 1, "it was used");
}

#[test]
fn a_secret_from_a_file_is_never_printed() {
    let world = World::new();
    let file = world.path("secret");
    std::fs::write(&file, format!("sqlite://{SECRET}.db\n")).unwrap();
    world.write("postrider.toml", &format!("[outbox]\nurl = \"file:{}\"\n", file.display()));
    world.run(&["migrate"]).ok();
    assert!(world.path(&format!("{SECRET}.db")).exists());
    let status = world.run(&["status"]).ok();
    assert!(!status.contains(SECRET) && status.contains("file:/"), "{status}");
    std::fs::remove_file(&file).unwrap();
    world.run(&["status"]).failed(2, &["postrider.toml:2", "cannot be read", "${file:/path}"]);
}

#[test]
fn a_password_in_a_url_is_masked_in_every_error() {
    let world = World::new();
    for config in [
        format!("[outbox]\nurl = \"postgres://app:{SECRET}@db:port/shop\"\n"),
        format!("[outbox]\nurl = \"postgres://app:{SECRET}@db/shop?sslmode=sometimes\"\n"),
        format!("outbox = \"postgres://app:{SECRET}@db/shop\"\n"),
        format!("[[sink]]\nname = \"a\"\nurl = \"kafka://app:{SECRET}@broker:9092\"\n"),
        format!("[[sink]]\nname = \"a\"\nurl = \"pigeon://app:{SECRET}@broker?password={SECRET}\"\n"),
        format!("[outbox]\nurl = \"mysql://app:{SECRET}@db/shop\n"),
    ] {
        world.write("postrider.toml", &config);
        let did = world.run(&["run"]);
        did.failed(2, &["postrider.toml"]);
        assert!(!did.stderr.contains(SECRET), "{}", did.stderr);
    }
}
