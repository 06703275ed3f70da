//! OrderService (C): its table as it is, attempts and leases beside it.

use std::time::Duration;

use postrider_conformance::source::SourceHarness;
use postrider_core::source::{Claimed, Source};
use postrider_core::store::{Filter, Store};
use postrider_core::{EntryId, Layout, Settlement};
use postrider_postgres::open_store;

use crate::common::tables::ORDER_SERVICE;
use crate::common::{Harness, ask, ask_for, block_on};
use crate::{dead, retried, uuid};

const SHAPE: &str = "select string_agg(column_name || ' ' || data_type || ' ' || is_nullable, ', ' order by ordinal_position) \
     || (select string_agg(indexdef, ', ' order by indexname) from pg_indexes where tablename = 'outbox') \
     || (select count(*) from pg_trigger) from information_schema.columns where table_name = 'outbox'";

fn harness() -> Harness {
    Harness::new(Layout::built_in("order-service").unwrap(), ORDER_SERVICE)
}

fn write(harness: &Harness, number: usize, created_at: &str) {
    harness.database.query(&format!(
        "insert into outbox (id, aggregate_type, aggregate_id, event_type, payload, status, created_at) values \
         ('{}', 'Order', '{}', 'OrderCreated', '{{\"orderId\": {number}, \"total\": 12.50}}', 'NEW', '{created_at}')",
        uuid(number),
        uuid(900 + number)
    ));
}

fn row(harness: &Harness, number: usize, column: &str) -> Option<String> {
    harness.value(&format!("select {column} from outbox where id = '{}'", uuid(number)))
}

/// C1: NEW becomes SENT with its time; the id is the event's; a time without a zone is UTC. C6: the message is complete.
/// F1: the team's table is not changed. C5: nothing is deleted.
#[test]
fn c1_c5_c6_a_row_written_by_plain_sql_is_relayed_whole() {
    let harness = harness();
    let shape = harness.value(SHAPE);
    write(&harness, 1, "2026-03-01 12:00:00.5");
    block_on(async {
        harness.pass(Duration::from_secs(60)).await;
        let source = harness.open("one").await;
        let claim = source.take(&ask()).await;
        let envelope = &claim.entries[0].envelope;
        assert_eq!(&*envelope.id, uuid(1));
        assert_eq!(envelope.time.to_string(), "2026-03-01T12:00:00.5Z");
        assert_eq!((&*envelope.event_type, &*envelope.aggregate_type), ("OrderCreated", "Order"));
        assert_eq!(&*envelope.aggregate_id, uuid(901));
        assert_eq!(&*envelope.data, b"{\"orderId\": 1, \"total\": 12.50}");
        assert_eq!(claim.entries[0].flaw, None);
        source.finish(claim, |_| Settlement::Published).await;
    });
    assert_eq!(row(&harness, 1, "status").as_deref(), Some("SENT"));
    assert_eq!(row(&harness, 1, "sent_at").as_deref(), Some("1970-01-01 00:01:00"));
    assert_eq!(row(&harness, 1, "error_message"), None);
    assert_eq!(harness.value("select count(*) from postrider_entries").as_deref(), Some("0"));
    assert_eq!(harness.value(SHAPE), shape);
}

/// C2: ten rows by their time, the rest with the next claim.
#[test]
fn c2_rows_come_by_their_time() {
    let harness = harness();
    for number in 0..15 {
        write(&harness, number, &format!("2026-03-01 12:00:{:02}", 50 - number));
    }
    block_on(async {
        let source = harness.open("one").await;
        let first = source.take(&ask_for(10)).await;
        let came: Vec<String> = first.entries.iter().map(|entry| entry.envelope.id.to_string()).collect();
        assert_eq!(came, (5..15).rev().map(uuid).collect::<Vec<_>>());
        assert!(first.more);
        source.finish(first, |_| Settlement::Published).await;
        assert_eq!(source.drain(&ask_for(10)).await, (0..5).rev().map(uuid).collect::<Vec<_>>());
    });
}

/// C3: five retries after 100, 200, 400, 800 and 1600 ms, then FAILED with its error; attempts live beside the table.
/// C4: an operator makes it NEW again.
#[test]
fn c3_c4_failed_tries_are_counted_beside_the_table() {
    let harness = harness();
    write(&harness, 1, "2026-03-01 12:00:00");
    write(&harness, 2, "2026-03-01 12:00:01");
    block_on(async {
        let source = harness.open("one").await;
        let mut first = true;
        for (retries, wait_ms) in (1..).zip([100, 200, 400, 800, 1_600]) {
            let claim = source.take(&ask()).await;
            assert_eq!(claim.entries[0].retries, retries - 1);
            assert_eq!(claim.entries.len(), if first { 2 } else { 1 }, "its neighbour does not wait for it");
            first = false;
            source
                .finish(claim, |entry| match &*entry.envelope.id {
                    id if id == uuid(1) => retried(retries, wait_ms),
                    _ => Settlement::Published,
                })
                .await;
            assert_eq!(row(&harness, 1, "status").as_deref(), Some("NEW"));
            harness.pass(Duration::from_millis(wait_ms - 1)).await;
            assert!(
                matches!(source.claim(&ask()).await.unwrap(), Claimed::Nothing(idle) if idle.due_in == Some(Duration::from_millis(1)))
            );
            harness.pass(Duration::from_millis(1)).await;
        }
        let claim = source.take(&ask()).await;
        assert_eq!(claim.entries[0].retries, 5);
        source.finish(claim, |_| dead(5)).await;
        assert_eq!(row(&harness, 1, "status").as_deref(), Some("FAILED"));
        assert_eq!(
            row(&harness, 1, "error_message").as_deref(),
            Some("the broker said no for the last time")
        );
        assert_eq!(source.drain(&ask()).await, Vec::<String>::new());

        let store = open_store(&harness.config("operator")).await.unwrap();
        let one = Filter { ids: vec![EntryId::Text(uuid(1).into())], ..Filter::default() };
        assert_eq!(store.revive(&one, false).await.unwrap(), 1);
        assert_eq!(row(&harness, 1, "status").as_deref(), Some("NEW"));
        let claim = source.take(&ask()).await;
        assert_eq!(claim.entries[0].retries, 0);
        source.finish(claim, |_| Settlement::Published).await;
    });
    assert_eq!(harness.value("select count(*) from outbox where status = 'SENT'").as_deref(), Some("2"));
}
