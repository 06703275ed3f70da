//! Tables as teams have them: whatever a column's type is, each driver writes into it, and so does the procedure (F1, F9).

use postrider_core::layout::Zone;
use postrider_core::rows::content_hash;
use postrider_core::{Envelope, Layout};

use crate::numbers::LEDGER;
use crate::world::{Driver, End, World, id, plain};

/// A13, as the team has it.
pub(crate) const DONATION: &str = "create table donation_outbox (
    id bigint auto_increment primary key, version bigint default 0, request_id varchar(50) not null unique,
    event_type varchar(50) not null, payload text not null, content_hash varchar(64) not null,
    status varchar(20) not null default 'PENDING', locked_by varchar(100), locked_at datetime, retry_count int default 0,
    max_retries int default 3, last_error varchar(500), next_retry_at datetime, created_at datetime, updated_at datetime,
    index idx_pending_poll (status, next_retry_at, id), index idx_locked (locked_by, locked_at));
    create table donation_dlq (id bigint auto_increment primary key, original_id bigint not null,
    request_id varchar(50) not null, event_type varchar(50) not null, payload text not null, reason varchar(500),
    created_at datetime, index idx_request_id (request_id))";

pub(crate) fn donated(request: &str) -> Envelope {
    Envelope {
        id: request.into(),
        event_type: "DONATION_COMPLETED".into(),
        aggregate_type: "Donation".into(),
        aggregate_id: request.into(),
        time: "2026-01-02T03:04:05Z".parse().unwrap(),
        ..plain(7)
    }
}

/// A4, A13: the writer computes the hash, by every driver and in the procedure alike; what the relay keeps begins empty.
#[tokio::test]
async fn the_table_of_donation() {
    for world in World::of(&Layout::built_in("donation").unwrap(), DONATION) {
        world.migrate().await;
        for driver in Driver::ALL {
            let appended =
                world.append(driver, &[donated("r-1"), donated("r-2"), donated("r-3")], End::Commit).await;
            let once = world.append_once(driver, &donated("r-4"), "r-4").await;
            assert!(
                appended.iter().chain([&once]).zip(1..).all(|(one, n)| *one.event_id == format!("r-{n}"))
            );
            let row = "select concat_ws('|', request_id, event_type, payload, content_hash, status, version, retry_count, \
                max_retries, created_at, coalesce(locked_by, locked_at, last_error, next_retry_at, 'empty')) \
                from donation_outbox order by id";
            let expected = |request: &str| {
                let payload = String::from_utf8(donated(request).data.to_vec()).unwrap();
                let hash = content_hash(request, "DONATION_COMPLETED", payload.as_bytes());
                format!(
                    "{request}|DONATION_COMPLETED|{payload}|{hash}|PENDING|0|0|3|2026-01-02 03:04:05|empty"
                )
            };
            assert_eq!(world.texts(row), ["r-1", "r-2", "r-3", "r-4"].map(expected), "{driver:?}");
            world.database.query("delete from donation_outbox; delete from postrider_idempotency");
        }
        // The procedure refuses what the library refuses.
        for (event, expected) in [
            (r#"{"type": "A", "id": "a|b", "payload": {}}"#, "has a |"),
            (r#"{"type": "A|B", "id": "r", "payload": {}}"#, "has a |"),
            (&format!(r#"{{"type": "A", "id": "{}", "payload": {{}}}}"#, "r".repeat(51)), "request_id"),
            (&format!(r#"{{"type": "{}", "id": "r", "payload": {{}}}}"#, "A".repeat(51)), "event_type"),
        ] {
            let said = world
                .database
                .try_query(&format!("set sql_mode = ''; call postrider_append_donation_outbox('{event}')"));
            let said = said.unwrap_err();
            assert!(said.contains(expected), "{expected}: {said}");
        }
    }
}

/// E3: the transaction's id is a number, the payload a JSON document, the row's id the event's.
#[tokio::test]
async fn the_table_of_ledger() {
    for world in World::of(&Layout::built_in("ledger").unwrap(), LEDGER) {
        world.migrate().await;
        let posted = |n: u32| Envelope {
            event_type: "LEDGER_POSTED".into(),
            aggregate_type: "TRANSACTION".into(),
            aggregate_id: n.to_string().into(),
            data: format!("{{\"accountId\": 3, \"n\": {n}}}").into(),
            ..plain(n)
        };
        for driver in Driver::ALL {
            let mut appended = world.append(driver, &[posted(1), posted(2), posted(3)], End::Commit).await;
            appended.push(world.append_once(driver, &posted(4), "k").await);
            assert!(
                appended.iter().all(|one| *one.event_id == one.id.to_string()),
                "the number is the event's id"
            );
            let row = "select concat_ws('|', id, aggregate_type, aggregate_id, event_type, json_extract(payload, '$.n'), status, \
                retry_count, created_at, coalesce(processed_at, 'empty')) from outbox_event order by id";
            let expected = appended.iter().zip(1..).map(|(one, n): (_, u32)| {
                format!(
                    "{}|TRANSACTION|{n}|LEDGER_POSTED|{n}|PENDING|0|2026-01-02 03:04:05.678901|empty",
                    one.id
                )
            });
            assert_eq!(world.texts(row), expected.collect::<Vec<_>>(), "{driver:?}");
            world.database.query("delete from outbox_event; delete from postrider_idempotency");
        }
        let mut conn = world.conn().await;
        let refused =
            world.outbox.append(&mut conn, &Envelope { aggregate_id: "tx-1".into(), ..posted(1) }).await;
        let said = refused.unwrap_err().to_string();
        assert!(said.contains("aggregate_id is no number"), "{said}");
    }
}

/// F1, F9: a database of its own, names that must be quoted, UUIDs as ids, bytes, moments, an enum, a due time that takes no
/// NULL, a zone.
#[tokio::test]
async fn a_table_with_names_and_types_of_its_own() {
    let layout = r#"
        name = "own"
        table = "Out`box ?"
        way = "lease"
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
        status = "Status"
        not_before = "due"
        [status]
        pending = "NEW"
        published = "SENT"
        dead = "FAILED"
    "#;
    let tables = "create table `Out``box ?` (`Id` char(36) character set ascii primary key, `Type` varchar(30), `the order` text, \
        `Payload` longblob, `At` bigint, content text, headers varchar(100) not null default '{}', `Status` enum ('NEW', 'SENT', 'FAILED') \
        not null, due timestamp(6) not null)";
    let mut layout = Layout::parse("own.toml", layout.as_bytes()).unwrap();
    layout.zone = Zone::parse("+09:00").unwrap();
    for world in World::of(&layout, tables) {
        world.migrate().await;
        for driver in Driver::ALL {
            let binary = |n: u32| Envelope {
                content_type: Some("application/octet-stream".into()),
                data: vec![0, 255, b'\\', 7].into(),
                extensions: [("tenant".into(), "acme".into())].into(),
                ..plain(n)
            };
            let mut appended = world.append(driver, &[plain(1), binary(2), plain(3)], End::Commit).await;
            appended.push(world.append_once(driver, &binary(4), "k").await);
            assert!(
                appended
                    .iter()
                    .zip(1..)
                    .all(|(one, n)| one.event_id == id(n) && *one.id.to_string() == *id(n))
            );
            let stored = world.texts(
                "select concat_ws('|', `Id`, `Type`, `the order`, lower(hex(`Payload`)), `At`, content, \
                 replace(headers, ' ', ''), `Status`, abs(timestampdiff(second, due, current_timestamp())) < 600) \
                 from `Out``box ?` order by `Id`",
            );
            let hex = |n| plain(n).data.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            let row = |n: u32, payload: &str, more: &str| {
                format!("{}|loopers.order.created.v1|4711|{payload}|1767323045678{more}|NEW|1", id(n))
            };
            let bytes = "|application/octet-stream|{\"tenant\":\"acme\"}";
            let expected = [
                row(1, &hex(1), "|{}"),
                row(2, "00ff5c07", bytes),
                row(3, &hex(3), "|{}"),
                row(4, "00ff5c07", bytes),
            ];
            assert_eq!(stored, expected, "{driver:?}");
            world.database.query("delete from `Out``box ?`; delete from postrider_idempotency");
        }
    }
}

/// F1, F9: a moment means the same whatever zone the session has; a date without a zone is in the layout's.
#[tokio::test]
async fn times_are_written_as_the_layout_says() {
    let mut layout = Layout::built_in("ledger").unwrap();
    layout.zone = Zone::parse("+09:00").unwrap();
    for (kind, shown) in [
        ("timestamp(6)", "2026-01-02 03:04:05.678901"),
        ("datetime(6)", "2026-01-02 12:04:05.678901"),
        ("varchar(40)", "2026-01-02 12:04:05.678901+09:00"),
    ] {
        let tables = LEDGER.replace("created_at datetime(6) not null", &format!("created_at {kind} null"));
        for world in World::of(&layout, &tables) {
            world.migrate().await;
            let event = Envelope { aggregate_id: "1".into(), ..plain(1) };
            let mut conn = world.conn().await;
            mysql_async::prelude::Queryable::query_drop(&mut conn, "set time_zone = '-07:00'").await.unwrap();
            world.outbox.append(&mut conn, &event).await.unwrap();
            world.outbox.append_once(&mut conn, &event, "k").await.unwrap();
            let stored = world.texts("set time_zone = '+00:00'; select created_at from outbox_event");
            assert_eq!(stored, [shown, shown], "{kind}");
        }
    }
}
