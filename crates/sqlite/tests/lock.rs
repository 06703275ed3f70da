//! The suite of locks on names, over SQLite.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use postrider_conformance::lock::LockHarness;
use postrider_core::Layout;
use postrider_core::lock::{Held, LockError};
use postrider_sqlite::{Config, Locks, migrate};
use rusqlite::{Connection, ErrorCode};
use tempfile::TempDir;

struct Harness {
    folder: TempDir,
    locks: Locks,
}

impl Harness {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let layout = Layout::built_in("native").unwrap();
        migrate(&Config::new(folder.path().join("shop.db"), layout.clone(), "test")).unwrap();
        // In a file of its own, so that moving the clock waits for no writer.
        let clock = Connection::open(folder.path().join("clock.db")).unwrap();
        clock
            .execute_batch(
                "pragma journal_mode = wal; create table clock (at integer); insert into clock values (1)",
            )
            .unwrap();
        let harness = Self { folder, locks: Locks::by(&layout, "(select at from moved.clock)") };
        harness.open().execute_batch("create table lines (n integer primary key, line text)").unwrap();
        harness
    }

    fn open(&self) -> Connection {
        let connection = Connection::open(self.folder.path().join("shop.db")).unwrap();
        let clock = self.folder.path().join("clock.db");
        connection.execute("attach ?1 as moved", [clock.to_str().unwrap()]).unwrap();
        connection.busy_timeout(Duration::ZERO).unwrap();
        connection
    }
}

/// Asks until no other writer is in the way.
async fn patiently<T, E>(mut ask: impl FnMut() -> Result<T, E>, is_busy: impl Fn(&E) -> bool) -> T
where
    E: std::fmt::Debug,
{
    loop {
        match ask() {
            Err(error) if is_busy(&error) => tokio::task::yield_now().await,
            answer => return answer.unwrap(),
        }
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
}

fn lock_is_busy(error: &LockError<rusqlite::Error>) -> bool {
    matches!(error, LockError::Database(error) if is_busy(error))
}

impl LockHarness for Harness {
    type Connection = Connection;

    async fn connect(&self) -> Connection {
        self.open()
    }

    async fn take(&self, connection: &mut Connection, name: &str, ttl: Duration) -> Option<Held> {
        match self.locks.take(connection, name, "test", ttl) {
            Err(error) if lock_is_busy(&error) => None,
            answer => answer.unwrap(),
        }
    }

    async fn renew(&self, connection: &mut Connection, held: &Held, ttl: Duration) -> bool {
        patiently(|| self.locks.renew(connection, held, ttl), lock_is_busy).await
    }

    async fn release(&self, connection: &mut Connection, held: &Held) -> bool {
        patiently(|| self.locks.release(connection, held), lock_is_busy).await
    }

    async fn begin(&self, connection: &mut Connection) {
        connection.execute_batch("begin").unwrap();
    }

    async fn check(&self, connection: &mut Connection, held: &Held) -> bool {
        patiently(|| self.locks.check(connection, held), lock_is_busy).await
    }

    async fn write(&self, connection: &mut Connection, line: &str) {
        patiently(|| connection.execute("insert into lines (line) values (?1)", [line]), is_busy).await;
    }

    async fn commit(&self, connection: &mut Connection) {
        patiently(|| connection.execute_batch("commit"), is_busy).await;
    }

    async fn written(&self) -> Vec<String> {
        let connection = self.open();
        let mut lines = connection.prepare("select line from lines order by n").unwrap();
        lines.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    async fn pass(&self, span: Duration) {
        let clock = Connection::open(self.folder.path().join("clock.db")).unwrap();
        clock.busy_timeout(Duration::from_secs(5)).unwrap();
        clock.execute("update clock set at = at + ?1", [i64::try_from(span.as_micros()).unwrap()]).unwrap();
    }
}

fn block_on(future: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future);
}

postrider_conformance::lock_suite!(block_on, Harness::new());

/// A3: taken before BEGIN and released after COMMIT, checked between: nothing else is taken for it.
#[test]
fn a_lock_has_its_place_outside_of_the_transaction() {
    let harness = Harness::new();
    let locks = Locks::new(&Layout::built_in("native").unwrap());
    let mut connection = harness.open();
    let hour = Duration::from_secs(3600);
    let held = locks.take(&connection, "guest:1", "donation-1", hour).unwrap().unwrap();
    assert!(matches!(locks.check(&connection, &held), Err(LockError::Refused(_))), "there is no transaction");
    let transaction = connection.transaction().unwrap();
    assert!(locks.check(&transaction, &held).unwrap());
    assert!(matches!(locks.take(&transaction, "guest:2", "x", hour), Err(LockError::Refused(_))));
    assert!(matches!(locks.release(&transaction, &held), Err(LockError::Refused(_))));
    transaction.commit().unwrap();
    let left: i64 = connection
        .query_row("select (expires_at / 1000000 - unixepoch()) / 60 from postrider_locks", [], |row| {
            row.get(0)
        })
        .unwrap();
    assert!((59..=60).contains(&left), "{left} minutes, by the database's own clock");
    assert!(locks.release(&connection, &held).unwrap());
}
