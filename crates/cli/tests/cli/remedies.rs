//! What a person is told, and that it helps (F5): each remedy is the one to run, and no two commands send one in a circle.

use postrider_servers::{Database, query};

use crate::world::World;

/// A role of the test's own, and the configuration of whoever is it.
struct Person {
    world: World,
    database: Database,
    role: String,
}

impl Person {
    fn new(more: &str) -> Self {
        let (world, database) = (World::new(), Database::create_blocking());
        let role = format!("r_{}", database.name());
        database.query(&format!("create role {role} login; revoke all on schema public from public"));
        let person = Self { world, database, role };
        person.write(&person.role, more);
        person
    }

    /// The server of the tests trusts whoever is on this machine.
    fn write(&self, user: &str, more: &str) {
        let url = self.database.url();
        let (login, rest) = url.trim_start_matches("postgres://").split_once('@').unwrap();
        let user = if user.is_empty() { login } else { user };
        self.world.write(
            "postrider.toml",
            &format!("[outbox]\nurl = \"postgres://{user}@{rest}\"\n{more}[[sink]]\nurl = \"file://events.jsonl\"\n"),
        );
    }

    /// Runs the GRANT that a command names at its end.
    fn grant(&self, said: &str) {
        let at = said.rfind("grant ").unwrap_or_else(|| panic!("no grant in: {said}"));
        let end = said[at..].find(';').map_or(said.len(), |end| at + end);
        self.database.query(&said[at..end]);
    }
}

impl Drop for Person {
    fn drop(&mut self) {
        let _ = query(&self.database.url(), &format!("drop owned by {0}; drop role {0}", self.role));
    }
}

/// F5: whoever may not look into the schema is told that, with the GRANT, and not that there is no such table.
#[test]
fn a_schema_that_may_not_be_used_is_named_with_its_grant() {
    for schema in ["", "schema = \"public\"\n"] {
        let person = Person::new(schema);
        person.write("", schema);
        person.world.run(&["migrate"]).ok();
        person.write(&person.role, schema);
        person.world.run(&["migrate"]).failed(2, &["grant usage"]);
        for command in [&["run", "--until-empty"][..], &["status"], &["prune", "--older-than", "0s"]] {
            let did = person.world.run(command);
            did.failed(2, &["may not use schema \"public\"", "grant usage on schema \"public\" to"]);
        }
        let checked = person.world.run(&["check"]);
        checked.failed(5, &["may not use schema \"public\""]);
        person.grant(&checked.stderr);
        let checked = person.world.run(&["check"]);
        assert!(!checked.stderr.contains("may not use"), "{}", checked.stderr);
    }
}

/// F5: one GRANT for each table, and these are enough.
#[test]
fn missing_rights_are_one_line_for_each_table() {
    let person = Person::new("");
    person.write("", "");
    person.world.run(&["migrate"]).ok();
    person.write(&person.role, "");
    person.database.query(&format!("grant usage on schema public to {}", person.role));
    let checked = person.world.run(&["check"]);
    assert_eq!(checked.code, 5, "{}", checked.stderr);
    let lines: Vec<&str> = checked.stderr.lines().filter(|line| line.contains("grant ")).collect();
    assert!(lines.len() <= 13, "{} lines: {}", lines.len(), checked.stderr);
    lines.iter().for_each(|line| person.grant(line));
    person.world.run(&["check"]).ok();
    person.world.run(&["run", "--until-empty"]).ok();
    person.database.query(
        "insert into outbox (type, aggregate_type, aggregate_id, payload, time) select 'a.b.c.v1', 'A', '1', '{}', 0",
    );
    person.world.run(&["run", "--until-empty"]).ok();
    let pruned = person.world.run(&["prune", "--older-than", "0s"]);
    pruned.failed(1, &["may not delete from \"outbox\"", "grant delete on \"outbox\" to"]);
    person.grant(&pruned.stderr);
    person.world.run(&["prune", "--older-than", "0s"]).ok();
}

/// F5: a schema that is not there, and one where nothing may be created, are what `migrate` says, not `check`'s to find.
#[test]
fn a_schema_that_is_not_there_sends_nobody_in_a_circle() {
    let person = Person::new("schema = \"Mail\"\n");
    for (command, code) in
        [(&["migrate"][..], 2), (&["check"], 5), (&["run"], 2), (&["prune", "--older-than", "0s"], 2)]
    {
        let did = person.world.run(command);
        did.failed(code, &["there is no schema \"Mail\"", "create schema \"Mail\" authorization"]);
        assert!(
            !did.stderr.contains("postrider check") && !did.stderr.contains("postrider migrate"),
            "{}",
            did.stderr
        );
    }
    person
        .database
        .query(&format!("create schema \"Mail\"; grant usage on schema \"Mail\" to {}", person.role));
    let refused = person.world.run(&["migrate"]);
    refused.failed(2, &["may not create", "grant usage, create on schema \"Mail\" to"]);
    person.grant(&refused.stderr);
    person.world.run(&["migrate"]).ok();
    person.world.run(&["check"]).ok();
    // A table that is in another schema than the connection looks in.
    person.database.query("create table \"Mail\".outbox_events (id int)");
    person.write("", "layout = \"logistics\"\n");
    person.world.run(&["check"]).failed(5, &["Schema \"Mail\" has one: write schema = \"Mail\""]);
}

/// F5: a payload over the limit says which setting to raise.
#[test]
fn a_payload_over_the_limit_says_what_to_do() {
    let world = World::with_config(
        "[outbox]\npayload_bytes_max = \"100B\"\n[[sink]]\nurl = \"file://events.jsonl\"\n",
    );
    world.database("postrider.db").execute_batch(&format!(
        "insert into outbox (type, aggregate_type, aggregate_id, payload, time) values ('a.b.c.v1', 'A', '1', '{{\"x\":\"{}\"}}', 0)",
        "y".repeat(200)
    )).unwrap();
    world.run(&["run", "--until-empty"]).ok();
    let dead = world.run(&["list", "--state", "dead", "--json"]).ok();
    assert!(dead.contains("raise payload_bytes_max in [outbox] and revive the entry"), "{dead}");
}
