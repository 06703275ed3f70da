//! The suite of locks on names, over MariaDB and MySQL.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use postrider_conformance::lock::LockHarness;
use postrider_core::Layout;
use postrider_core::lock::Held;
use postrider_mysql::{Config, Locks, migrate};
use postrider_servers::MysqlDatabase;

struct Harness {
    database: MysqlDatabase,
    locks: Locks,
}

impl Harness {
    fn on(server: &str) -> Self {
        let database = MysqlDatabase::create_blocking_on(server);
        // An engine without transactions shows the clock to all of them at once, and is locked by none.
        database.query(
            "create table clock (at datetime(6) not null) engine = MEMORY; insert into clock values ('1970-01-02'); \
             create table written_lines (n int auto_increment primary key, line varchar(100)) engine = InnoDB",
        );
        let layout = Layout::built_in("native").unwrap();
        let config = Config::new(&database.url(), layout.clone(), "test").unwrap();
        block_on(async { migrate(&config).await.map(drop).unwrap() });
        Self { database, locks: Locks::by(&layout, "(select at from clock)") }
    }
}

impl LockHarness for Harness {
    type Connection = Conn;

    async fn connect(&self) -> Conn {
        Conn::from_url(self.database.url()).await.unwrap()
    }

    async fn take(&self, conn: &mut Conn, name: &str, ttl: Duration) -> Option<Held> {
        self.locks.take(conn, name, "test", ttl).await.unwrap()
    }

    async fn renew(&self, conn: &mut Conn, held: &Held, ttl: Duration) -> bool {
        self.locks.renew(conn, held, ttl).await.unwrap()
    }

    async fn release(&self, conn: &mut Conn, held: &Held) -> bool {
        self.locks.release(conn, held).await.unwrap()
    }

    async fn begin(&self, conn: &mut Conn) {
        conn.query_drop("begin").await.unwrap();
    }

    async fn check(&self, conn: &mut Conn, held: &Held) -> bool {
        self.locks.check(conn, held).await.unwrap()
    }

    async fn write(&self, conn: &mut Conn, line: &str) {
        conn.exec_drop("insert into written_lines (line) values (?)", (line,)).await.unwrap();
    }

    async fn commit(&self, conn: &mut Conn) {
        conn.query_drop("commit").await.unwrap();
    }

    async fn written(&self) -> Vec<String> {
        let mut conn = self.connect().await;
        let lines = conn.query("select line from written_lines order by n").await.unwrap();
        conn.disconnect().await.unwrap();
        lines
    }

    async fn pass(&self, span: Duration) {
        self.database.query(&format!("update clock set at = at + interval {} microsecond", span.as_micros()));
    }
}

fn block_on(future: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future);
}

/// A case on MySQL, where there is one.
fn block_on_mysql(future: impl Future<Output = ()>) {
    if postrider_servers::mysql().is_some() {
        block_on(future);
    }
}

mod mariadb {
    use super::*;
    postrider_conformance::lock_suite!(block_on, Harness::on(&postrider_servers::mariadb()));
}

mod mysql {
    use super::*;
    // Without a MySQL server the cases are made over MariaDB's harness, and not run.
    postrider_conformance::lock_suite!(
        block_on_mysql,
        Harness::on(&postrider_servers::mysql().unwrap_or_else(postrider_servers::mariadb))
    );
}

/// A3: by the server's own clock, and beside an outbox that is there.
#[test]
fn a_lock_is_taken_by_the_servers_own_clock() {
    let harness = Harness::on(&postrider_servers::mariadb());
    let locks = Locks::new(&Layout::built_in("native").unwrap());
    block_on(async {
        let mut conn = harness.connect().await;
        let hour = Duration::from_secs(3600);
        let held = locks.take(&mut conn, "guest:1", "donation-1", hour).await.unwrap().unwrap();
        assert!(locks.take(&mut conn, "guest:1", "donation-2", hour).await.unwrap().is_none());
        let left = harness
            .database
            .query("select timestampdiff(minute, utc_timestamp(6), expires_at), owner from postrider_locks");
        assert_eq!(left, [[Some("59".to_owned()), Some("donation-1".to_owned())]]);
        assert!(locks.release(&mut conn, &held).await.unwrap());
    });
}
