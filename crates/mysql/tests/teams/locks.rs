//! Rows that somebody else has locked, and relays side by side.

use std::collections::HashSet;

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use postrider_core::layout::Order;
use postrider_core::source::{Claimed, Source};
use postrider_core::{Entry, Settlement};

use crate::common::tables::{STATUS_TABLES, status_layout};
use crate::common::{Harness, ask, ask_for, block_on};
use postrider_conformance::source::SourceHarness;

mod on_mariadb {
    #[test]
    fn a_locked_row_is_passed_by() {
        super::a_locked_row_is_passed_by(&postrider_servers::mariadb());
    }
    #[test]
    fn a_claim_locks_what_it_takes_only() {
        super::a_claim_locks_what_it_takes_only(&postrider_servers::mariadb());
    }
    #[test]
    fn several_relays_publish_each_row_once() {
        super::several_relays_publish_each_row_once(&postrider_servers::mariadb());
    }
}

mod on_mysql {
    #[test]
    fn a_locked_row_is_passed_by() {
        if let Some(server) = postrider_servers::mysql() {
            super::a_locked_row_is_passed_by(&server);
        }
    }
    #[test]
    fn a_claim_locks_what_it_takes_only() {
        if let Some(server) = postrider_servers::mysql() {
            super::a_claim_locks_what_it_takes_only(&server);
        }
    }
    #[test]
    fn several_relays_publish_each_row_once() {
        if let Some(server) = postrider_servers::mysql() {
            super::several_relays_publish_each_row_once(&server);
        }
    }
}

fn letters(harness: &Harness, subjects: &[&str]) {
    for (at, subject) in subjects.iter().enumerate() {
        harness.database.query(&format!(
            "insert into letters (event_id, event_type, kind, subject, payload, created_at, status) values \
             ('{subject}{at}', 'x', 'Order', '{subject}', '{{}}', '1970-01-01', 'NEW')"
        ));
    }
}

/// Somebody at a terminal who has begun to change a row.
async fn lock(harness: &Harness, id: u32) -> Conn {
    let mut conn = Conn::from_url(harness.database.url()).await.unwrap();
    conn.query_drop(format!("begin; update letters set payload = '[]' where id = {id}")).await.unwrap();
    conn
}

fn ids(entries: &[Entry]) -> Vec<String> {
    entries.iter().map(|entry| entry.envelope.id.to_string()).collect()
}

/// A5, SRC-04: a locked row is passed by at once, and where order is kept so is its key; it comes when it is free.
fn a_locked_row_is_passed_by(server: &str) {
    for (order, first) in [(Order::None, vec!["b1", "a2", "b3"]), (Order::Key, vec!["b1", "b3"])] {
        let harness = Harness::on(server, status_layout(order), STATUS_TABLES);
        letters(&harness, &["a", "b", "a", "b"]);
        block_on(async {
            let relay = harness.open("relay").await;
            let mut somebody = lock(&harness, 1).await;
            let claim = relay.take(&ask()).await;
            assert_eq!(ids(&claim.entries), first, "{order:?}");
            relay.finish(claim, |_| Settlement::Published).await;
            let nothing = relay.claim(&ask()).await.unwrap();
            assert!(matches!(nothing, Claimed::Nothing(idle) if idle.elsewhere), "{order:?}");
            somebody.query_drop("commit").await.unwrap();
            let rest = relay.drain(&ask()).await;
            assert_eq!(rest.len() + first.len(), 4, "{order:?}: {rest:?}");
            assert_eq!(rest[0], "a0");
        });
    }
}

/// A5: a claim locks no row that it does not take, and whoever writes is not kept waiting by one.
fn a_claim_locks_what_it_takes_only(server: &str) {
    let harness = Harness::on(server, status_layout(Order::None), STATUS_TABLES);
    letters(&harness, &["a", "b", "c", "d"]);
    block_on(async {
        let (one, other) = (harness.open("one").await, harness.open("other").await);
        let first = one.take(&ask_for(2)).await;
        let second = other.take(&ask_for(2)).await;
        assert_eq!(
            (ids(&first.entries), ids(&second.entries)),
            (vec!["a0".into(), "b1".into()], vec!["c2".into(), "d3".into()])
        );
        // Nothing is locked while they are published: the settlements of the two cross.
        let mut somebody = lock(&harness, 1).await;
        other.finish(second, |_| Settlement::Published).await;
        somebody.query_drop("commit").await.unwrap();
        one.finish(first, |_| Settlement::Published).await;
    });
    assert_eq!(harness.value("select count(*) from letters where status = 'SENT'").unwrap(), "4");
}

/// E3, SRC-02: several relays side by side publish each row once, and give way to each other where they must.
fn several_relays_publish_each_row_once(server: &str) {
    let harness = Harness::on(server, status_layout(Order::None), STATUS_TABLES);
    let subjects: Vec<String> = (0..300).map(|n| format!("s{n}-")).collect();
    let rows: Vec<String> = subjects
        .iter()
        .map(|subject| format!("('{subject}', 'x', 'Order', '{subject}', '{{}}', '1970-01-01', 'NEW')"))
        .collect();
    harness.database.query(&format!(
        "insert into letters (event_id, event_type, kind, subject, payload, created_at, status) values {}",
        rows.join(", ")
    ));
    let came: Vec<String> = std::thread::scope(|scope| {
        let relays: Vec<_> = (0..4)
            .map(|at| {
                let harness = &harness;
                scope.spawn(move || {
                    let mut came = Vec::new();
                    block_on(async {
                        let relay = harness.open(&format!("relay-{at}")).await;
                        came = relay.drain(&ask_for(7)).await;
                    });
                    came
                })
            })
            .collect();
        relays.into_iter().flat_map(|relay| relay.join().unwrap()).collect()
    });
    assert_eq!(came.len(), came.iter().collect::<HashSet<_>>().len(), "one came twice");
    // One that was locked when its relay looked may be left: nothing is lost.
    let mut rest = Vec::new();
    block_on(async { rest = harness.open("last").await.drain(&ask()).await });
    assert_eq!(came.len() + rest.len(), 300);
}
