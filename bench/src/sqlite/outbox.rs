//! Outboxes to measure on, full of pending entries.

use std::path::{Path, PathBuf};

use postrider_core::Layout;
use postrider_sqlite::{Config, migrate};
use rusqlite::Connection;
use rusqlite::config::DbConfig;

use crate::Outcome;
use crate::load::{KEYS, payload};

/// A database in a folder that goes with it.
pub(crate) struct Outbox {
    folder: tempfile::TempDir,
    pub(crate) layout: Layout,
}

impl Outbox {
    /// Postrider's own table.
    pub(crate) fn native(entries: usize) -> Outcome<Self> {
        let outbox = Self { folder: tempfile::tempdir()?, layout: Layout::built_in("native")? };
        migrate(&outbox.config())?;
        let filled = "insert into outbox (event_id, type, source, aggregate_type, aggregate_id, time, payload) \
             with recursive n(i) as (select 1 union all select i + 1 from n where i < ?1) \
             select printf('018f0000-0000-7000-8000-%012d', i), 'bench.order.placed.v1', '/bench', 'Order', \
             cast(i % ?2 as text), 1767225600000000 + i, ?3 from n";
        outbox.fill(filled, entries)?;
        Ok(outbox)
    }

    /// Somebody else's status table, with the index that it needs.
    pub(crate) fn status(entries: usize) -> Outcome<Self> {
        let outbox = Self { folder: tempfile::tempdir()?, layout: Layout::built_in("order-service")? };
        outbox.connect()?.execute_batch(
            "create table outbox ( \
                 id integer not null primary key autoincrement, event_type text not null, \
                 aggregate_type text not null, aggregate_id text not null, payload text not null, \
                 created_at text not null, status text not null, error_message text, sent_at text \
             ); \
             create index outbox_status on outbox (status)",
        )?;
        migrate(&outbox.config())?;
        let filled = "insert into outbox (event_type, aggregate_type, aggregate_id, payload, created_at, status) \
             with recursive n(i) as (select 1 union all select i + 1 from n where i < ?1) \
             select 'OrderPlaced', 'Order', cast(i % ?2 as text), ?3, '2026-01-01T00:00:00Z', 'NEW' from n";
        outbox.fill(filled, entries)?;
        Ok(outbox)
    }

    /// The same outbox in a folder of its own.
    pub(crate) fn copy(&self) -> std::io::Result<Self> {
        let copy = Self { folder: tempfile::tempdir()?, layout: self.layout.clone() };
        std::fs::copy(self.path(), copy.path())?;
        Ok(copy)
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("outbox.db")
    }

    pub(crate) fn config(&self) -> Config {
        Config::new(self.path(), self.layout.clone(), "bench")
    }

    /// A connection that is set as the relay's is.
    pub(crate) fn connect(&self) -> rusqlite::Result<Connection> {
        let connection = Connection::open(self.path())?;
        connection.query_row("pragma journal_mode = wal", [], |_| Ok(()))?;
        connection.execute_batch("pragma synchronous = normal; pragma foreign_keys = off")?;
        connection.set_prepared_statement_cache_capacity(64);
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        Ok(connection)
    }

    /// Puts the position before the first row.
    pub(crate) fn rewind(&self) -> rusqlite::Result<()> {
        self.connect()?
            .execute("update postrider_position set position = 0, claimed = 0, returned = '[]'", [])
            .map(drop)
    }

    fn fill(&self, sql: &str, entries: usize) -> rusqlite::Result<()> {
        let connection = self.connect()?;
        connection.execute(sql, (entries as i64, KEYS as i64, payload()))?;
        connection.query_row("pragma wal_checkpoint(truncate)", [], |_| Ok(()))
    }
}
