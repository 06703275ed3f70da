//! Ledger's requirements on its own table, by plain SQL.

use std::time::Duration;

use postrider_core::layout::Interval;
use postrider_core::route::Kind;
use postrider_core::source::{Claim, Source};
use postrider_core::store::{Filter, Store};
use postrider_core::verdict::Reason;
use postrider_core::{Entry, Layout, Settlement, State};
use postrider_mysql::{Hold, open_store};

use crate::common::tables::LEDGER;
use crate::common::{Harness, ask, ask_for, block_on};
use postrider_conformance::source::SourceHarness;

on_each_server!(
    Layout::built_in("ledger").unwrap(),
    LEDGER,
    [
        e3_rows_come_by_id_and_are_processed,
        e3_a_failed_event_is_revived_by_an_operator,
        e4_an_accounts_events_stay_in_order,
        e4_a_dead_event_holds_its_account,
        e4_order_holds_with_hundreds_of_rows_and_clocks_apart,
    ]
);

/// A posting of an account, with a clock that is so many seconds off.
fn post(harness: &Harness, transaction: &str, account: &str, clock_off: i32) {
    harness.database.query(&format!(
        "insert into outbox_event (aggregate_type, aggregate_id, event_type, payload, created_at) values \
         ('TRANSACTION', '{transaction}', 'LEDGER_POSTED', '{{\"accountId\": \"{account}\", \"sequenceNumber\": 4}}', \
         timestamp'1970-01-01 01:00:00' + interval {clock_off} second)"
    ));
}

fn transactions(entries: &[Entry]) -> Vec<String> {
    entries.iter().map(|entry| entry.envelope.aggregate_id.to_string()).collect()
}

fn retried(retries: u32) -> Settlement {
    Settlement::Retried { retries, after: Duration::from_secs(2), reason: Reason::new("no") }
}

/// E3: by id, whatever the writers' clocks say; PENDING becomes PROCESSED with its time, the count is the table's own.
fn e3_rows_come_by_id_and_are_processed(harness: &Harness) {
    for (transaction, off) in [("t1", 2), ("t2", -2), ("t3", 0)] {
        post(harness, transaction, "acc", off);
    }
    block_on(async {
        let relay = harness.open("relay").await;
        let claim = relay.take(&ask()).await;
        assert_eq!(transactions(&claim.entries), ["t1", "t2", "t3"]);
        relay.finish(claim, |_| Settlement::Published).await;
    });
    let row =
        harness.row("select status, retry_count, processed_at from outbox_event where aggregate_id = 't2'");
    assert_eq!(row, ["PROCESSED", "0", "1970-01-01 00:00:00.000000"]);
    let layout = Layout::built_in("ledger").unwrap();
    assert_eq!((layout.batch, layout.interval), (100, Interval::Every(Duration::from_secs(2))));
    let waits: Vec<u64> = (1..=5).map(|nth| layout.retry.backoff.wait(nth, 0.5).as_secs()).collect();
    assert_eq!((layout.retry.retries_max, waits), (5, vec![2; 5]));
}

/// E3: five retries, then FAILED with 5; FAILED becomes PENDING by an operator.
fn e3_a_failed_event_is_revived_by_an_operator(harness: &Harness) {
    post(harness, "t1", "acc", 0);
    let row = || harness.row("select status, retry_count from outbox_event");
    block_on(async {
        let relay = harness.open("relay").await;
        for retries in 1..=5 {
            let claim = relay.take(&ask()).await;
            relay.finish(claim, |_| retried(retries)).await;
            assert_eq!(row(), ["PENDING", &retries.to_string()]);
            harness.pass_blocking(Duration::from_secs(2));
        }
        let claim = relay.take(&ask()).await;
        assert_eq!(claim.entries[0].retries, 5);
        relay.finish(claim, |_| Settlement::Dead { retries: 5, reason: Reason::new("no") }).await;
        assert_eq!(row(), ["FAILED", "5"]);
        let store = open_store(&harness.config("operator")).await.unwrap();
        assert_eq!(store.revive(&Filter::default(), false).await.unwrap(), 1);
        assert_eq!(row(), ["PENDING", "0"]);
        assert_eq!(relay.drain(&ask()).await, ["1"]);
    });
}

/// E4: the key and the sequence are the account's, from the payload; what is retried holds its account, and no other.
fn e4_an_accounts_events_stay_in_order(harness: &Harness) {
    for (transaction, account) in [("a1", "a"), ("b1", "b"), ("a2", "a"), ("b2", "b"), ("a3", "a")] {
        post(harness, transaction, account, 0);
    }
    block_on(async {
        let relay = harness.open("relay").await;
        let Claim { mut hold, entries, .. }: Claim<Hold> = relay.take(&ask_for(2)).await;
        assert_eq!(entries[0].key.as_ref().unwrap().to_string(), "a");
        assert_eq!(
            (entries[0].envelope.sequence, entries[0].envelope.partition_key.as_deref()),
            (Some(4), Some("a"))
        );
        relay.settle(&mut hold, &[(0, retried(1)), (1, Settlement::Published)]).await.unwrap();
        relay.release(hold).await.unwrap();
        let claim = relay.take(&ask()).await;
        assert_eq!(transactions(&claim.entries), ["b2"], "account a waits for its first");
        relay.finish(claim, |_| Settlement::Published).await;
        harness.pass_blocking(Duration::from_secs(2));
        let claim = relay.take(&ask()).await;
        assert_eq!(transactions(&claim.entries), ["a1", "a2", "a3"]);
        relay.finish(claim, |_| Settlement::Published).await;
    });
}

/// E4: a dead event holds its account until somebody has decided about it, also for the next relay.
fn e4_a_dead_event_holds_its_account(harness: &Harness) {
    for (transaction, account) in [("a1", "a"), ("a2", "a"), ("b1", "b")] {
        post(harness, transaction, account, 0);
    }
    block_on(async {
        let relay = harness.open("relay").await;
        let claim = relay.take(&ask_for(1)).await;
        relay.finish(claim, |_| Settlement::Dead { retries: 5, reason: Reason::new("no") }).await;
        assert_eq!(relay.drain(&ask()).await, ["3"]);
        relay.retire().await.unwrap();
        let next = harness.open("next").await;
        assert!(next.drain(&ask()).await.is_empty());
        let store = open_store(&harness.config("operator")).await.unwrap();
        let depth = store.depth().await.unwrap();
        assert_eq!((depth.parked, depth.dead), (1, 1));
        assert_eq!(depth.culprit.unwrap().0.to_string(), "a");
        let dead = Filter { state: Some(State::Dead), ..Filter::default() };
        assert_eq!(store.revive(&dead, false).await.unwrap(), 1);
        assert_eq!(next.drain(&ask()).await, ["1", "2"]);
    });
}

/// E3, E4: hundreds of rows wait, written by two whose clocks are two seconds apart: each account's order holds.
fn e4_order_holds_with_hundreds_of_rows_and_clocks_apart(harness: &Harness) {
    let rows: Vec<String> = (0..600)
        .map(|n| {
            let (account, off) = (n % 7, if n % 2 == 0 { 2 } else { -2 });
            format!(
                "('TRANSACTION', 't{n}', 'LEDGER_POSTED', '{{\"accountId\": {account}, \"n\": {n}}}', \
                 timestamp'1970-01-01 01:00:00' + interval {off} second)"
            )
        })
        .collect();
    harness.database.query(&format!(
        "insert into outbox_event (aggregate_type, aggregate_id, event_type, payload, created_at) values {}",
        rows.join(", ")
    ));
    block_on(async {
        let relay = harness.open("relay").await;
        let came: Vec<u32> = relay.drain(&ask_for(100)).await.iter().map(|id| id.parse().unwrap()).collect();
        assert_eq!(came, (1..=600).collect::<Vec<_>>());
    });
}

/// E5: one topic for all, or one per type, by config.
#[test]
fn e5_topics_are_one_for_all_or_one_per_type() {
    let layout = Layout::built_in("ledger").unwrap();
    let kind = |event_type: &'static str| Kind {
        event_type: event_type.into(),
        aggregate_type: "TRANSACTION".into(),
    };
    let topic = |layout: &Layout, event_type| {
        let router = layout.router(vec![], "kafka");
        router.route(&kind(event_type)).unwrap().topic.to_string()
    };
    assert_eq!(topic(&layout, "LEDGER_POSTED"), "ledger-events");
    let per_type = Layout { topic: "{type:kebab}-events".into(), ..layout };
    assert_eq!(topic(&per_type, "LEDGER_POSTED"), "ledger-posted-events");
    assert_eq!(topic(&per_type, "LEDGER_REVERSED"), "ledger-reversed-events");
}
