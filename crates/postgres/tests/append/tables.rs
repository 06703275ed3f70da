//! Tables as teams have them: whatever a column's type is, each driver writes into it, and so does the function (F1, F9).

use postrider_core::layout::Zone;
use postrider_core::{EntryId, Layout};

use crate::world::{Driver, End, World, id, plain};

/// Appends with every driver and through the function, and expects the same row of all of them.
async fn all_write(world: &World, row: &str, expected: impl Fn(u32) -> String) {
    let table = match &world.layout.schema {
        Some(schema) => format!("{}.{}", schema.quoted(), world.layout.table.quoted()),
        None => world.layout.table.quoted(),
    };
    let stored = || world.texts(&format!("select {row} from {table} order by 1"));
    for driver in Driver::ALL {
        let appended = world.append(driver, &[plain(1), plain(2), plain(3)], End::Commit).await;
        let once = world.append_once(driver, &plain(4), &format!("{driver:?}")).await;
        assert_eq!((appended.len(), once.repeated), (3, false));
        assert_eq!(stored(), (1..=4).map(&expected).collect::<Vec<_>>(), "{driver:?}");
        world.database.query(&format!("delete from {table}"));
    }
}

/// D1, F9: UUIDs, JSONB, a time with zone; the event's id is the row's; a due time that takes no NULL is now.
#[tokio::test]
async fn the_table_of_logistics() {
    let tables = "create table outbox_events (id uuid primary key, aggregate_type varchar(50) not null, aggregate_id uuid not null, \
        event_type varchar(100) not null, payload jsonb not null, occurred_at timestamptz not null, status varchar(20) not null, \
        retry_count int not null, next_attempt_at timestamptz not null, last_error text, processed_at timestamptz)";
    let world = World::of(Layout::built_in("logistics").unwrap(), tables).await;
    world.migrate().await;
    let row = "concat_ws('|', id, aggregate_type, aggregate_id, event_type, payload->>'says', occurred_at at time zone 'UTC', status, \
        retry_count, next_attempt_at <= now(), last_error)";
    all_write(&world, row, |n| {
        format!(
            "{}|Order|018f3b0c-7d4e-7abc-8def-00000000000a|loopers.order.created.v1|\"naïve\" \\ and {{braces}}, 'quotes'|\
             2026-01-02 03:04:05.678901|PENDING|0|t",
            id(n)
        )
    })
    .await;
    let appended = world.append(Driver::TokioPostgres, &[plain(7)], End::Commit).await;
    assert_eq!(appended[0].id, EntryId::Text(id(7)));
    assert_eq!(appended[0].event_id, id(7));
}

/// C1, F9: text payloads, a time without zone in the layout's, a status of an enum type.
#[tokio::test]
async fn the_table_of_the_order_service() {
    let tables = "create type outbox_status as enum ('NEW', 'SENT', 'FAILED'); \
        create table outbox (id uuid primary key, aggregate_type text, aggregate_id uuid, event_type text, payload text, \
        status outbox_status not null, created_at timestamp not null, sent_at timestamp, error_message text)";
    let mut layout = Layout::built_in("order-service").unwrap();
    layout.zone = Zone::parse("+09:00").unwrap();
    let world = World::of(layout, tables).await;
    world.migrate().await;
    let row = "concat_ws('|', id, aggregate_id, status, created_at, payload)";
    all_write(&world, row, |n| {
        let payload = String::from_utf8(plain(n).data.to_vec()).unwrap();
        format!("{}|018f3b0c-7d4e-7abc-8def-00000000000a|NEW|2026-01-02 12:04:05.678901|{payload}", id(n))
    })
    .await;
}

/// F1, F9: another schema, mixed case and quotes in names, a counted id that is the event's, JSON, times as numbers, bytes.
#[tokio::test]
async fn a_table_with_names_and_types_of_its_own() {
    let layout = r#"
        name = "own"
        schema = "Shop"
        table = "Out\"box $body0$"
        way = "cursor"
        names = "free"
        payload = "bytes"
        [columns]
        id = "Id"
        type = "Type"
        aggregate_type = { constant = "Order" }
        aggregate_id = "the order"
        payload = "Payload"
        time = { column = "At", as = "unix_ms" }
        content_type = "content"
        extensions = "headers"
    "#;
    let tables = "create schema \"Shop\"; create table \"Shop\".\"Out\"\"box $body0$\" (\"Id\" bigint generated always as identity, \
        \"Type\" varchar(30), \"the order\" text, \"Payload\" bytea, \"At\" bigint, content text, headers jsonb not null default '{}')";
    let world = World::of(Layout::parse("own.toml", layout.as_bytes()).unwrap(), tables).await;
    world.migrate().await;
    for driver in Driver::ALL {
        let mut binary = plain(2);
        binary.content_type = Some("application/octet-stream".into());
        binary.data = vec![0, 255, b'\\', 7].into();
        binary.extensions = [("tenant".into(), "acme".into())].into();
        let appended = world.append(driver, &[plain(1), binary.clone(), plain(3)], End::Commit).await;
        let ids: Vec<i64> = appended.iter().map(|appended| appended.id.int().unwrap()).collect();
        assert!(ids.is_sorted());
        assert!(
            appended.iter().all(|appended| *appended.event_id == appended.id.to_string()),
            "the number is the event's id"
        );
        let stored = world.texts(
            "select concat_ws('|', \"Type\", \"the order\", encode(\"Payload\", 'hex'), \"At\", content, headers) \
             from \"Shop\".\"Out\"\"box $body0$\" order by \"Id\"",
        );
        let hex = |n| plain(n).data.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let row = |payload: &str, content: &str| {
            format!(
                "loopers.order.created.v1|018f3b0c-7d4e-7abc-8def-00000000000a|{payload}|1767323045678{content}"
            )
        };
        assert_eq!(
            stored,
            [
                row(&hex(1), "|{}"),
                row("00ff5c07", "|application/octet-stream|{\"tenant\": \"acme\"}"),
                row(&hex(3), "|{}")
            ],
            "{driver:?}"
        );
        // The function has no default to fall back on, but gives what the event has.
        let once = world.append_once(driver, &binary, &format!("{driver:?}")).await;
        assert_eq!(*once.event_id, once.id.to_string());
        let payload = "select encode(\"Payload\", 'hex') from \"Shop\".\"Out\"\"box $body0$\" order by \"Id\" desc limit 1";
        assert_eq!(world.value(payload), "00ff5c07");
        world.database.query("delete from \"Shop\".\"Out\"\"box $body0$\"");
    }
}

/// B19, F9: the team's own columns and lengths, the event's own time.
#[tokio::test]
async fn the_table_of_commerce() {
    let tables = "create table outbox (id bigserial primary key, event_id varchar(36) not null, event_type varchar(100) not null, \
        source varchar(100) not null, aggregate_type varchar(100) not null, aggregate_id varchar(255) not null, payload jsonb not null, \
        created_at timestamptz not null); \
        create table outbox_cursor (id bigserial primary key, last_processed_id bigint not null, created_at timestamptz not null); \
        create table outbox_failed (id bigserial primary key, event_id varchar(36), event_type varchar(100), source varchar(100), \
        aggregate_type varchar(100), aggregate_id varchar(255), payload jsonb, retry_count int, last_error text, failed_at timestamptz, \
        next_retry_at timestamptz)";
    let world = World::of(Layout::built_in("commerce").unwrap(), tables).await;
    world.migrate().await;
    let row = "concat_ws('|', event_id, event_type, source, aggregate_type, payload->>'n', created_at at time zone 'UTC')";
    all_write(&world, row, |n| {
        format!("{}|loopers.order.created.v1|/shop|Order|{n}|2026-01-02 03:04:05.678901", id(n))
    })
    .await;
}

/// F1, F9: Debezium's table has neither a time nor a status.
#[tokio::test]
async fn the_table_of_debezium() {
    let tables = "create table outbox (id uuid primary key, aggregatetype varchar(255) not null, aggregateid varchar(255) not null, \
        type varchar(255) not null, payload jsonb)";
    let world = World::of(Layout::built_in("debezium").unwrap(), tables).await;
    world.migrate().await;
    let row = "concat_ws('|', id, aggregatetype, aggregateid, type, payload->>'n')";
    all_write(&world, row, |n| {
        format!("{}|Order|018f3b0c-7d4e-7abc-8def-00000000000a|loopers.order.created.v1|{n}", id(n))
    })
    .await;
}

/// F1, F9: a serial id, the event's id in a short text column, an aggregate id that is a number, a real JSON column.
#[tokio::test]
async fn a_serial_table_with_a_column_for_the_events_id() {
    let layout = r#"
        name = "serial"
        table = "events"
        way = "cursor"
        names = "convention"
        [columns]
        id = "id"
        event_id = "event_id"
        type = "event_type"
        source = "source"
        aggregate_type = "aggregate_type"
        aggregate_id = "aggregate_id"
        payload = "payload"
        time = "created_at"
    "#;
    let tables = "create table events (id bigserial primary key, event_id varchar(36) not null unique, event_type varchar(100), \
        source varchar(100), aggregate_type varchar(100), aggregate_id bigint, payload json, created_at text)";
    let world = World::of(Layout::parse("serial.toml", layout.as_bytes()).unwrap(), tables).await;
    world.migrate().await;
    for driver in Driver::ALL {
        let events: Vec<_> =
            (1..=3).map(|n| postrider_core::Envelope { aggregate_id: "4711".into(), ..plain(n) }).collect();
        let appended = world.append(driver, &events, End::Commit).await;
        assert!(appended.iter().zip(1..).all(|(appended, n)| appended.event_id == id(n)));
        let once = world
            .append_once(driver, &postrider_core::Envelope { id: id(4), ..events[0].clone() }, "k")
            .await;
        assert_eq!(once.event_id, id(4));
        let stored = world.texts("select concat_ws('|', event_id, aggregate_id, payload->>'n', created_at) from events order by id");
        let row = |n: u32, payload: u32| format!("{}|4711|{payload}|2026-01-02 03:04:05.678901+00:00", id(n));
        assert_eq!(stored, [row(1, 1), row(2, 2), row(3, 3), row(4, 1)], "{driver:?}");
        world.database.query("truncate events, postrider_idempotency");
    }
}
