//! The suite of locks on names, over PostgreSQL.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use postrider_conformance::lock::LockHarness;
use postrider_core::Layout;
use postrider_core::lock::Held;
use postrider_postgres::{Config, Locks, migrate};
use postrider_servers::Database;
use tokio_postgres::{Client, NoTls};

struct Harness {
    database: Database,
    locks: Locks,
}

impl Harness {
    fn new() -> Self {
        let database = Database::create_blocking();
        database.query(
            "create table clock (at timestamptz not null); insert into clock values ('1970-01-02'); \
             create function moved() returns timestamptz language sql volatile as 'select at from clock'; \
             create table lines (n serial primary key, line text)",
        );
        let layout = Layout::built_in("native").unwrap();
        let config = Config::new(&database.url(), layout.clone(), "test").unwrap();
        block_on(async { migrate(&config).await.map(drop).unwrap() });
        Self { database, locks: Locks::by(&layout, "moved()") }
    }
}

impl LockHarness for Harness {
    type Connection = Client;

    async fn connect(&self) -> Client {
        let (client, connection) = tokio_postgres::connect(&self.database.url(), NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    async fn take(&self, client: &mut Client, name: &str, ttl: Duration) -> Option<Held> {
        self.locks.take(client, name, "test", ttl).await.unwrap()
    }

    async fn renew(&self, client: &mut Client, held: &Held, ttl: Duration) -> bool {
        self.locks.renew(client, held, ttl).await.unwrap()
    }

    async fn release(&self, client: &mut Client, held: &Held) -> bool {
        self.locks.release(client, held).await.unwrap()
    }

    async fn begin(&self, client: &mut Client) {
        client.batch_execute("begin").await.unwrap();
    }

    async fn check(&self, client: &mut Client, held: &Held) -> bool {
        self.locks.check(client, held).await.unwrap()
    }

    async fn write(&self, client: &mut Client, line: &str) {
        client.execute("insert into lines (line) values ($1)", &[&line]).await.unwrap();
    }

    async fn commit(&self, client: &mut Client) {
        client.batch_execute("commit").await.unwrap();
    }

    async fn written(&self) -> Vec<String> {
        let client = self.connect().await;
        let rows = client.query("select line from lines order by n", &[]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }

    async fn pass(&self, span: Duration) {
        self.database
            .query(&format!("update clock set at = at + {} * interval '1 microsecond'", span.as_micros()));
    }
}

fn block_on(future: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future);
}

postrider_conformance::lock_suite!(block_on, Harness::new());

/// A3: by the server's own clock, and beside an outbox that is there.
#[test]
fn a_lock_is_taken_by_the_servers_own_clock() {
    let harness = Harness::new();
    let locks = Locks::new(&Layout::built_in("native").unwrap());
    block_on(async {
        let client = harness.connect().await;
        let hour = Duration::from_secs(3600);
        let held = locks.take(&client, "guest:1", "donation-1", hour).await.unwrap().unwrap();
        assert!(locks.take(&client, "guest:1", "donation-2", hour).await.unwrap().is_none());
        let left =
            "select owner || (expires_at - now() between '59 minutes' and '61 minutes') from postrider_locks";
        assert_eq!(harness.database.query(left), [[Some("donation-1true".to_owned())]]);
        assert!(locks.release(&client, &held).await.unwrap());
    });
}
