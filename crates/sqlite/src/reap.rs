//! Giving back what dead holders left.

use jiff::Timestamp;
use postrider_core::EntryId;
use rusqlite::Connection;
use rusqlite::types::Value;

use crate::ids;
use crate::run::{all, execute};
use crate::sql::LeaseSql;

/// Gives rows of one outbox back; runs within its caller's transaction.
pub(crate) struct Reaper<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) outbox: &'a str,
    pub(crate) sql: &'a LeaseSql,
}

impl Reaper<'_> {
    /// At a takeover: whatever the predecessor held, however long it would have held it.
    pub(crate) fn orphans(&self) -> rusqlite::Result<usize> {
        let ids = self.ids(&self.sql.orphans, None)?;
        self.give_back(&ids)
    }

    /// What was held for too long.
    pub(crate) fn expired(&self, now: Timestamp) -> rusqlite::Result<Vec<EntryId>> {
        self.ids(&self.sql.expired, Some(now.as_microsecond()))
    }

    pub(crate) fn give_back(&self, ids: &[EntryId]) -> rusqlite::Result<usize> {
        if ids.is_empty() {
            return Ok(0);
        }
        let json = ids::json(ids);
        execute(self.connection, &self.sql.reap, &[&self.outbox, &json])?;
        if let Some(sql) = &self.sql.reap_table {
            execute(self.connection, sql, &[&self.outbox, &json])?;
        }
        Ok(ids.len())
    }

    fn ids(&self, sql: &str, now_us: Option<i64>) -> rusqlite::Result<Vec<EntryId>> {
        let now = now_us.map_or(Value::Null, Value::Integer);
        let ids = all(self.connection, sql, &[&self.outbox, &now], |row| row.get_ref(0).map(ids::id))?;
        Ok(ids.into_iter().flatten().collect())
    }
}
