//! What a table does not take back: the relay goes on, and nothing is sent again and again.

use std::time::Duration;

use postrider_conformance::source::SourceHarness;
use postrider_core::Settlement;
use postrider_core::State;
use postrider_core::layout::Order;
use postrider_core::store::{Filter, Store};
use postrider_postgres::open_store;

use crate::common::tables::{
    full_status_layout, logistics_layout, logistics_tables, status_layout, status_tables,
};
use crate::common::{Harness, ask, block_on};
use crate::{dead, retried};

/// Longer than anything waits by itself.
const LONG: Duration = Duration::from_secs(3_600);

fn letters(harness: &Harness, ids: &[&str]) {
    for id in ids {
        harness.database.query(&format!(
            "insert into letters (event_id, event_type, kind, subject, payload, created_at, status) \
             values ('{id}', 't', 'k', '{id}', '{{}}', now(), 'NEW')"
        ));
    }
}

fn words(harness: &Harness, table: &str) -> Option<String> {
    harness
        .value(&format!("select string_agg(event_id || ' ' || status, ', ' order by event_id) from {table}"))
}

/// What is kept beside the table for the rows that it did not take: which, whether they are done with, and why.
fn beside(harness: &Harness) -> Vec<Vec<Option<String>>> {
    harness.database.query("select dead, error from postrider_entries where error is not null order by entry")
}

/// A CHECK that knows neither the word for dead nor that for a retry: the others are settled, the dead is dead beside the
/// table, and what goes back waits there. Nothing is sent again that was done with.
#[test]
fn f8_a_constraint_that_refuses_one_row_stops_no_other() {
    let harness = Harness::new(status_layout(Order::None), &status_tables());
    harness.database.query("alter table letters add constraint known check (status in ('NEW', 'SENT'))");
    letters(&harness, &["a", "b", "c", "d", "e"]);
    block_on(async {
        let source = harness.open("one").await;
        let claim = source.take(&ask()).await;
        source
            .finish(claim, |entry| match &*entry.envelope.id {
                "c" => dead(0),
                "d" => retried(1, 1_000),
                _ => Settlement::Published,
            })
            .await;
        assert_eq!(words(&harness, "letters").as_deref(), Some("a SENT, b SENT, c NEW, d NEW, e SENT"));
        let [kept] = &beside(&harness)[..1] else { panic!("c is kept") };
        assert_eq!(kept[0].as_deref(), Some("t"));
        assert!(kept[1].as_deref().unwrap().contains("constraint \"known\""), "{kept:?}");
        harness.pass(Duration::from_secs(1)).await;
        assert_eq!(source.drain(&ask()).await, ["d"]);
        harness.pass(LONG).await;
        assert_eq!(source.drain(&ask()).await, Vec::<String>::new(), "it is given up, as it was told");
        let store = open_store(&harness.config("operator")).await.unwrap();
        let only_dead = Filter { state: Some(State::Dead), ..Filter::default() };
        assert_eq!(store.depth().await.unwrap().dead, 1, "and seen");
        assert_eq!(store.revive(&only_dead, false).await.unwrap(), 1);
        assert_eq!(source.drain(&ask()).await, ["c"]);
    });
}

/// The same where the word for published is refused: it is published once, whatever the table says.
#[test]
fn f8_a_receipt_that_the_table_refuses_is_not_sent_again() {
    let tables = [
        Harness::new(status_layout(Order::None), &status_tables()),
        Harness::new(status_layout(Order::Key), &status_tables()),
    ];
    for harness in tables {
        harness
            .database
            .query("alter table letters add constraint not_b check (event_id <> 'b' or status <> 'SENT')");
        letters(&harness, &["a", "b", "c"]);
        block_on(async {
            let source = harness.open("one").await;
            assert_eq!(source.drain(&ask()).await, ["a", "b", "c"]);
            assert_eq!(words(&harness, "letters").as_deref(), Some("a SENT, b NEW, c SENT"));
            let why = beside(&harness)[0][1].clone().unwrap();
            assert!(why.contains("it was published") && why.contains("not_b"), "{why}");
            harness.pass(LONG).await;
            assert_eq!(source.drain(&ask()).await, Vec::<String>::new());
        });
    }
}

/// The same within the transaction that holds the rows.
#[test]
fn f8_a_trigger_that_raises_stops_no_other_row_of_a_hold() {
    let harness = Harness::new(logistics_layout(), &logistics_tables());
    harness.database.query(
        "create function refuse() returns trigger language plpgsql as \
         $$ begin if new.event_id = 'b' then raise exception 'not this one'; end if; return new; end $$; \
         create trigger refuse before update on outbox_events for each row execute function refuse(); \
         insert into outbox_events (event_id, event_type, aggregate_type, aggregate_id, payload) \
         select id, 't', 'k', id, '{}' from unnest(array['a', 'b', 'c']) as id",
    );
    block_on(async {
        let source = harness.open("one").await;
        let claim = source.take(&ask()).await;
        source.finish(claim, |_| Settlement::Published).await;
        assert_eq!(words(&harness, "outbox_events").as_deref(), Some("a PUBLISHED, b PENDING, c PUBLISHED"));
        harness.pass(LONG).await;
        assert_eq!(source.drain(&ask()).await, Vec::<String>::new(), "it was published, and is not again");
        harness.database.query("drop trigger refuse on outbox_events");
        let store = open_store(&harness.config("operator")).await.unwrap();
        let only_dead = Filter { state: Some(State::Dead), ..Filter::default() };
        let why = store.list(&only_dead).await.unwrap()[0].error.clone().unwrap();
        assert!(why.contains("it was published") && why.contains("not this one"), "{why}");
        assert_eq!(store.revive(&only_dead, false).await.unwrap(), 1);
        assert_eq!(source.drain(&ask()).await, ["b"], "but when a person asks for it");
        assert_eq!(harness.value("select count(*) from postrider_entries").as_deref(), Some("0"));
    });
}

/// A trigger that swallows the change is noticed by its count, in each way; what goes back waits, what was published is not sent
/// again.
#[test]
fn f8_a_change_that_is_swallowed_is_not_repeated() {
    let full = |order| {
        (
            full_status_layout(order),
            status_tables(),
            "kind, subject, created_at, status",
            "'k', 's', 0, 'PENDING'",
        )
    };
    let plain = |order| {
        (status_layout(order), status_tables(), "kind, subject, created_at, status", "'k', 's', now(), 'NEW'")
    };
    let held = (logistics_layout(), logistics_tables(), "aggregate_type, aggregate_id", "'k', 's'");
    for (layout, tables, names, values) in
        [plain(Order::Key), plain(Order::None), full(Order::Key), full(Order::None), held]
    {
        let harness = Harness::new(layout, &tables);
        let table = harness.layout.table.as_str().to_owned();
        harness.database.query(&format!(
            "create function swallow() returns trigger language plpgsql as \
             $$ begin if new.event_id = 'b' then return null; end if; return new; end $$; \
             create trigger swallow before update on {table} for each row execute function swallow(); \
             insert into {table} (event_id, event_type, payload, {names}) \
             select id, 't', '{{}}', {values} from unnest(array['a', 'b', 'c']) as id"
        ));
        block_on(async {
            let source = harness.open("one").await;
            let claim = source.take(&ask()).await;
            assert_eq!(claim.entries.len(), 3);
            source.finish(claim, |_| Settlement::Published).await;
            assert_eq!(beside(&harness).len(), 1, "{table}");
            harness.pass(LONG).await;
            assert_eq!(source.drain(&ask()).await, Vec::<String>::new(), "{table}");
            assert_eq!(
                harness
                    .value(&format!("select count(*) from {table} where status in ('NEW', 'PENDING')"))
                    .as_deref(),
                Some("1")
            );
        });
    }
}

/// A13: what is written fits its column; A7: a claim writes who holds it and since when, and bumps the version.
#[test]
fn a7_a13_what_is_written_fits_its_column() {
    let harness = Harness::new(full_status_layout(Order::None), &status_tables());
    harness.database.query(
        "insert into full_letters (event_id, event_type, kind, subject, payload, created_at, status) \
         values ('a', 't', 'k', 's', '{}', 0, 'PENDING')",
    );
    let shown = || {
        harness.value("select concat_ws('|', status, locked_by, locked_at, version, retry_count, last_error, next_retry_at) from full_letters")
    };
    block_on(async {
        let source = harness.open("one").await;
        let claim = source.take(&ask()).await;
        assert_eq!(shown().as_deref(), Some("PROCESSING|on|1970-01-01 09:00:00|1"));
        let reason = postrider_core::verdict::Reason::new("the broker said no, and much more");
        let after = Duration::from_secs(1);
        source.finish(claim, |_| Settlement::Retried { retries: 1, after, reason: reason.clone() }).await;
        assert_eq!(shown().as_deref(), Some("FAILED|2|1|the broker said no|1970-01-01 09:00:01"));
        harness.pass(Duration::from_secs(1)).await;
        let mut claim = source.take(&ask()).await;
        // Another program writes to it: the version moves on, and whoever had it completes nothing.
        harness.database.query("update full_letters set version = version + 1");
        let answer =
            postrider_core::source::Source::settle(&source, &mut claim.hold, &[(0, Settlement::Published)])
                .await;
        assert!(matches!(answer, Err(postrider_core::source::SourceError::Fenced)), "{answer:?}");
        assert_eq!(harness.value("select status from full_letters").as_deref(), Some("PROCESSING"));
    });
}
