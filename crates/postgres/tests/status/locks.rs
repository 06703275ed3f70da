//! F8, B9: who lives keeps what it holds while its settlement waits for somebody's lock, and takes nothing from itself.

use std::collections::HashSet;
use std::time::Duration;

use postrider_core::Settlement;
use postrider_core::layout::Order;
use postrider_core::source::{Claim, Claimed, Source, SourceError};
use postrider_postgres::{Hold, PostgresSource, open_source};

use crate::common::tables::{full_status_layout, status_layout, status_tables};
use crate::common::{Harness, ask_for, block_on};

const TTL: Duration = Duration::from_secs(1);

/// By the real clock: a lease runs out by itself.
fn harness(full: bool, order: Order) -> Harness {
    let layout = if full { full_status_layout(order) } else { status_layout(order) };
    let harness = Harness::new(layout, &status_tables());
    harness.database.query(
        "create or replace function shifted.clock_timestamp() returns timestamptz language sql volatile \
         as 'select pg_catalog.clock_timestamp()'; \
         insert into letters (event_id, event_type, kind, subject, payload, created_at, status) \
         select 'e' || i, 't', 'k', 's' || i % 3, '{}', now(), 'NEW' from generate_series(1, 10) as i; \
         insert into full_letters (event_id, event_type, kind, subject, payload, created_at, status) \
         select 'e' || i, 't', 'k', 's' || i % 3, '{}', 0, 'PENDING' from generate_series(1, 10) as i",
    );
    harness
}

async fn open(harness: &Harness, holder: &str) -> PostgresSource {
    let mut config = harness.config(holder);
    config.lease_ttl = TTL;
    open_source(&config).await.unwrap()
}

async fn claimed(source: &PostgresSource) -> Vec<String> {
    match source.claim(&ask_for(100)).await {
        Ok(Claimed::Batch(claim)) => {
            claim.entries.iter().map(|entry| entry.envelope.id.to_string()).collect()
        }
        Ok(_) | Err(SourceError::Unreachable(_)) => Vec::new(),
        Err(error) => panic!("{error}"),
    }
}

/// As a relay does it: what gets no answer is written again, and the claim is extended before.
async fn settle(source: &PostgresSource, hold: &mut Hold, all: &[(usize, Settlement)]) -> usize {
    let mut waits = 0;
    loop {
        match source.settle(hold, all).await {
            Ok(()) => return waits,
            Err(SourceError::Unreachable(_)) => source.extend(hold).await.unwrap(),
            Err(error) => panic!("{error}"),
        }
        waits += 1;
    }
}

fn a_living_holder_keeps_its_rows(full: bool, order: Order) {
    let harness = harness(full, order);
    let table = harness.layout.table.quoted();
    block_on(async {
        let (one, two) = (open(&harness, "one").await, open(&harness, "two").await);
        let Claimed::Batch(Claim { mut hold, entries, .. }) = one.claim(&ask_for(6)).await.unwrap() else {
            panic!("there is something to claim")
        };
        let mine: HashSet<String> = entries.iter().map(|entry| entry.envelope.id.to_string()).collect();
        let all: Vec<_> = (0..entries.len()).map(|at| (at, Settlement::Published)).collect();
        let (other, connection) =
            tokio_postgres::connect(&harness.database.url(), tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        other.batch_execute(&format!("begin; lock table {table} in share mode")).await.unwrap();
        let meanwhile = async {
            let mut came = Vec::new();
            // Several times as long as a lease lasts.
            let passed = "select pg_catalog.clock_timestamp() > pg_catalog.now() + interval '4 s'";
            while !other.query_one(passed, &[]).await.unwrap().get::<_, bool>(0) {
                came.extend(claimed(&one).await);
                came.extend(claimed(&two).await);
            }
            other.batch_execute("commit").await.unwrap();
            came
        };
        let (waits, came) = tokio::join!(settle(&one, &mut hold, &all), meanwhile);
        assert!(waits > 0, "it waited for the lock");
        assert!(came.iter().all(|id| !mine.contains(id)), "{came:?} of {mine:?}");
        one.release(hold).await.unwrap();
        let done = format!("select count(*) from {table} where status in ('SENT', 'COMPLETED')");
        assert_eq!(harness.value(&done).as_deref(), Some("6"), "settled once, by who had them");
    });
}

#[test]
fn f8_rows_whose_settlement_waits_for_a_lock_stay_held() {
    a_living_holder_keeps_its_rows(false, Order::None);
}

#[test]
fn f8_rows_with_columns_of_their_own_stay_held_while_their_settlement_waits() {
    a_living_holder_keeps_its_rows(true, Order::None);
}

#[test]
fn b9_the_lease_is_kept_while_a_settlement_waits_for_a_lock() {
    a_living_holder_keeps_its_rows(false, Order::Key);
}

/// F8: where nobody extends a lease and it runs out, the relay that has the rows in its hands does not take them again.
#[test]
fn f8_a_relay_takes_nothing_from_itself() {
    use postrider_conformance::source::SourceHarness;

    let harness = Harness::new(status_layout(Order::None), &status_tables());
    harness.database.query(
        "insert into letters (event_id, event_type, kind, subject, payload, created_at, status) \
         values ('e', 't', 'k', 's', '{}', now(), 'NEW')",
    );
    block_on(async {
        let source = harness.open("one").await;
        let claim = source.take(&ask_for(1)).await;
        harness.pass(source.features().lease_ttl * 2).await;
        assert!(matches!(source.claim(&ask_for(1)).await.unwrap(), Claimed::Nothing(_)));
        source.finish(claim, |_| Settlement::Published).await;
        assert_eq!(harness.value("select status from letters").as_deref(), Some("SENT"));
    });
}
