//! `check`: rights that are missing, each with the statement that grants it.

use postrider_core::Layout;
use postrider_postgres::{Weight, check};

use crate::world::{Found, LETTERS, WORDS, World, letters};

/// A role of the test's own: roles are the whole server's.
struct Role<'w> {
    world: &'w World,
    name: String,
}

impl<'w> Role<'w> {
    async fn new(world: &'w World) -> Self {
        let name = format!("r_{}", world.database.name());
        world.run(&format!("create role {name} login; revoke create on schema public from public")).await;
        Self { world, name }
    }

    async fn check(&self) -> Found {
        Found(check(&self.world.config_as(&self.name)).await)
    }

    /// Runs every GRANT that `check` names until none is left; says how many there were.
    async fn grant_all(&self) -> usize {
        let mut granted = 0;
        for _ in 0..5 {
            let found = self.check().await;
            let grants: Vec<&str> = found
                .0
                .iter()
                .filter(|finding| finding.weight == Weight::Fault)
                .map(|finding| finding.fault.remedy.as_str())
                .filter(|remedy| remedy.starts_with("grant "))
                .collect();
            if grants.is_empty() {
                assert_eq!(found.count(Weight::Fault), 0, "{found}");
                return granted;
            }
            granted += grants.len();
            self.world.run(&grants.join("\n")).await;
        }
        panic!("grants that do not help: {}", self.check().await);
    }

    async fn drop(self) {
        self.world.run(&format!("drop owned by {0}; drop role {0}", self.name)).await;
    }
}

/// F5: what `check` says is enough, and what a relay needs on a status table.
#[tokio::test]
async fn grants_for_a_status_table_are_named_one_by_one() {
    let world = World::new(
        letters("retries = \"tries\"", WORDS),
        &LETTERS.replace("default 'NEW'\n", "default 'NEW', tries int\n"),
    )
    .await;
    let role = Role::new(&world).await;
    let found = role.check().await;
    found.expect(
        Weight::Fault,
        &["may not select, update on \"letters\"", "grant select, update on \"letters\""],
    );
    let all = "select, insert, update, delete on \"postrider_entries\"";
    found.expect(Weight::Fault, &[&format!("may not {all}"), &format!("grant {all}")]);
    let lines = found.count(Weight::Fault);
    assert_eq!(lines, 12, "one for each table: {found}");
    assert_eq!(role.grant_all().await, lines, "and these are enough");
    postrider_postgres::open_store(&world.config_as(&role.name)).await.unwrap();
    world
        .run(&format!(
            "revoke update on letters from {0}; grant update (status) on letters to {0}",
            role.name
        ))
        .await;
    role.check()
        .await
        .expect(Weight::Fault, &["may not update (\"tries\") on \"letters\"", "grant update (\"tries\")"]);
    role.drop().await;
}

/// The same for a cursor: its sequence, and the schema.
#[tokio::test]
async fn grants_for_a_cursor_are_named_one_by_one() {
    let schema = Some(postrider_core::layout::Identifier::new("Mail").unwrap());
    let world =
        World::new(Layout { schema, ..Layout::built_in("native").unwrap() }, "create schema \"Mail\"").await;
    let role = Role::new(&world).await;
    let found = role.check().await;
    assert_eq!(found.0.len(), 1, "{found}");
    found.expect(Weight::Fault, &["may not use schema \"Mail\"", "grant usage on schema"]);
    assert!(role.grant_all().await > 10);
    let found = role.check().await;
    found.expect(Weight::Advice, &["may not delete", "kept for ever"]);
    found.expect(Weight::Advice, &["does not own the table"]);
    world.run(&format!("revoke select on sequence \"Mail\".outbox_id_seq from {}", role.name)).await;
    role.check().await.expect(Weight::Fault, &["sequence", "outbox_id_seq", "grant select on sequence"]);
    role.drop().await;
}

/// F5, B19: a team's own tables draw their ids from sequences, which takes a right of its own; without it no position is written.
#[tokio::test]
async fn grants_for_a_teams_side_tables_name_their_sequences() {
    let world = World::new(
        Layout::built_in("commerce").unwrap(),
        "create table outbox (id bigserial primary key, event_id varchar(36) not null unique, event_type varchar(100) not null,
             source varchar(100) not null, aggregate_type varchar(100) not null, aggregate_id varchar(255) not null,
             payload jsonb not null, created_at timestamptz not null default now());
         create table outbox_cursor (id bigserial primary key, last_processed_id bigint not null, created_at timestamptz default now());
         create table outbox_failed (id bigserial primary key, event_id varchar(36) not null, event_type varchar(100) not null,
             source varchar(100) not null, aggregate_type varchar(100) not null, aggregate_id varchar(255) not null,
             payload jsonb not null, retry_count int not null default 0, last_error text,
             failed_at timestamptz not null default now(), next_retry_at timestamptz)",
    )
    .await;
    let role = Role::new(&world).await;
    let found = role.check().await;
    for table in ["outbox_cursor", "outbox_failed"] {
        let grant = format!("grant usage on sequence public.{table}_id_seq");
        found.expect(Weight::Fault, &["may not draw ids", table, &grant]);
    }
    role.grant_all().await;
    let as_role = format!(
        "set role {}; insert into outbox_cursor (last_processed_id) values (0); reset role",
        role.name
    );
    world.run(&as_role).await;
    role.drop().await;
}

/// F6, F5: rows that a policy hides would never be published.
#[tokio::test]
async fn row_level_security_is_refused() {
    let world = World::native().await;
    let role = Role::new(&world).await;
    role.grant_all().await;
    world.run("alter table outbox enable row level security").await;
    let found = role.check().await;
    assert!(found.expect(Weight::Fault, &["row-level security"]).contains("bypassrls"), "{found}");
    assert_eq!(world.check().await.count(Weight::Fault), 0, "it does not apply to everybody");
    let refused = postrider_postgres::open_source(&world.config_as(&role.name)).await.err().unwrap();
    assert!(refused.to_string().contains("row-level security"), "{refused}");
    role.drop().await;
}
