//! Ids at the ends of what an id can be.

use crate::common::{Relay, native, outbox_file};
use postrider_sqlite::{Config, Start, Weight, check};
use rusqlite::Connection;
use tempfile::NamedTempFile;

/// An outbox that an application created itself, without Postrider's check on its ids.
fn adopted(ids: &[i64]) -> (NamedTempFile, Config) {
    let file = outbox_file();
    let connection = Connection::open(file.path()).unwrap();
    let table = include_str!("../../migrations/native.sql")
        .replace(" check (id > 0)", "")
        .replace("{table}", "outbox")
        .replace("'/{source}'", "'/shop'");
    connection.execute_batch(&format!("drop table outbox; delete from postrider_position; {table}")).unwrap();
    let config = Config::new(file.path(), native(), "test").start(Start::Beginning);
    for id in ids {
        insert(&config, *id);
    }
    (file, config)
}

fn insert(config: &Config, id: i64) {
    Connection::open(&config.path)
        .unwrap()
        .execute(
            "insert into outbox (id, event_id, type, aggregate_type, aggregate_id, payload) values (?1, ?1, 't', 'k', ?1, '{}')",
            [id],
        )
        .unwrap();
}

/// "beginning" is before the lowest id there is.
#[tokio::test]
async fn the_beginning_is_before_ids_below_one() {
    let (_file, config) = adopted(&[-5, 0, 1, 2]);
    assert_eq!(Relay::open(&config).drain().await, ["-5", "0", "1", "2"]);
}

/// A row that is written below the position is never read: `check` says so.
#[tokio::test]
async fn check_names_ids_below_one() {
    let (_file, config) = adopted(&[1]);
    assert_eq!(Relay::open(&config).drain().await, ["1"]);
    let advice = |config: &Config| {
        check(config)
            .into_iter()
            .filter(|found| found.weight == Weight::Advice)
            .map(|found| found.fault.problem)
            .collect::<Vec<_>>()
    };
    assert!(advice(&config).is_empty());
    insert(&config, 0);
    assert!(advice(&config)[0].contains("1 rows have an id of 0 or less"), "{:?}", advice(&config));
}

/// The native table takes no such id.
#[test]
fn the_native_table_refuses_ids_below_one() {
    let file = outbox_file();
    let insert = "insert into outbox (id, type, aggregate_type, aggregate_id) values (0, 't', 'k', '1')";
    assert!(Connection::open(file.path()).unwrap().execute(insert, []).is_err());
}

/// The largest id is published once, and not again by the next relay.
#[tokio::test]
async fn the_largest_id_is_published_once() {
    let (_file, config) = adopted(&[1, i64::MAX]);
    let relay = Relay::open(&config);
    assert_eq!(relay.drain().await, ["1", &i64::MAX.to_string()]);
    assert!(relay.drain().await.is_empty());
    let clock = relay.clock.clone();
    drop(relay);
    clock.advance(std::time::Duration::from_secs(60));
    assert!(Relay::with_clock(&config, clock).drain().await.is_empty());
}
