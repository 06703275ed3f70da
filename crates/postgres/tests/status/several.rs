//! Several relays side by side.

use std::collections::HashMap;
use std::time::Duration;

use postrider_conformance::source::SourceHarness;
use postrider_core::layout::Order;
use postrider_core::source::{Claimed, Source};
use postrider_core::{Layout, Settlement};

use crate::common::tables::{
    LOGISTICS, deleting_layout, full_status_layout, logistics_layout, logistics_tables, status_layout,
    status_tables,
};
use crate::common::{Harness, ask_for, block_on};

const EVENTS: usize = 3_000;

fn fill(harness: &Harness) {
    let (table, columns, values) = match harness.layout.table.as_str() {
        "full_letters" => (
            "full_letters",
            "event_type, kind, subject, payload, created_at, status",
            "'t', 'k', 's', '{}', 0, 'PENDING'",
        ),
        "outbox_events" => (
            "outbox_events",
            "event_type, aggregate_type, aggregate_id, payload, status",
            "'t', 'k', 's', '{}', 'PENDING'",
        ),
        table => (
            table,
            "event_type, kind, subject, payload, created_at, status",
            "'t', 'k', 's', '{}', now(), 'NEW'",
        ),
    };
    harness.database.query(&format!(
        "insert into {table} (event_id, {columns}) select 'e' || i, {values} from generate_series(1, {EVENTS}) as i"
    ));
}

/// Three relays drain it together; answers how often each event came.
fn drain_together(harness: &Harness) -> (HashMap<String, usize>, Vec<usize>) {
    let drained: Vec<Vec<String>> = std::thread::scope(|scope| {
        let drain = |holder: &'static str| {
            scope.spawn(move || {
                let mut came = Vec::new();
                block_on(async {
                    let source = harness.open(holder).await;
                    came = source.drain(&ask_for(50)).await;
                    source.retire().await.unwrap();
                });
                came
            })
        };
        ["one", "two", "three"].map(drain).into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut counts = HashMap::new();
    drained.iter().flatten().for_each(|id| *counts.entry(id.clone()).or_default() += 1);
    (counts, drained.iter().map(Vec::len).collect())
}

fn each_comes_once(harness: &Harness) {
    fill(harness);
    let (mut counts, _) = drain_together(harness);
    // One that found nothing may have looked while another had it in its hands, and given up.
    block_on(async {
        let late = harness.open("late").await;
        late.drain(&ask_for(50)).await.into_iter().for_each(|id| *counts.entry(id).or_default() += 1);
    });
    assert_eq!(counts.len(), EVENTS, "none is lost");
    assert_eq!(counts.values().copied().max(), Some(1), "none comes twice");
}

/// C2: each row once.
#[test]
fn c2_three_relays_lease_each_row_once() {
    each_comes_once(&Harness::new(status_layout(Order::None), &status_tables()));
}

#[test]
fn c2_three_relays_lease_each_row_once_in_its_own_columns() {
    each_comes_once(&Harness::new(full_status_layout(Order::None), &status_tables()));
}

#[test]
fn c2_three_relays_lease_each_row_once_and_delete_it() {
    each_comes_once(&Harness::new(deleting_layout(Order::None), &status_tables()));
}

/// D2: each event once.
#[test]
fn d2_three_relays_hold_each_row_once() {
    each_comes_once(&Harness::new(logistics_layout(), &logistics_tables()));
}

/// F2: where order is kept one relay is active, and the others stand by until it is gone.
#[test]
fn f2_where_order_is_kept_one_relay_is_active() {
    let harness = Harness::new(status_layout(Order::Key), &status_tables());
    fill(&harness);
    block_on(async {
        let (one, two) = (harness.open("one").await, harness.open("two").await);
        let claim = one.take(&ask_for(10)).await;
        assert!(matches!(two.claim(&ask_for(10)).await.unwrap(), Claimed::Standby));
        one.finish(claim, |_| Settlement::Published).await;
        assert!(matches!(two.claim(&ask_for(10)).await.unwrap(), Claimed::Standby));
        let held = one.take(&ask_for(10)).await;
        harness.pass(one.features().lease_ttl + Duration::from_millis(1)).await;
        // Taken over, what the predecessor held comes first.
        let taken = two.take(&ask_for(10)).await;
        assert_eq!(taken.entries[0].id, held.entries[0].id);
        assert!(matches!(one.claim(&ask_for(10)).await.unwrap(), Claimed::Standby));
    });
}

/// F8: a lease that ran out is free, one that is alive is not.
#[test]
fn f8_a_living_relays_rows_are_not_taken_and_a_dead_ones_are() {
    let harness = Harness::new(status_layout(Order::None), &status_tables());
    fill(&harness);
    block_on(async {
        let (one, two) = (harness.open("one").await, harness.open("two").await);
        let mut held = one.take(&ask_for(EVENTS)).await;
        assert_eq!(held.entries.len(), EVENTS);
        let ttl = one.features().lease_ttl;
        harness.pass(ttl - Duration::from_millis(1)).await;
        one.extend(&mut held.hold).await.unwrap();
        harness.pass(ttl - Duration::from_millis(1)).await;
        assert!(matches!(two.claim(&ask_for(10)).await.unwrap(), Claimed::Nothing(_)));
        harness.pass(Duration::from_millis(1)).await;
        let taken = two.take(&ask_for(10)).await;
        assert_eq!(taken.entries[0].id, held.entries[0].id);
    });
}

/// D1 as the team has it, under the three relays' statements: no index, column or default of theirs is needed.
#[test]
fn d2_the_teams_own_table_is_enough() {
    let harness = Harness::new(Layout::built_in("logistics").unwrap(), LOGISTICS);
    harness.database.query(&format!(
        "insert into outbox_events (id, event_type, aggregate_type, aggregate_id, payload) \
         select gen_random_uuid(), 't', 'k', gen_random_uuid(), '{{}}' from generate_series(1, {EVENTS})"
    ));
    let (counts, _) = drain_together(&harness);
    assert_eq!(counts.values().copied().max(), Some(1), "none comes twice");
}

/// C2, D2: relays side by side share the work, and none takes for the end what another has in its hands or has locked.
#[test]
fn c2_d2_relays_side_by_side_share_the_work() {
    for harness in [
        Harness::new(status_layout(Order::None), &status_tables()),
        Harness::new(full_status_layout(Order::None), &status_tables()),
        Harness::new(logistics_layout(), &logistics_tables()),
    ] {
        fill(&harness);
        block_on(async {
            let (one, two, three) =
                (harness.open("one").await, harness.open("two").await, harness.open("three").await);
            let mut ids = std::collections::BTreeSet::new();
            let mut claims = Vec::new();
            for _ in 0..4 {
                for source in [&one, &two, &three] {
                    let claim = source.take(&ask_for(50)).await;
                    assert_eq!(claim.entries.len(), 50, "what others have is passed by");
                    ids.extend(claim.entries.iter().map(|entry| entry.envelope.id.to_string()));
                    claims.push((source, claim));
                }
            }
            assert_eq!(ids.len(), 600, "and nobody has what another has");
            three.drain(&ask_for(1_000)).await;
            let Claimed::Nothing(idle) = three.claim(&ask_for(50)).await.unwrap() else {
                panic!("the rest is taken")
            };
            assert!(idle.elsewhere, "it is not the end: {idle:?}");
            for (source, claim) in claims {
                source.finish(claim, |_| Settlement::Published).await;
            }
            let Claimed::Nothing(idle) = three.claim(&ask_for(50)).await.unwrap() else {
                panic!("all of it is done")
            };
            assert!(!idle.elsewhere, "it is the end: {idle:?}");
        });
    }
}
