//! `check`: columns that are not there, or cannot hold what they are mapped for.

use postrider_core::Layout;
use postrider_core::layout::Column;
use postrider_postgres::Weight;

use crate::world::{LETTERS, WORDS, World, letters};

/// F5: nothing is wrong with a table as Postrider or its layout has it.
#[tokio::test]
async fn a_table_that_fits_has_no_faults() {
    let world = World::native().await;
    let found = world.check().await;
    assert_eq!(found.count(Weight::Fault), 0, "{found}");
    found.expect(Weight::Note, &["in the order of their ids"]);
    let world = World::new(letters("", WORDS), LETTERS).await;
    let found = world.check().await;
    assert_eq!(found.count(Weight::Fault), 0, "{found}");
    found.expect_none(Weight::Advice, "index");
    assert!(found.0.is_sorted_by_key(|finding| finding.weight), "{found}");
}

/// F1, C1, D1, B19: the teams' own tables fit their layouts as they are.
#[tokio::test]
async fn the_teams_tables_fit_their_layouts() {
    let tables = [
        ("logistics", "create table outbox_events (
            id uuid primary key, aggregate_type varchar(50) not null, aggregate_id uuid not null,
            event_type varchar(100) not null, payload jsonb not null, occurred_at timestamptz default current_timestamp,
            status varchar(20) default 'PENDING', retry_count int default 0,
            next_attempt_at timestamptz default '1970-01-01 00:00:00', last_error text, processed_at timestamptz);
            create index idx_outbox_poll on outbox_events (status, next_attempt_at);
            create index on outbox_events (aggregate_type, aggregate_id)"),
        ("order-service", "create table outbox (
            id uuid primary key, aggregate_type varchar(255) not null, aggregate_id uuid not null,
            event_type varchar(255) not null, payload text not null, status varchar(50) not null,
            created_at timestamp not null, sent_at timestamp, error_message text);
            create index on outbox (status, created_at); create index on outbox (aggregate_id)"),
        ("commerce", "create table outbox (
            id bigserial primary key, event_id varchar(36) not null unique, event_type varchar(100) not null,
            source varchar(100) not null, aggregate_type varchar(100) not null, aggregate_id varchar(255) not null,
            payload jsonb not null, created_at timestamptz not null default now());
            create table outbox_cursor (id bigserial primary key, last_processed_id bigint not null, created_at timestamptz not null default now());
            create table outbox_failed (
            id bigserial primary key, event_id varchar(36) not null, event_type varchar(100) not null, source varchar(100) not null,
            aggregate_type varchar(100) not null, aggregate_id varchar(255) not null, payload jsonb not null,
            retry_count int not null default 0, last_error text, failed_at timestamptz not null default now(), next_retry_at timestamptz)"),
        ("debezium", "create table outbox (
            id uuid primary key, aggregatetype varchar(255) not null, aggregateid varchar(255) not null,
            type varchar(255) not null, payload jsonb)"),
    ];
    for (name, sql) in tables {
        let world = World::new(Layout::built_in(name).unwrap(), sql).await;
        let found = world.check().await;
        assert_eq!(found.count(Weight::Fault), 0, "{name}: {found}");
        let holds = match name {
            "logistics" => {
                Some("\"outbox_events\" (\"status\", \"next_attempt_at\", \"occurred_at\", \"id\");")
            }
            "order-service" => Some("\"outbox\" (\"status\", \"created_at\", \"id\");"),
            _ => None,
        };
        if let Some(holds) = holds {
            let create = found.expect(Weight::Advice, &["no index has the open rows in the whole order"]);
            assert!(create.starts_with("create index concurrently") && create.ends_with(holds), "{create}");
            world.run(create).await;
        }
        let found = world.check().await;
        found.expect_none(Weight::Advice, "index");
        let order = if name == "commerce" { "in the order of their ids" } else { "order = \"none\"" };
        found.expect(Weight::Note, &[order]);
    }
}

/// F2: what has no ids that count has best effort, and is told so.
#[tokio::test]
async fn what_order_there_is_is_told() {
    let table = LETTERS.replace("bigint generated always as identity", "uuid default gen_random_uuid()");
    let world = World::new(letters("", WORDS), &table).await;
    let found = world.check().await;
    assert!(found.expect(Weight::Note, &["(time, id), best effort"]).contains("identity"), "{found}");
    let unordered = Layout { order: postrider_core::layout::Order::None, ..world.layout.clone() };
    let found = World { layout: unordered, ..world }.check().await;
    let remedy = found.expect(Weight::Note, &["order = \"none\"", "(time, id), best effort"]);
    assert!(remedy.contains("the log") && remedy.contains("generated always as identity"), "{remedy}");
}

/// B10: rows that were imported with ids above the sequence make what follows late: it is told with the statement that helps.
#[tokio::test]
async fn ids_above_the_sequence_are_told() {
    let world = World::native().await;
    world.run("insert into outbox (type, aggregate_type, aggregate_id) values ('a.b.c.v1', 'A', '1')").await;
    world.check().await.expect_none(Weight::Advice, "sequence");
    world
        .run("insert into outbox (id, type, aggregate_type, aggregate_id) values (900, 'a.b.c.v1', 'A', '1')")
        .await;
    let found = world.check().await;
    let remedy = found.expect(Weight::Advice, &["id 900", "is at 1", "late"]).to_owned();
    world.run(remedy.split_once("them: ").unwrap().1).await;
    world.check().await.expect_none(Weight::Advice, "sequence");
}

/// F5: every column that is missing is named, with the nearest that is there.
#[tokio::test]
async fn every_missing_column_is_named() {
    let table = LETTERS.replace("subject text", "subjekt text").replace("written_at", "created");
    let world = World::new(letters("error = \"why\"", WORDS), &table).await;
    let found = world.check().await;
    assert_eq!(found.count(Weight::Fault), 3, "{found}");
    assert!(found.expect(Weight::Fault, &["columns.aggregate_id", "\"subject\""]).contains("\"subjekt\""));
    found.expect(Weight::Fault, &["columns.time", "\"written_at\""]);
    found.expect(Weight::Fault, &["columns.error", "\"why\""]);
}

/// F5: types that cannot work are named, each.
#[tokio::test]
async fn types_that_cannot_work_are_named() {
    let more = "retries = \"tries\"\nnot_before = \"due\"\nerror = \"why\"\npublished_at = { column = \"sent_at\", as = \"unix_ms\" }\nversion = \"bumped\"\nlease_owner = \"owner\"\nleased_at = \"since\"";
    let table = "create table letters (
        id float8 not null, kind bytea not null default 'k', subject text default 'x', payload uuid, written_at boolean,
        status varchar(20) default 'NEW', tries text, due bigint, why jsonb, sent_at int, bumped numeric,
        owner varchar(10) not null default '', since date)";
    let world = World::new(letters(more, WORDS), table).await;
    let found = world.check().await;
    for words in [
        &["columns.id", "double precision", "no row can be found"][..],
        &["columns.id", "neither the primary key nor unique"],
        &["columns.type", "bytea"],
        &["columns.payload", "uuid"],
        &["columns.time", "boolean", "no time"],
        &["columns.retries", "text", "an integer is expected"],
        &["columns.error", "jsonb"],
        &["columns.published_at", "integer", "too small"],
        &["columns.version", "numeric"],
        &["columns.lease_owner", "takes no NULL"],
    ] {
        found.expect(Weight::Fault, words);
    }
    assert!(
        found.expect(Weight::Fault, &["columns.not_before", "what the number counts"]).contains("unix_ms")
    );
    found.expect(Weight::Advice, &["columns.lease_owner", "10 characters"]);
}

/// F5: what is too narrow is told; a day is no time to retry at.
#[tokio::test]
async fn what_is_too_narrow_is_told() {
    let table = LETTERS.replace("default 'NEW'\n", "default 'NEW', why varchar(100), due date\n");
    let world = World::new(letters("error = \"why\"\nnot_before = \"due\"", WORDS), &table).await;
    let found = world.check().await;
    assert_eq!(found.count(Weight::Fault), 0, "{found}");
    assert!(found.expect(Weight::Advice, &["columns.error", "100 characters"]).contains("varchar(500)"));
    found.expect(Weight::Advice, &["columns.not_before", "days only"]);
}

/// F5: constants that are empty, and placeholders that nothing fills.
#[tokio::test]
async fn what_would_be_empty_is_told() {
    let mut layout = letters("", WORDS);
    layout.columns.source = Some(Column::Constant(" ".into()));
    layout.columns.content_type = Some(Column::Constant(String::new()));
    layout.columns.aggregate_type = None;
    layout.columns.aggregate_id = None;
    layout.topic = "{aggregate_type}-events".into();
    let world = World::new(layout, LETTERS).await;
    let found = world.check().await;
    found.expect(Weight::Fault, &["columns.source", "empty constant"]);
    found.expect(Weight::Advice, &["columns.content_type", "empty constant"]);
    found.expect(Weight::Fault, &["{aggregate_type}-events", "columns.aggregate_type is not mapped"]);
    found.expect(Weight::Advice, &["no entry has a key"]);
}

/// Claims without an index that fits them, and indexes that each claim pays for.
#[tokio::test]
async fn indexes_that_are_missing_or_harmful_are_told() {
    let table = LETTERS.replace("create index letters_open on letters (status, id);", "");
    let world = World::new(letters("", WORDS), &table).await;
    let remedy = world.check().await.expect(Weight::Advice, &["no index begins with"]).to_owned();
    world.run(&remedy).await;
    world.check().await.expect_none(Weight::Advice, "index");
    world.run("drop index letters_open; create index on letters (status, subject)").await;
    let found = world.check().await;
    let remedy = found.expect(Weight::Advice, &["sorts all of them"]).to_owned();
    world.run(&remedy).await;
    world.check().await.expect_none(Weight::Advice, "index");
    world.run("drop index letters_open; create index on letters (id) where status = 'NEW'").await;
    world.check().await.expect_none(Weight::Advice, "index");
    world.run("create index on letters (kind); create index on letters (subject); alter table letters add since timestamptz; create index on letters (since)").await;
    world.check().await.expect(Weight::Advice, &["the table has 6 indexes"]);
    let leased = World { layout: letters("leased_at = \"since\"", WORDS), database: world.database };
    leased.check().await.expect(Weight::Advice, &["\"since\"", "every claim writes"]);
}

/// B19: the team's own tables beside the outbox.
#[tokio::test]
async fn a_teams_side_tables_are_compared_too() {
    let world = World::new(
        Layout::built_in("commerce").unwrap(),
        "create table outbox (id bigserial primary key, event_id text not null, event_type text not null, source text not null,
         aggregate_type text not null, aggregate_id text not null, payload jsonb not null, created_at timestamptz not null default now());
         create table outbox_failed (id text primary key, event_id text, event_type text, source text, aggregate_type text, aggregate_id text,
         payload jsonb, retries int, last_error text, failed_at timestamptz, next_retry_at text)",
    )
    .await;
    let found = world.check().await;
    found.expect(Weight::Fault, &["[position.table]", "\"outbox_cursor\"", "no such table"]);
    found.expect(Weight::Fault, &["[retry.table]", "\"retry_count\""]);
    found.expect(Weight::Fault, &["[retry.table]", "id to \"id\" of type text"]);
    found.expect(Weight::Fault, &["[retry.table]", "not_before", "a time is expected"]);
}
