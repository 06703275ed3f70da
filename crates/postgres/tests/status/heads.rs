//! F2: what is held or waits at the head of a table holds back only itself.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use postrider_conformance::source::SourceHarness;
use postrider_core::layout::Order;
use postrider_core::route::{Destination, Holds};
use postrider_core::source::{Ask, Source};
use postrider_core::{Key, Settlement};

use crate::common::tables::{logistics_layout, logistics_tables, status_layout, status_tables};
use crate::common::{Harness, ask_for, block_on};
use crate::retried;

/// Rows of key a, then some of key b.
fn fill(harness: &Harness, of_a: usize) {
    harness.database.query(&format!(
        "insert into letters (event_id, event_type, kind, subject, payload, created_at, status) \
         select 'a' || i, 't.a', 'k', 'a', '{{}}', now(), 'NEW' from generate_series(1, {of_a}) as i \
         union all select 'b' || i, 't.b', 'k', 'b', '{{}}', now(), 'NEW' from generate_series(1, 5) as i"
    ));
}

const OF_B: [&str; 5] = ["b1", "b2", "b3", "b4", "b5"];

/// A key that the relay holds.
#[test]
fn f2_a_held_key_at_the_head_of_a_lease_lets_the_others_flow() {
    let harness = Harness::new(status_layout(Order::Key), &status_tables());
    fill(&harness, 1_000);
    block_on(async {
        let source = harness.open("one").await;
        let holds = Holds { keys: [Key::new("k", "a".to_owned())].into(), ..Holds::default() };
        let held = Ask { holds: Arc::new(holds), ..ask_for(10) };
        assert_eq!(source.drain(&held).await, OF_B);
        let came = source.drain(&ask_for(100)).await;
        assert_eq!(came, (1..=1_000).map(|number| format!("a{number}")).collect::<Vec<_>>());
    });
}

/// A key whose first entry waits for its next try.
#[test]
fn f2_a_waiting_key_at_the_head_of_a_lease_lets_the_others_flow() {
    let harness = Harness::new(status_layout(Order::Key), &status_tables());
    fill(&harness, 500);
    block_on(async {
        let source = harness.open("one").await;
        let first = source.take(&ask_for(1)).await;
        source.finish(first, |_| retried(1, 60_000)).await;
        assert_eq!(source.drain(&ask_for(10)).await, OF_B);
        harness.pass(Duration::from_secs(60)).await;
        let came = source.drain(&ask_for(100)).await;
        assert_eq!(came, (1..=500).map(|number| format!("a{number}")).collect::<Vec<_>>());
    });
}

/// A row that commits or falls due before the mark comes, however busy the table is behind it.
#[test]
fn f8_what_comes_to_be_before_the_mark_is_not_forgotten() {
    let harness = Harness::new(status_layout(Order::None), &status_tables());
    fill(&harness, 1);
    block_on(async {
        let source = harness.open("one").await;
        let first = source.take(&ask_for(1)).await;
        assert_eq!(&*first.entries[0].envelope.id, "a1");
        source.finish(first, |_| retried(1, 1_000)).await;
        fill(&harness, 100);
        for _ in 0..3 {
            let behind = source.take(&ask_for(2)).await;
            source.finish(behind, |_| Settlement::Published).await;
        }
        harness.pass(Duration::from_secs(1)).await;
        let mut came = Vec::new();
        for _ in 0..20 {
            let claim = source.take(&ask_for(2)).await;
            came.extend(claim.entries.iter().map(|entry| (entry.envelope.id.to_string(), entry.retries)));
            source.finish(claim, |_| Settlement::Published).await;
        }
        assert!(came.contains(&("a1".into(), 1)), "{came:?}");
    });
}

/// A destination that is away, at the head of a held table.
#[test]
fn f2_a_held_route_at_the_head_of_a_hold_lets_the_others_flow() {
    let harness = Harness::new(logistics_layout(), &logistics_tables());
    harness.database.query(
        "insert into outbox_events (event_id, event_type, aggregate_type, aggregate_id, payload) \
         select 'a' || i, 't.a', 'k', 'a', '{}'::jsonb from generate_series(1, 500) as i \
         union all select 'b' || i, 't.b', 'k', 'b', '{}'::jsonb from generate_series(1, 5) as i",
    );
    block_on(async {
        let source = harness.open("one").await;
        let away = Destination { sink: "sink".into(), topic: "t.a".into() };
        let holds = Holds { allowances: HashMap::from([(away, 0)]), ..Holds::default() };
        let held = Ask { holds: Arc::new(holds), ..ask_for(10) };
        assert_eq!(source.drain(&held).await, OF_B);
        assert_eq!(source.drain(&ask_for(100)).await.len(), 500);
        source.retire().await.unwrap();
    });
}

/// SRC-04: an entry that commits late stands before those that were handed out meanwhile; the later ones of its key that were
/// written after it committed do not overtake it, however busy the table is.
#[test]
fn f2_a_late_row_is_not_overtaken_by_its_keys_next_one() {
    let harness = Harness::new(status_layout(Order::Key), &status_tables());
    let row = |id: &str, key: &str| {
        format!(
            "insert into letters (event_id, event_type, kind, subject, payload, created_at, status) \
             values ('{id}', 't.a', 'k', '{key}', '{{}}', now(), 'NEW')"
        )
    };
    block_on(async {
        let source = harness.open("one").await;
        let (late, connection) =
            tokio_postgres::connect(&harness.database.url(), tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        late.batch_execute(&format!("begin; {}", row("first", "late"))).await.unwrap();
        for number in 0..50 {
            harness.database.query(&row(&format!("o{number}"), "other"));
        }
        // In hand, and the mark is behind the row that is not committed yet.
        let before = source.take(&ask_for(20)).await;
        assert_eq!(before.entries.len(), 20);
        late.batch_execute("commit").await.unwrap();
        harness.database.query(&row("second", "late"));
        source.finish(before, |_| Settlement::Published).await;
        let came = source.drain(&ask_for(100)).await;
        let place = |id: &str| came.iter().position(|one| one == id);
        assert!(place("first").is_some() && place("first") < place("second"), "{came:?}");
        assert_eq!(came.len(), 32);
    });
}

/// F2: a row that somebody has locked holds back its own key, in order, and no other; nobody waits for the lock.
#[test]
fn f2_a_locked_row_holds_back_its_own_key_alone() {
    let harness = Harness::new(status_layout(Order::Key), &status_tables());
    fill(&harness, 600);
    block_on(async {
        let source = harness.open("one").await;
        let (other, connection) =
            tokio_postgres::connect(&harness.database.url(), tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        other.batch_execute("begin; select 1 from letters where event_id = 'a1' for update").await.unwrap();
        assert_eq!(source.drain(&ask_for(10)).await, OF_B);
        other.batch_execute("commit").await.unwrap();
        let came = source.drain(&ask_for(100)).await;
        assert_eq!(came, (1..=600).map(|number| format!("a{number}")).collect::<Vec<_>>());
    });
}

/// Issue 4: a hundred rows of one key at the head that the relay holds, in each of the ways of a status table.
#[test]
fn f2_a_hundred_rows_of_a_held_key_let_the_others_flow() {
    for harness in [
        Harness::new(status_layout(Order::Key), &status_tables()),
        Harness::new(logistics_layout(), &logistics_tables()),
    ] {
        if harness.layout.table.as_str() == "letters" {
            fill(&harness, 100);
        } else {
            harness.database.query(
                "insert into outbox_events (event_id, event_type, aggregate_type, aggregate_id, payload, retry_count, next_attempt_at) \
                 select 'a' || i, 't.a', 'k', 'a', '{}'::jsonb, 1, now() + interval '60 s' from generate_series(1, 100) as i \
                 union all select 'b' || i, 't.b', 'k', 'b', '{}'::jsonb, 0, null from generate_series(1, 5) as i",
            );
        }
        block_on(async {
            let source = harness.open("one").await;
            let holds = Holds { keys: [Key::new("k", "a".to_owned())].into(), ..Holds::default() };
            let held = Ask { holds: Arc::new(holds), ..ask_for(2) };
            assert_eq!(source.drain(&held).await, OF_B, "in claims of two, behind the hundred");
            harness.pass(Duration::from_secs(60)).await;
            assert_eq!(source.drain(&ask_for(10)).await.len(), 100, "and they come when their time has");
        });
    }
}
