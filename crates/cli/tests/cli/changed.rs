//! A table that changes while a relay runs, and rights that go: a clear error, the relay stays, nothing is lost.

use postrider_servers::Database;
use rustix::process::Signal;

use crate::adoption::{LOGISTICS, ORDER_SERVICE};
use crate::wait::until;
use crate::world::{Process, World};

/// A running relay on a table of one of the ways.
struct Stage {
    world: World,
    database: Database,
    relay: Process,
    table: &'static str,
    /// What an INSERT gives beside the payload.
    given: (&'static str, &'static str),
}

/// The layout's name, its tables, and what an INSERT gives beside the payload, of each way.
pub(crate) const WAYS: [(&str, &str, &str, (&str, &str)); 3] = [
    ("native", "", "outbox", ("type, aggregate_type, aggregate_id", "'shop.order.sent.v1', 'Order', '7'")),
    (
        "order-service",
        ORDER_SERVICE,
        "outbox",
        (
            "id, event_type, aggregate_type, aggregate_id, created_at",
            "gen_random_uuid(), 'Sent', 'Order', gen_random_uuid(), now()",
        ),
    ),
    (
        "logistics",
        LOGISTICS,
        "outbox_events",
        (
            "id, event_type, aggregate_type, aggregate_id, occurred_at",
            "gen_random_uuid(), 'Sent', 'Order', gen_random_uuid(), now()",
        ),
    ),
];

impl Stage {
    /// As a user of the test's own, who may do what a relay needs.
    fn new((layout, tables, table, given): (&str, &str, &'static str, (&'static str, &'static str))) -> Self {
        let (world, database) = (World::new(), Database::create_blocking());
        database.query(tables);
        let config = |url: &str| {
            format!(
                "[outbox]\nurl = \"{url}\"\nlayout = \"{layout}\"\n[relay]\npoll = \"20ms\"\n[[sink]]\nurl = \"file://events.jsonl\"\n"
            )
        };
        world.write("postrider.toml", &config(&database.url()));
        world.run(&["migrate"]).ok();
        let role = role(&database);
        database.query(&format!(
            "create role {role} login; grant usage on schema public to {role}; \
             grant select, insert, update, delete on all tables in schema public to {role}; \
             grant usage, select on all sequences in schema public to {role}"
        ));
        world.write("postrider.toml", &config(&url_as(&database, &role)));
        let relay = world.start("relay", &["run"], &[]);
        Self { world, database, relay, table, given }
    }

    /// An event, by plain SQL, with the payload in a column of this name.
    fn insert(&self, payload: &str, number: usize) {
        let (table, (names, values)) = (self.table, self.given);
        self.database.query(&format!(
            "insert into {table} ({names}, {payload}) values ({values}, '{{\"n\":{number}}}')"
        ));
    }

    fn arrives(&self, number: usize) {
        until(&format!("event {number}"), || {
            self.world.read("events.jsonl").lines().any(|line| {
                line.contains(&format!("\"n\":{number}}}")) || line.contains(&format!("\"n\": {number}}}"))
            })
        });
    }

    /// Waits until the relay has named the trouble.
    fn says(&mut self, parts: &[&str]) {
        let tells = |line: &str| line.contains("ERROR") && parts.iter().all(|part| line.contains(part));
        self.relay.wait_until(&format!("{parts:?}"), |said| said.lines().any(tells));
    }

    fn end(mut self, numbers: usize) {
        self.relay.signal(Signal::TERM);
        assert!(self.relay.wait().success(), "{}", self.relay.said());
        let came = self.world.read("events.jsonl");
        assert_eq!(came.lines().count(), numbers, "each once: {came}");
        let role = role(&self.database);
        self.database.query(&format!("drop owned by {role}; drop role {role}"));
    }
}

fn role(database: &Database) -> String {
    format!("r_{}", database.name())
}

/// The same URL, as another user. The server of the tests trusts whoever is on this machine.
fn url_as(database: &Database, role: &str) -> String {
    let url = database.url();
    let (_, rest) = url.trim_start_matches("postgres://").split_once('@').unwrap();
    format!("postgres://{role}@{rest}")
}

/// Issue 4, F5: in each way, a column that is renamed while a relay runs is named with its remedy; once it is back the relay
/// goes on, and nothing is lost or doubled.
#[test]
fn a_column_that_goes_and_comes_back() {
    for way in WAYS {
        let mut stage = Stage::new(way);
        stage.insert("payload", 1);
        stage.arrives(1);
        stage.database.query(&format!("alter table {} rename payload to payload_2", stage.table));
        stage.insert("payload_2", 2);
        stage.says(&[
            "\"payload\"",
            "columns.payload in the layout, or add the column",
            "payload_2\": is it that?",
        ]);
        stage.database.query(&format!("alter table {} rename payload_2 to payload", stage.table));
        stage.arrives(2);
        stage.relay.wait_until("what was mended", |said| {
            said.lines().any(|line| {
                line.contains("the outbox can be used again")
                    && line.contains("maps columns that the table does not have")
                    && line.contains("payload")
            })
        });
        // Another type than the statements were made for.
        stage.database.query(&format!(
            "alter table {0} drop payload; alter table {0} add payload json not null default '{{\"n\":0}}'",
            stage.table
        ));
        stage.insert("payload", 3);
        stage.arrives(3);
        stage.end(3);
    }
}

/// The same for a table that is away, and for a right that is taken away: the GRANT is named.
#[test]
fn a_table_or_a_right_that_goes_and_comes_back() {
    for way in WAYS {
        let mut stage = Stage::new(way);
        let (table, role) = (stage.table, role(&stage.database));
        stage.insert("payload", 1);
        stage.arrives(1);
        stage.database.query(&format!("alter table {table} rename to elsewhere"));
        stage.says(&["there is no such table"]);
        stage.database.query(&format!("alter table elsewhere rename to {table}"));
        stage.insert("payload", 2);
        stage.arrives(2);
        stage.database.query(&format!("revoke select on {table} from {role}"));
        stage.insert("payload", 3);
        stage.says(&["may not select", &format!("grant select on \"{table}\" to \"{role}\";")]);
        stage.database.query(&format!("grant select on {table} to {role}"));
        stage.arrives(3);
        stage.end(3);
    }
}

/// F5: a right that is missing at the start is refused before anything runs, with all the GRANTs that help; whoever waits for
/// the end of the work is told at once when one goes meanwhile.
#[test]
fn a_right_that_is_missing_at_the_start() {
    for way in WAYS {
        let stage = Stage::new(way);
        let (table, role) = (stage.table, role(&stage.database));
        stage.insert("payload", 1);
        stage.arrives(1);
        stage.database.query(&format!(
            "revoke select on {table} from {role}; revoke update on postrider_leases from {role}"
        ));
        for args in [&["run"][..], &["run", "--until-empty"]] {
            let did = stage.world.run(args);
            did.failed(
                2,
                &[
                    &format!("grant select on \"{table}\" to \"{role}\";"),
                    &format!("grant update on \"postrider_leases\" to \"{role}\";"),
                ],
            );
            assert!(
                did.stderr.trim_end().ends_with(';'),
                "a statement can be copied as it stands: {}",
                did.stderr
            );
        }
        stage
            .database
            .query(&format!("grant select on {table} to {role}; grant update on postrider_leases to {role}"));
        stage.end(1);
    }
}
