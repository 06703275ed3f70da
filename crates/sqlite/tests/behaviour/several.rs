//! Several processes on one file: writers that append, relays that compete, all at once.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use postrider_conformance::clock::ManualClock;
use postrider_core::clock::Clock;
use postrider_core::layout::Order;
use postrider_core::source::{Ask, Claim, Claimed, Source, SourceError};
use postrider_core::store::Store;
use postrider_core::{Layout, Settlement};
use postrider_sqlite::{Config, Outbox, SqliteSource, migrate, open_source, open_store};
use rusqlite::Connection;
use tempfile::NamedTempFile;

use crate::common::{STATUS_TABLE, ask, envelope, full_status_layout, native, status_layout};

const WRITERS: i32 = 3;
const EVENTS: i32 = 120;

/// What was published, in order, and how often.
type Published = Arc<Mutex<Vec<(String, String)>>>;

fn write(path: &std::path::Path, layout: &Layout, writer: i32) {
    let outbox = Outbox::new(layout).unwrap();
    let mut connection = Connection::open(path).unwrap();
    connection.busy_timeout(Duration::from_secs(30)).unwrap();
    for number in 0..EVENTS {
        let transaction =
            connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).unwrap();
        let mut event = envelope(number);
        event.id = format!("{writer}-{number:04}").into();
        event.aggregate_id = format!("{writer}").into();
        if number % 7 == 3 {
            event.id = format!("rolled-back-{writer}-{number}").into();
            outbox.append(&transaction, &event).unwrap();
            transaction.rollback().unwrap();
        } else {
            outbox.append(&transaction, &event).unwrap();
            transaction.commit().unwrap();
        }
    }
}

/// Claims, fails some entries now and then, publishes the rest; a failed entry takes those of its key with it, as a relay does.
async fn relay(source: &SqliteSource, clock: &ManualClock, published: &Published, done: &AtomicBool) {
    let mut round = 0;
    while !done.load(Ordering::SeqCst) {
        round += 1;
        clock.advance(Duration::from_millis(50));
        let ask = Ask { entries_max: 1 + round % 40, ..ask() };
        let Claim { mut hold, entries, .. } = match source.claim(&ask).await {
            Ok(Claimed::Batch(claim)) => claim,
            Ok(Claimed::Nothing(_) | Claimed::Standby) | Err(SourceError::Unreachable(_)) => {
                tokio::task::yield_now().await;
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        let mut failed = BTreeMap::new();
        let settlements: Vec<_> = entries
            .iter()
            .enumerate()
            .map(|(at, entry)| {
                let key = entry.envelope.aggregate_id.clone();
                if failed.contains_key(&key) {
                    return (at, Settlement::Released);
                }
                if (round + at) % 11 == 0 {
                    failed.insert(key, ());
                    let reason = postrider_core::verdict::Reason::new("now and then");
                    return (
                        at,
                        Settlement::Retried {
                            retries: entry.retries + 1,
                            after: Duration::from_millis(120),
                            reason,
                        },
                    );
                }
                (at, Settlement::Published)
            })
            .collect();
        let receipts = settlements.iter().filter(|(_, settlement)| *settlement == Settlement::Published);
        published.lock().unwrap().extend(receipts.map(|(at, _)| {
            (entries[*at].envelope.aggregate_id.to_string(), entries[*at].envelope.id.to_string())
        }));
        match source.settle(&mut hold, &settlements).await {
            Ok(()) => source.release(hold).await.unwrap(),
            Err(SourceError::Fenced | SourceError::Unreachable(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

fn several(layout: Layout) {
    let file = NamedTempFile::new().unwrap();
    Connection::open(file.path()).unwrap().execute_batch(STATUS_TABLE).unwrap();
    let config = |holder: &str| Config {
        busy_timeout: Duration::from_secs(30),
        ..Config::new(file.path(), layout.clone(), holder)
    };
    migrate(&config("migrate")).unwrap();
    let clock = ManualClock::default();
    let (published, done) = (Published::default(), Arc::new(AtomicBool::new(false)));
    let store = open_store(&config("store"), Arc::new(clock.clone())).unwrap();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (path, layout) = (file.path(), &layout);
            scope.spawn(move || write(path, layout, writer));
        }
        for holder in ["one", "two", "three"] {
            let source = open_source(&config(holder), Arc::new(clock.clone())).unwrap();
            let (clock, published, done) = (clock.clone(), Arc::clone(&published), Arc::clone(&done));
            scope.spawn(move || {
                tokio::runtime::Builder::new_current_thread()
                    .build()
                    .unwrap()
                    .block_on(relay(&source, &clock, &published, &done));
            });
        }
        let expected = (WRITERS * (0..EVENTS).filter(|number| number % 7 != 3).count() as i32) as u64;
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let deadline = std::time::Duration::from_secs(60);
        let give_up = std::thread::spawn(move || std::thread::park_timeout(deadline));
        loop {
            let depth = runtime.block_on(store.depth()).unwrap();
            if depth.published == expected || give_up.is_finished() {
                assert_eq!(depth.published, expected, "{depth:?}");
                break;
            }
            std::thread::yield_now();
        }
        give_up.thread().unpark();
        done.store(true, Ordering::SeqCst);
    });
    let came = published.lock().unwrap();
    assert!(
        came.iter().all(|(_, id)| !id.starts_with("rolled-back")),
        "nothing of a transaction that was rolled back"
    );
    let mut by_key: HashMap<&str, Vec<&str>> = HashMap::new();
    for (key, id) in came.iter() {
        let line = by_key.entry(key).or_default();
        // A duplicate comes only after its lease was overrun, and is told by its id.
        if !line.contains(&id.as_str()) {
            line.push(id);
        }
    }
    assert_eq!(by_key.len(), WRITERS as usize);
    assert!(clock.now().as_millisecond() > 0);
    for (key, line) in by_key {
        if layout.order == Order::Key {
            assert!(line.is_sorted(), "key {key} out of order: {line:?}");
        }
    }
}

/// F8, F2: nothing lost, nothing that was rolled back, each key in order, with three relays that take over from each other.
#[test]
fn three_relays_on_a_native_outbox() {
    several(native());
}

#[test]
fn three_relays_on_a_status_table_in_order() {
    several(status_layout(Order::Key));
}

#[test]
fn three_relays_on_a_status_table_with_every_column() {
    several(full_status_layout(Order::Key));
}

#[test]
fn three_relays_on_a_status_table_without_order() {
    several(status_layout(Order::None));
}
