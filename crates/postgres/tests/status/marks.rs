//! F2, F8, SRC-03, SRC-04: what lies before the mark is read rarely, and never overtaken or forgotten.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use postrider_conformance::source::SourceHarness;
use postrider_core::layout::Order;
use postrider_core::route::Holds;
use postrider_core::source::{Ask, Claimed, Source};
use postrider_core::{Key, Settlement};

use crate::common::tables::{quoted_layout, status_layout, status_tables};
use crate::common::{Harness, Lossy, ask_for, block_on};

const HELD_ROWS: usize = 6_000;

/// Each time that the clock is read it has moved on: what takes statements takes time, the same on every machine.
const TICKING: &str = "create sequence ticks; create or replace function shifted.clock_timestamp() returns timestamptz \
    language sql volatile as $$ select timestamptz '2036-01-01 00:00:00+00' + nextval('ticks') * interval '3 ms' $$";

const REAL: &str = "create or replace function shifted.clock_timestamp() returns timestamptz \
    language sql volatile as $$ select pg_catalog.clock_timestamp() $$";

/// Either table with rows in order: by an id that is drawn, or by a clock and a UUID.
fn harnesses() -> [Harness; 2] {
    [
        Harness::new(status_layout(Order::Key), &status_tables()),
        Harness::new(quoted_layout(Order::Key), &status_tables()),
    ]
}

fn insert(harness: &Harness, rows: &str) -> String {
    let (table, payload, time, status) = if harness.layout.table.as_str() == "letters" {
        ("letters", "'{}'", "created_at", "status")
    } else {
        ("\"Post Office\".\"Letters\"", "'{}'::bytea", "\"createdAt\"", "\"Status\"")
    };
    format!(
        "insert into {table} (event_id, event_type, kind, subject, payload, {time}, {status}) \
         select r.id, 't', 'k', r.key, {payload}, pg_catalog.clock_timestamp(), 'NEW' from ({rows}) as r(id, key)"
    )
}

fn many(id: &str, key: &str, count: usize) -> String {
    format!("select '{id}' || i, '{key}' from generate_series(1, {count}) as i")
}

fn one(id: &str, key: &str) -> String {
    format!("select '{id}', '{key}'")
}

fn holding(key: &str, entries_max: usize) -> Ask {
    let holds = Holds { keys: [Key::new("k", key.to_owned())].into(), ..Holds::default() };
    Ask { holds: Arc::new(holds), ..ask_for(entries_max) }
}

/// Rows of the outbox that were read while a relay lived.
async fn rows_read(harness: &Harness, work: impl AsyncFnOnce(&Lossy)) -> i64 {
    let read = || -> i64 {
        let sql = "select sum(coalesce(idx_tup_fetch, 0) + coalesce(seq_tup_read, 0))::text from pg_stat_user_tables \
                   where relname in ('letters', 'Letters')";
        harness.value(sql).map_or(0, |text| text.parse().unwrap())
    };
    let before = read();
    let source = harness.open("one").await;
    work(&source).await;
    // A connection tells what it has read at its end.
    harness.kill(source).await;
    read() - before
}

/// F2: a held key at the head of the table is read now and then, not with each claim.
#[test]
fn f2_many_rows_of_a_held_key_are_not_read_with_each_claim() {
    let harness = Harness::new(status_layout(Order::Key), &status_tables());
    harness.database.query(&insert(&harness, &many("a", "a", HELD_ROWS)));
    harness.database.query(&insert(&harness, &many("b", "b", 1_000)));
    harness.database.query(TICKING);
    block_on(async {
        let read = rows_read(&harness, async |source| {
            assert_eq!(source.drain(&holding("a", 10)).await.len(), 1_000);
        });
        let read = read.await;
        let with_each_claim = i64::try_from(HELD_ROWS).unwrap() * 100;
        assert!(
            read < with_each_claim / 4,
            "{read} rows were read, and {with_each_claim} by looking at all each time"
        );
        let source = harness.open("two").await;
        // The lease of the one that was killed runs out.
        harness.database.query("select setval('ticks', nextval('ticks') + 20000)");
        let came = source.drain(&ask_for(1_000)).await;
        assert_eq!(came, (1..=HELD_ROWS).map(|number| format!("a{number}")).collect::<Vec<_>>());
    });
}

/// F2: an idle relay reads what is new, and what is held once in a while.
#[test]
fn f2_an_idle_relay_reads_held_rows_rarely() {
    for harness in harnesses() {
        harness.database.query(&insert(&harness, &many("a", "a", HELD_ROWS)));
        harness.database.query(TICKING);
        block_on(async {
            let claims: i64 = 100;
            let read = rows_read(&harness, async |source| {
                for _ in 0..claims {
                    let claimed = source.claim(&holding("a", 1_000)).await.unwrap();
                    assert!(matches!(claimed, Claimed::Nothing(idle) if !idle.more));
                }
                harness.database.query(&insert(&harness, &one("new", "b")));
                assert_eq!(source.drain(&holding("a", 1_000)).await, ["new"]);
            });
            let read = read.await;
            let all = i64::try_from(HELD_ROWS).unwrap();
            assert!(read < all * 10, "{read} rows were read in {claims} claims, of {all}");
        });
    }
}

/// F3: a row that is stamped far in the future is published, and does not keep what comes later from being seen at once. Much
/// is held at the head, so that it is not looked at everything with each claim.
#[test]
fn f3_a_row_of_the_future_does_not_hide_later_ones() {
    let harness = Harness::new(quoted_layout(Order::Key), &status_tables());
    harness.database.query(&insert(&harness, &many("a", "a", HELD_ROWS)));
    harness.database.query(&insert(&harness, &one("future", "f")));
    harness.database.query(
        "update \"Post Office\".\"Letters\" set \"createdAt\" = '2100-01-01' where event_id = 'future'",
    );
    harness.database.query(TICKING);
    block_on(async {
        let source = harness.open("one").await;
        assert_eq!(source.drain(&holding("a", 1_000)).await, ["future"]);
        for number in 0..5 {
            let new = format!("new{number}");
            harness.database.query(&insert(&harness, &one(&new, &new)));
            let claimed = source.claim(&holding("a", 1_000)).await.unwrap();
            let Claimed::Batch(claim) = claimed else { panic!("{new} was not seen at once") };
            assert_eq!(&*claim.entries[0].envelope.id, new.as_str());
            source.finish(claim, |_| Settlement::Published).await;
        }
    });
}

/// SRC-04: while transactions are open that have written, savepoints among them, the next row of a key waits for the late one.
#[test]
fn src_04_a_late_row_below_the_mark_is_not_overtaken() {
    for harness in harnesses() {
        block_on(async {
            let source = harness.open("one").await;
            let mut late = Vec::new();
            for number in 0..2 {
                let (client, connection) =
                    tokio_postgres::connect(&harness.database.url(), tokio_postgres::NoTls).await.unwrap();
                tokio::spawn(connection);
                let row = insert(&harness, &one(&format!("first{number}"), &format!("late{number}")));
                client
                    .batch_execute(&format!("begin; savepoint s; {row}; release savepoint s"))
                    .await
                    .unwrap();
                late.push(client);
            }
            harness.database.query(&insert(&harness, &many("o", "other", 60)));
            for (number, client) in late.iter().enumerate() {
                for _ in 0..2 {
                    let claim = source.take(&ask_for(10)).await;
                    source.finish(claim, |_| Settlement::Published).await;
                    harness.pass(Duration::from_secs(1)).await;
                }
                client.batch_execute("commit").await.unwrap();
                harness
                    .database
                    .query(&insert(&harness, &one(&format!("second{number}"), &format!("late{number}"))));
                let came = source.take(&ask_for(1)).await;
                assert_eq!(
                    &*came.entries[0].envelope.id,
                    format!("first{number}"),
                    "it is not even waited for"
                );
                source.finish(came, |_| Settlement::Published).await;
            }
            let came = source.drain(&ask_for(100)).await;
            assert_eq!(came.len(), 22);
            assert!(came.contains(&"second0".to_owned()) && came.contains(&"second1".to_owned()));
        });
    }
}

/// F8: what somebody changes by hand before the mark is found, however busy the table is behind it.
#[test]
fn f8_a_row_that_is_changed_by_hand_before_the_mark_is_found() {
    let harness = Harness::new(status_layout(Order::Key), &status_tables());
    harness.database.query(&insert(&harness, &many("a", "a", 50)));
    block_on(async {
        let source = harness.open("one").await;
        assert_eq!(source.drain(&ask_for(10)).await.len(), 50);
        harness.pass(Duration::from_secs(1)).await;
        harness.database.query(&insert(&harness, &many("b", "b", 500)));
        let first = source.take(&ask_for(10)).await;
        source.finish(first, |_| Settlement::Published).await;
        harness.database.query("update letters set status = 'NEW' where event_id = 'a7'");
        let mut came = Vec::new();
        for _ in 0..20 {
            let claim = source.take(&ask_for(10)).await;
            came.extend(claim.entries.iter().map(|entry| entry.envelope.id.to_string()));
            source.finish(claim, |_| Settlement::Published).await;
        }
        assert!(came.contains(&"a7".to_owned()), "{came:?}");
    });
}

const WRITERS: usize = 6;
const TRANSACTIONS: usize = 60;
const PUBLISHED: usize = WRITERS * TRANSACTIONS * 4 / 5;
const LOOKS_MAX: usize = 50_000;

/// SRC-03, SRC-04: writers that commit whenever they like, each one's rows in order.
#[test]
fn src_04_rows_of_busy_writers_come_in_order() {
    for harness in harnesses() {
        harness.database.query(REAL);
        let (came, left) = (std::sync::Mutex::new(Vec::new()), AtomicUsize::new(WRITERS));
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let (harness, left) = (&harness, &left);
                scope.spawn(move || {
                    block_on(async {
                        let (client, connection) =
                            tokio_postgres::connect(&harness.database.url(), tokio_postgres::NoTls)
                                .await
                                .unwrap();
                        tokio::spawn(connection);
                        for number in 0..TRANSACTIONS {
                            let row =
                                insert(harness, &one(&format!("{writer}-{number}"), &format!("w{writer}")));
                            let nap = (writer * 7 + number * 13) % 40;
                            let (open, end) = match number % 5 {
                                0 => ("savepoint s", "release savepoint s"),
                                1 => ("select 1", "rollback; begin"),
                                _ => ("select 1", "select 1"),
                            };
                            client
                                .batch_execute(&format!(
                                    "begin; {open}; {row}; select pg_sleep({nap} * 0.001); {end}; commit"
                                ))
                                .await
                                .unwrap();
                        }
                    });
                    left.fetch_sub(1, Ordering::SeqCst);
                });
            }
            block_on(async {
                let source = harness.open("one").await;
                // What is late and behind nothing is looked for when that can be afforded.
                let (mut all, mut looks_left) = (0, LOOKS_MAX);
                while all < PUBLISHED && looks_left > 0 {
                    looks_left -= usize::from(left.load(Ordering::SeqCst) == 0);
                    let some = source.drain(&ask_for(7)).await;
                    all += some.len();
                    came.lock().unwrap().extend(some);
                }
            });
        });
        let mut last: HashMap<String, usize> = HashMap::new();
        let came = came.into_inner().unwrap();
        for id in &came {
            let (writer, number) = id.split_once('-').unwrap();
            let number: usize = number.parse().unwrap();
            let before = last.insert(writer.to_owned(), number);
            assert!(before.is_none_or(|before| before < number), "{id} came after {before:?}");
        }
        assert_eq!(came.len(), PUBLISHED);
    }
}
