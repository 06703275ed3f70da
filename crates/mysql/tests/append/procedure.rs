//! The procedure that `migrate` installs, for every language that speaks SQL (F9).

use postrider_core::Layout;
use postrider_core::layout::Identifier;

use crate::world::World;

fn call(event: &str) -> String {
    format!("call postrider_append_outbox('{}')", event.replace('\\', "\\\\").replace('\'', "''"))
}

const ORDER: &str = r#""type": "loopers.order.created.v1", "aggregate_type": "Order", "aggregate_id": "7""#;

/// F9: the few members that are needed; the rest is filled in. It joins the transaction that is open.
#[tokio::test]
async fn an_event_is_appended_by_plain_sql() {
    for world in World::native().await {
        let one = call(&format!(r#"{{{ORDER}, "payload": "{{\"total\": 12.0}}"}}"#));
        world.database.query(&format!("begin; {one}; rollback"));
        assert_eq!(world.value("select count(*) from outbox"), "0");
        let told = world.database.query(&one).swap_remove(0);
        let [Some(entry), Some(event_id), Some(repeated)] = &told[..] else { panic!("{told:?}") };
        assert_eq!(repeated, "0");
        let row = "select concat_ws('|', id, event_id, type, source, aggregate_type, aggregate_id, `key`, content_type, payload) \
            from outbox where abs(timestampdiff(second, time, utc_timestamp())) < 600";
        let rest = "loopers.order.created.v1|/outbox|Order|7|{\"total\": 12.0}";
        assert_eq!(world.value(row), format!("{entry}|{event_id}|{rest}"));
        // A UUID of version 7.
        assert_eq!((event_id.len(), &event_id[14..15]), (36, "7"), "{event_id}");
        assert_eq!(event_id.matches('-').count(), 4, "{event_id}");
    }
}

/// F9: everything that the library writes can be said, whatever zone and mode the session has.
#[tokio::test]
async fn everything_can_be_said_by_plain_sql() {
    for world in World::native().await {
        let event = format!(
            r#"{{{ORDER}, "id": "e-1", "source": "/shop", "time": "2026-01-02T12:04:05.678901+09:00", "key": "customer-7",
            "content_type": "text/plain; charset=utf-8", "trace": "t", "trace_state": "s", "sequence": 11,
            "extensions": {{"tenant": "ac\"me"}}, "payload": "naïve 😀 \"quotes\" \\ 'and'"}}"#
        );
        world.database.query(&format!("set time_zone = '-05:00', sql_mode = ''; {}", call(&event)));
        let row = "select concat_ws('|', event_id, source, time, `key`, content_type, trace, trace_state, sequence, \
            json_unquote(json_extract(extensions, '$.tenant')), payload) from outbox";
        assert_eq!(
            world.value(row),
            "e-1|/shop|2026-01-02 03:04:05.678901|customer-7|text/plain; charset=utf-8|t|s|11|ac\"me|naïve 😀 \"quotes\" \\ 'and'"
        );
        let kept = format!(
            "set time_zone = '-05:00'; {}; select @@session.time_zone",
            call(&format!("{{{ORDER}}}"))
        );
        assert_eq!(world.texts(&kept).pop().as_deref(), Some("-05:00"), "the session stays as it was");
    }
}

/// F9: an array appends many in their order; all of them, or none.
#[tokio::test]
async fn many_events_are_one_call() {
    for world in World::native().await {
        let event = |n: u32| format!(r#"{{{ORDER}, "id": "e-{n}", "payload": {{"n": {n}}}}}"#);
        let events = (1..=300).map(event).collect::<Vec<_>>().join(", ");
        let told = world.database.query(&call(&format!("[{events}]")));
        let ids: Vec<_> = told.iter().map(|row| row[1].clone().unwrap()).collect();
        assert_eq!(ids, (1..=300).map(|n| format!("e-{n}")).collect::<Vec<_>>());
        assert_eq!(world.texts("select event_id from outbox order by id"), ids);
        assert!(world.database.query(&call("[]")).is_empty());
        let bad = call(&format!("[{}, {{\"type\": \"bad\"}}]", event(301)));
        world.database.try_query(&format!("begin; {bad}; commit")).unwrap_err();
        world.database.try_query(&bad).unwrap_err();
        assert_eq!(world.value("select count(*) from outbox"), "300");
    }
}

/// A2: a repetition writes nothing, says so, and tells the first one's ids; a rolled back one leaves no trace.
#[tokio::test]
async fn a_repetition_is_a_no_op_by_plain_sql() {
    for world in World::native().await {
        let once = call(&format!(r#"{{{ORDER}, "payload": {{}}, "idempotency_key": "r-1"}}"#));
        world.database.query(&format!("begin; {once}; rollback"));
        let first = world.database.query(&once).swap_remove(0);
        let second = world.database.query(&once).swap_remove(0);
        assert_eq!((&first[..2], first[2].as_deref()), (&second[..2], Some("0")));
        assert_eq!(second[2].as_deref(), Some("1"));
        assert_eq!(world.value("select count(*) from outbox"), "1");
    }
}

/// F5, B3: what the library refuses, the procedure refuses too, in its own words and without the payload.
#[tokio::test]
async fn bad_input_is_refused_by_plain_sql() {
    for world in World::native().await {
        for (event, expected) in [
            (
                r#"{"type": "OrderCreated", "aggregate_type": "Order", "aggregate_id": "7"}"#.to_owned(),
                "company.domain.action.v1",
            ),
            (
                r#"{"type": "a.b.c.v01", "aggregate_type": "Order", "aggregate_id": "7"}"#.to_owned(),
                "company.domain.action.v1",
            ),
            (
                r#"{"type": "A.b.c.v1", "aggregate_type": "Order", "aggregate_id": "7"}"#.to_owned(),
                "company.domain.action.v1",
            ),
            (
                r#"{"type": "a.b.c.v4294967296", "aggregate_type": "Order", "aggregate_id": "7"}"#.to_owned(),
                "company.domain.action.v1",
            ),
            (r#"{"aggregate_type": "Order", "aggregate_id": "7"}"#.to_owned(), "the event's type is missing"),
            (r#"{"type": "a.b.c.v1", "aggregate_type": "Order"}"#.to_owned(), "aggregate_id is missing"),
            (
                r#"{"type": "a.b.c.v1", "aggregate_type": "a\nb", "aggregate_id": "7"}"#.to_owned(),
                "control character",
            ),
            (format!(r#"{{{ORDER}, "key": "{}"}}"#, "k".repeat(1_025)), "over 1024 bytes"),
            (format!(r#"{{{ORDER}, "payload": "{{secret"}}"#), "not JSON"),
            (format!(r#"{{{ORDER}, "payload_base64": "e3NlY3JldA=="}}"#), "not JSON"),
            (format!(r#"{{{ORDER}, "payload_base64": "*"}}"#), "ase64"),
            (format!(r#"{{{ORDER}, "content_type": "x/y", "payload_base64": "/w=="}}"#), ""),
            (format!(r#"{{{ORDER}, "payload": 1, "payload_base64": "MQ=="}}"#), "both"),
            (format!(r#"{{{ORDER}, "payload": ["{}"]}}"#, "secret".repeat(200_000)), "over 1000000 bytes"),
            (format!(r#"{{{ORDER}, "extensions": [1]}}"#), "object of texts"),
            (format!(r#"{{{ORDER}, "extensions": {{"Tenant": "x"}}}}"#), "object of texts"),
            (format!(r#"{{{ORDER}, "extensions": {{"tenant": 7}}}}"#), "object of texts"),
            (format!(r#"{{{ORDER}, "idempotency_key": ""}}"#), "over 1024 bytes"),
            (format!(r#"{{{ORDER}, "time": "yesterday"}}"#), "2026-01-02T03:04:05.678Z"),
            (format!(r#"{{{ORDER}, "time": "2026-02-31T00:00:00Z"}}"#), ""),
            (format!(r#"{{{ORDER}, "sequence": "x"}}"#), "no whole number"),
            (format!(r#"{{{ORDER}, "idempotencykey": "x"}}"#), "unknown member \"idempotencykey\""),
            (format!(r#"{{{ORDER}, "key": {{"a": 1}}}}"#), "key"),
            ("7".to_owned(), "no JSON object"),
            ("{secret".to_owned(), "not JSON"),
        ] {
            let said = world.database.try_query(&call(&event)).expect_err(&event);
            assert!(said.contains(expected) && !said.contains("secret"), "{event}: {said}");
        }
        assert_eq!(world.value("select count(*) from outbox"), "0");
    }
}

/// F9: migrating again, and after the layout has changed, leaves one procedure that fits; long names stay apart.
#[tokio::test]
async fn the_procedure_follows_the_layout() {
    for mut world in World::native().await {
        assert!(world.migrate().await.is_empty(), "what is there is left alone");
        let procedures = "select count(*) from information_schema.routines where routine_schema = database()";
        assert_eq!(world.value(procedures), "1");
        world.layout.columns.key = None;
        assert_eq!(world.migrate().await.len(), 1);
        let said = world.database.try_query(&call(&format!(r#"{{{ORDER}, "key": "k"}}"#))).unwrap_err();
        assert!(said.contains("no column for it"), "{said}");
        for end in ["one", "two"] {
            world.layout.table = Identifier::new(format!("{}_{end}", "a_long_name_".repeat(4))).unwrap();
            world.layout.columns = Layout::built_in("native").unwrap().columns;
            world.outbox = postrider_mysql::Outbox::new(&world.layout).unwrap();
            world.migrate().await;
            let mut conn = world.conn().await;
            world.outbox.append_once(&mut conn, &crate::world::plain(1), "k").await.unwrap();
            assert_eq!(world.value(&format!("select count(*) from {}", world.layout.table)), "1");
        }
        assert_eq!(world.value(procedures), "3");
    }
}

/// F5: a layout that does not fit its table is told, and the rest is migrated.
#[tokio::test]
async fn no_procedure_is_installed_for_a_layout_that_does_not_fit() {
    let layout = Layout::built_in("ledger").unwrap();
    for world in World::of(
        &layout,
        "create table outbox_event (id bigint auto_increment primary key, event_type text)",
    ) {
        let done = world.migrate().await;
        assert!(done.iter().any(|line| line.contains("maps column \"aggregate_type\"")), "{done:?}");
    }
}
