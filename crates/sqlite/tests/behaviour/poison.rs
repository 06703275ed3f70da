//! Rows that nobody can read: they come with their flaw, and hold up nobody else.

use std::sync::Arc;

use crate::common::{Relay, STATUS_TABLE, ask, full_status_layout, status_layout};
use postrider_conformance::clock::ManualClock;
use postrider_core::layout::{OnDead, Order};
use postrider_core::source::{Claim, Claimed, Source};
use postrider_core::store::{Filter, Store};
use postrider_core::verdict::Reason;
use postrider_core::{Layout, Settlement, limits};
use postrider_sqlite::{Config, migrate, open_store};
use rusqlite::Connection;
use tempfile::NamedTempFile;

/// Bytes and broken text in the key, text where numbers belong.
const POISON: &str = "
    insert into full_letters (id, event_id, event_type, kind, subject, payload, created_at, status, retry_count, next_retry_at, version)
    values
    (1, 'bytes', 't', x'ff41', 'a', '{}', 1, 'PENDING', 0, null, 0),
    (2, 'no-utf-8', 't', 'k', cast(x'ff42' as text), '{}', 1, 'PENDING', 0, null, 0),
    (3, 'version', 't', 'k', 'c', '{}', 1, 'PENDING', 0, null, 'seven'),
    (4, 'fraction', 't', 'k', 'd', '{}', 1, 'PENDING', 0, null, 1.5),
    (5, 'last-version', 't', 'k', 'e', '{}', 1, 'PENDING', 0, null, 9223372036854775807),
    (6, 'retries', 't', 'k', 'f', '{}', 1, 'PENDING', 'many', null, 0),
    (7, 'not-before', 't', 'k', 'g', '{}', 1, 'PENDING', 0, 'soon', 0),
    (8, 'bytes-before', 't', 'k', 'h', '{}', 1, 'PENDING', 0, x'ff', x'ff'),
    (9, 'whole', 't', 'k', 'i', '{}', 1, 'PENDING', 0, null, null),
    (10, 'behind', 't', 'k', 'c', '{}', 1, 'PENDING', 0, null, 0);
";

fn table(layout: Layout) -> (NamedTempFile, Config) {
    let file = NamedTempFile::new().unwrap();
    Connection::open(file.path()).unwrap().execute_batch(STATUS_TABLE).unwrap();
    let config = Config::new(file.path(), Layout { on_dead: OnDead::Hold, ..layout }, "relay");
    migrate(&config).unwrap();
    (file, config)
}

/// Publishes what has no flaw and gives up what has one, as a relay does; answers both by their events' ids.
async fn work(relay: &Relay) -> (Vec<String>, Vec<String>) {
    let (mut published, mut dead) = (Vec::new(), Vec::new());
    while let Claimed::Batch(Claim { mut hold, entries, .. }) = relay.source.claim(&ask()).await.unwrap() {
        let settle = |(at, entry): (usize, &postrider_core::Entry)| match &entry.flaw {
            Some(flaw) => (at, Settlement::Dead { retries: 0, reason: Reason::new(&flaw.0) }),
            None => (at, Settlement::Published),
        };
        let settlements: Vec<_> = entries.iter().enumerate().map(settle).collect();
        relay.source.settle(&mut hold, &settlements).await.unwrap();
        relay.source.release(hold).await.unwrap();
        for entry in entries {
            let list = if entry.flaw.is_some() { &mut dead } else { &mut published };
            list.push(entry.envelope.id.to_string());
        }
    }
    (published, dead)
}

async fn looks_well(config: &Config, dead: u64) {
    let store = open_store(config, Arc::new(ManualClock::default())).unwrap();
    assert_eq!(store.depth().await.unwrap().dead, dead);
    let listed = store.list(&Filter::default()).await.unwrap();
    assert!(listed.len() as u64 > dead, "{listed:?}");
}

/// SRC-08: a row that cannot be read is handed out with its flaw, and the rest flows on, across restarts.
#[tokio::test]
async fn poison_rows_stop_nobody_else() {
    let (file, config) = table(full_status_layout(Order::Key));
    Connection::open(file.path()).unwrap().execute_batch(POISON).unwrap();
    looks_well(&config, 0).await;
    let relay = Relay::open(&config);
    let (published, dead) = work(&relay).await;
    assert_eq!(dead, ["bytes", "no-utf-8", "version", "fraction", "bytes-before"]);
    assert_eq!(&published[..4], ["last-version", "retries", "not-before", "whole"]);
    looks_well(&config, 5).await;
    drop(relay);
    let later = ManualClock::default();
    later.advance(std::time::Duration::from_secs(3_600));
    let relay = Relay::with_clock(&config, later);
    assert!(work(&relay).await.1.is_empty());
    looks_well(&config, 5).await;
    Connection::open(file.path())
        .unwrap()
        .execute_batch("insert into full_letters (id, event_id, event_type, kind, subject, payload, created_at, status) values (11, 'next', 't', 'k', 'z', '{}', 1, 'PENDING')")
        .unwrap();
    assert_eq!(work(&relay).await.0, ["next"]);
}

/// The same where everything is kept beside the table.
#[tokio::test]
async fn poison_rows_stop_nobody_else_where_state_is_kept_beside() {
    let (file, config) = table(status_layout(Order::Key));
    let connection = Connection::open(file.path()).unwrap();
    connection
        .execute_batch(
            "insert into letters values
             (1, 'bytes', 't', x'ff41', 'a', '{}', '2026-01-01 00:00:00', 'NEW'),
             (2, 'no-utf-8', 't', 'k', cast(x'ff42' as text), '{}', '2026-01-01 00:00:00', 'NEW'),
             (3, 'time', 't', 'k', 'c', '{}', x'00', 'NEW'),
             (4, 'held', 't', 'k', 'c', '{}', '2026-01-01 00:00:00', 'NEW'),
             (5, 'whole', 't', 'k', 'd', '{}', '2026-01-01 00:00:00', 'NEW')",
        )
        .unwrap();
    for (published, dead) in [(vec!["whole"], vec!["bytes", "no-utf-8", "time"]), (vec![], vec![])] {
        let clock = ManualClock::default();
        clock.advance(std::time::Duration::from_secs(if dead.is_empty() { 3_600 } else { 0 }));
        let relay = Relay::with_clock(&config, clock);
        let (came, given_up) = work(&relay).await;
        // What stood in the same batch as the dead head of its key was handed out with it.
        let came: Vec<_> = came.into_iter().filter(|id| id != "held").collect();
        assert_eq!(
            (came, given_up),
            (
                published.iter().map(ToString::to_string).collect(),
                dead.iter().map(ToString::to_string).collect()
            )
        );
        looks_well(&config, 3).await;
    }
}

/// SRC-07, SRC-08: a payload that is too large is not read: it comes as a flaw with its size.
#[tokio::test]
async fn a_payload_that_is_too_large_is_not_read() {
    let (file, config) = table(status_layout(Order::Key));
    let size = limits::PAYLOAD_BYTES_MAX + 1;
    Connection::open(file.path())
        .unwrap()
        .execute_batch(&format!(
            "insert into letters values
             (1, 'large', 't', 'k', 'a', zeroblob({size}), '2026-01-01 00:00:00', 'NEW'),
             (2, 'small', 't', 'k', 'b', '{{}}', '2026-01-01 00:00:00', 'NEW')"
        ))
        .unwrap();
    let relay = Relay::open(&config);
    let Claimed::Batch(Claim { entries, .. }) = relay.source.claim(&ask()).await.unwrap() else {
        panic!("nothing")
    };
    assert_eq!(entries.len(), 2);
    let flaw = entries[0].flaw.as_ref().unwrap();
    assert!(flaw.0.contains(&format!("{size} bytes")), "{flaw:?}");
    assert!(entries[0].envelope.data.is_empty() && entries[1].flaw.is_none());
}
