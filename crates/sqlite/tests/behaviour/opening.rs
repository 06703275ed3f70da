//! What is refused before anything runs, and what an adopted table needs.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{Relay, STATUS_TABLE, ask, envelope, native, outbox_file, status_layout};
use postrider_conformance::clock::ManualClock;
use postrider_core::layout::{Identifier, Order, Way};
use postrider_core::source::{Claimed, Source, SourceError};
use postrider_core::{Fault, Layout};
use postrider_sqlite::{Config, Outbox, Start, Weight, check, migrate, open_source, open_store};
use rusqlite::Connection;
use tempfile::NamedTempFile;

fn refused(config: &Config) -> Fault {
    let clock = Arc::new(ManualClock::default());
    let _ = open_store(config, clock.clone()).err();
    match open_source(config, clock) {
        Ok(_) => panic!("it opened"),
        Err(fault) => fault,
    }
}

/// F5: a database that is not there is named, and never created by accident.
#[test]
fn a_missing_file_is_named_and_not_created() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nowhere.db");
    let fault = refused(&Config::new(&path, native(), "test"));
    assert!(fault.problem.contains("no such database file") && fault.remedy.contains("migrate"), "{fault}");
    assert!(!path.exists());
}

/// F5: so is a file that is no database.
#[test]
fn a_file_that_is_no_database_is_named() {
    let file = NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "this is a letter, not a database, and it is longer than a header").unwrap();
    let fault = refused(&Config::new(file.path(), native(), "test"));
    assert!(fault.problem.contains("not a SQLite database"), "{fault}");
    assert_eq!(check(&Config::new(file.path(), native(), "test"))[0].weight, Weight::Fault);
}

/// F5: an impossible mapping names the table and the missing column.
#[test]
fn a_missing_table_or_column_is_named() {
    let file = NamedTempFile::new().unwrap();
    let config = Config::new(file.path(), native(), "test");
    assert!(refused(&config).problem.contains("table \"outbox\" is missing"));
    let connection = Connection::open(file.path()).unwrap();
    connection
        .execute_batch("create table outbox (id integer primary key autoincrement, evnt_id text, type text)")
        .unwrap();
    let fault = refused(&config);
    assert!(fault.problem.contains("\"event_id\"") && fault.problem.contains("\"payload\""), "{fault}");
    assert!(fault.remedy.contains("columns.event_id") && fault.remedy.contains("\"evnt_id\""), "{fault}");
    assert!(fault.place.contains("table \"outbox\""), "{fault}");
}

/// A cursor on a table that uses ids twice would lose events.
#[test]
fn a_cursor_without_autoincrement_is_refused() {
    let file = NamedTempFile::new().unwrap();
    let plain = include_str!("../../migrations/native.sql")
        .replace(" autoincrement", "")
        .replace("{table}", "outbox");
    Connection::open(file.path()).unwrap().execute_batch(&plain).unwrap();
    let config = Config::new(file.path(), native(), "test");
    migrate(&config).unwrap();
    assert!(refused(&config).problem.contains("autoincrement"));
    assert!(
        check(&config)
            .iter()
            .any(|found| found.weight == Weight::Fault && found.fault.problem.contains("autoincrement"))
    );
}

/// The ways that SQLite does not have are refused with the one that it has.
#[test]
fn hold_and_log_are_refused_with_the_remedy() {
    let file = NamedTempFile::new().unwrap();
    let fault = refused(&Config::new(file.path(), Layout::built_in("logistics").unwrap(), "test"));
    assert!(fault.problem.contains("way = \"hold\"") && fault.remedy.contains("lease"), "{fault}");
}

/// Without Postrider's own tables nothing runs.
#[test]
fn missing_own_tables_are_named() {
    let file = NamedTempFile::new().unwrap();
    Connection::open(file.path()).unwrap().execute_batch(STATUS_TABLE).unwrap();
    let config = Config::new(file.path(), status_layout(Order::Key), "test");
    assert!(refused(&config).remedy.contains("postrider migrate"));
    migrate(&config).unwrap();
    let findings = check(&config);
    assert!(findings.iter().all(|found| found.weight == Weight::Note), "{findings:?}");
}

/// Adoption: a table that has rows already is not read before somebody said from where.
#[tokio::test]
async fn a_table_with_rows_needs_a_start() {
    for (start, expected) in [
        (Start::Beginning, vec!["event-1", "event-2", "event-3", "event-4"]),
        (Start::Now, vec!["event-4"]),
        (Start::After(2), vec!["event-3", "event-4"]),
    ] {
        let file = outbox_file();
        let connection = Connection::open(file.path()).unwrap();
        let outbox = Outbox::new(&native()).unwrap();
        outbox.append_all(&connection, &[envelope(1), envelope(2)]).unwrap();
        outbox.append(&connection, &envelope(3)).unwrap();
        connection.execute("delete from postrider_position", []).unwrap();
        let config = Config::new(file.path(), native(), "test");
        assert!(refused(&config).remedy.contains("start = \"beginning\""));
        let relay = Relay::open(&config.start(start));
        outbox.append(&connection, &envelope(4)).unwrap();
        assert_eq!(relay.drain().await, expected);
    }
}

/// Ids that go backwards stop the relay with the remedy, and the remedy works.
#[tokio::test]
async fn ids_that_go_backwards_stop_the_relay() {
    let file = outbox_file();
    let connection = Connection::open(file.path()).unwrap();
    let outbox = Outbox::new(&native()).unwrap();
    let config = Config::new(file.path(), native(), "test");
    let relay = Relay::open(&config);
    outbox.append_all(&connection, &[envelope(1), envelope(2)]).unwrap();
    relay.drain().await;
    connection
        .execute_batch("delete from outbox; delete from sqlite_sequence where name = 'outbox'")
        .unwrap();
    outbox.append(&connection, &envelope(3)).unwrap();
    match relay.source.claim(&ask()).await {
        Err(SourceError::Broken(fault)) => {
            assert!(fault.problem.contains("backwards") && fault.remedy.contains("start"), "{fault}")
        }
        other => panic!("{}", other.is_ok()),
    }
    relay.source.retire().await.unwrap();
    let relay = Relay::open(&config.start(Start::Beginning));
    assert_eq!(relay.drain().await, ["event-3"]);
}

/// Two outboxes live in one file, and know nothing of each other.
#[tokio::test]
async fn two_outboxes_live_in_one_file() {
    let file = outbox_file();
    let one = Config::new(file.path(), native(), "test");
    let two = one.clone().table(Identifier::new("other outbox").unwrap());
    migrate(&two).unwrap();
    let connection = Connection::open(file.path()).unwrap();
    Outbox::new(&one.layout).unwrap().append(&connection, &envelope(1)).unwrap();
    Outbox::new(&two.layout).unwrap().append(&connection, &envelope(2)).unwrap();
    let (one, two) = (Relay::open(&one), Relay::open(&two));
    assert_eq!(
        (one.drain().await, two.drain().await),
        (vec!["event-1".to_owned()], vec!["event-2".to_owned()])
    );
}

/// A locked database is unreachable for a while, not broken.
#[tokio::test]
async fn a_locked_database_is_unreachable() {
    let file = outbox_file();
    let mut connection = Connection::open(file.path()).unwrap();
    Outbox::new(&native()).unwrap().append(&connection, &envelope(1)).unwrap();
    let config =
        Config { busy_timeout: Duration::from_millis(1), ..Config::new(file.path(), native(), "test") };
    let relay = Relay::open(&config);
    let writer = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).unwrap();
    assert!(matches!(relay.source.claim(&ask()).await, Err(SourceError::Unreachable(_))));
    drop(writer);
    assert_eq!(relay.drain().await, ["event-1"]);
}

/// F2: `check` says what order the table can give, and which index is missing.
#[test]
fn check_names_the_order_and_a_missing_index() {
    let file = NamedTempFile::new().unwrap();
    let connection = Connection::open(file.path()).unwrap();
    connection.execute_batch(crate::common::ORDER_SERVICE_TABLE).unwrap();
    let layout = Layout { order: Order::Key, ..Layout::built_in("order-service").unwrap() };
    let config = Config::new(file.path(), layout, "test");
    migrate(&config).unwrap();
    let texts: Vec<String> =
        check(&config).iter().map(|found| format!("{:?} {}", found.weight, found.fault)).collect();
    assert!(texts[0].starts_with("Advice") && texts[0].contains("create index"), "{texts:?}");
    assert!(texts[1].contains("ids do not count"), "{texts:?}");
    let advice = check(&config).swap_remove(0).fault.remedy;
    connection.execute_batch(&advice).unwrap();
    assert_eq!(check(&config).len(), 1);
}

/// A claim whose answer nobody waits for any more is given back at once.
#[tokio::test]
async fn a_claim_that_nobody_waits_for_is_given_back() {
    for layout in [native(), status_layout(Order::None)] {
        let file = NamedTempFile::new().unwrap();
        Connection::open(file.path()).unwrap().execute_batch(STATUS_TABLE).unwrap();
        let config = Config::new(file.path(), layout, "test");
        migrate(&config).unwrap();
        let connection = Connection::open(file.path()).unwrap();
        Outbox::new(&config.layout).unwrap().append(&connection, &envelope(1)).unwrap();
        let relay = Relay::open(&config);
        {
            let ask = ask();
            let mut claim = Box::pin(relay.source.claim(&ask));
            // On a busy machine the thread may answer within the first poll: then nobody has stopped waiting.
            if let Some(Ok(Claimed::Batch(answered))) = futures_util::FutureExt::now_or_never(&mut claim) {
                relay.source.release(answered.hold).await.unwrap();
            }
        }
        match relay.source.claim(&ask()).await.unwrap() {
            Claimed::Batch(claim) => assert_eq!(claim.entries.len(), 1),
            Claimed::Nothing(_) | Claimed::Standby => panic!("it was not given back"),
        }
    }
}

/// The table's own way on another table name.
#[test]
fn a_way_can_be_overridden() {
    let file = NamedTempFile::new().unwrap();
    let connection = Connection::open(file.path()).unwrap();
    connection.execute_batch(crate::common::LOGISTICS_TABLE).unwrap();
    let config = Config::new(file.path(), Layout::built_in("logistics").unwrap(), "test").way(Way::Lease);
    migrate(&config).unwrap();
    assert!(open_source(&config, Arc::new(ManualClock::default())).is_ok());
}

/// Only what relays and migrates switches an application's file to the write-ahead log.
#[test]
fn looking_at_a_file_leaves_its_journal_alone() {
    let file = outbox_file();
    let mode = |sql: &str| {
        Connection::open(file.path()).unwrap().query_row(sql, [], |row| row.get::<_, String>(0)).unwrap()
    };
    assert_eq!(mode("pragma journal_mode = delete"), "delete");
    let config = Config::new(file.path(), native(), "test");
    assert!(check(&config).iter().all(|found| found.weight != Weight::Fault));
    drop(open_store(&config, Arc::new(ManualClock::default())).unwrap());
    assert_eq!(mode("pragma journal_mode"), "delete");
    let _relay = Relay::open(&config);
    assert_eq!(mode("pragma journal_mode"), "wal");
}
