//! What the tests of the cursor share: servers, writers' connections, a source that is drained.

use std::sync::LazyLock;

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use postrider_core::source::{Claim, Claimed, Source};
use postrider_core::{Layout, Settlement};
use postrider_mysql::{MysqlSource, open_source};
use postrider_servers::PrivateMysql;

use crate::common::{Harness, ask_for};
use crate::wait;

pub(crate) fn native() -> Layout {
    Layout::built_in("native").unwrap()
}

/// A MariaDB and, where there is one, a MySQL that these tests have to themselves: everybody's transactions count for a cursor.
pub(crate) fn servers() -> impl Iterator<Item = String> {
    static MARIADB: LazyLock<PrivateMysql> = LazyLock::new(PrivateMysql::mariadb);
    static MYSQL: LazyLock<Option<PrivateMysql>> = LazyLock::new(PrivateMysql::mysql);
    [Some(MARIADB.url()), MYSQL.as_ref().map(PrivateMysql::url)].into_iter().flatten()
}

/// A connection of a writer's own.
pub(crate) async fn writer(outbox: &Harness) -> Conn {
    Conn::from_url(outbox.database.url()).await.unwrap()
}

pub(crate) fn insert(key: &str, version: i64) -> String {
    format!(
        "insert into outbox (type, aggregate_type, aggregate_id, payload) \
         values ('scene.row.written.v1', 'Row', '{key}', '{version}')"
    )
}

/// Writes a row; answers its id.
pub(crate) async fn append(conn: &mut Conn, key: &str, version: i64) -> i64 {
    run(conn, &insert(key, version)).await;
    i64::try_from(conn.last_insert_id().unwrap()).unwrap()
}

pub(crate) async fn run(conn: &mut Conn, sql: &str) {
    conn.query_drop(sql).await.unwrap_or_else(|error| panic!("{error}, of: {sql}"));
}

/// The first column of every row.
pub(crate) async fn numbers(conn: &mut Conn, sql: &str) -> Vec<i64> {
    conn.query(sql).await.unwrap_or_else(|error| panic!("{error}, of: {sql}"))
}

pub(crate) async fn source(outbox: &Harness, holder: &str) -> MysqlSource {
    open_source(&outbox.config(holder)).await.unwrap()
}

pub(crate) async fn publish<S: Source>(source: &S, claim: Claim<S::Hold>) {
    let Claim { mut hold, entries, .. } = claim;
    let all: Vec<_> = (0..entries.len()).map(|index| (index, Settlement::Published)).collect();
    source.settle(&mut hold, &all).await.unwrap();
    source.release(hold).await.unwrap();
}

/// Everything there is, published; the ids.
pub(crate) async fn drain(source: &MysqlSource) -> Vec<i64> {
    let mut came = Vec::new();
    loop {
        match source.claim(&ask_for(100)).await.unwrap() {
            Claimed::Batch(claim) => {
                came.extend(claim.entries.iter().map(|entry| entry.id.int().unwrap()));
                publish(source, claim).await;
            }
            Claimed::Nothing(idle) if idle.more => {}
            Claimed::Nothing(_) | Claimed::Standby => return came,
        }
    }
}

/// Ids that may still commit, as the source sees it.
pub(crate) async fn gaps_open(source: &MysqlSource) -> u64 {
    match source.claim(&ask_for(100)).await.unwrap() {
        Claimed::Nothing(idle) => idle.gaps_open,
        Claimed::Batch(_) | Claimed::Standby => panic!("there is nothing to claim"),
    }
}

/// Lets the source ask several times who is alive, which it does some 200 ms after a gap was noted.
pub(crate) async fn look(source: &MysqlSource) -> Vec<i64> {
    let mut came = Vec::new();
    for _ in 0..4 {
        came.extend(drain(source).await);
        wait::nap(220).await;
    }
    came.extend(drain(source).await);
    came
}
