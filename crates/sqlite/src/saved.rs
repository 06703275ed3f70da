//! What a cursor keeps in the database, as rows.

use std::collections::BTreeSet;

use postrider_core::cursor::{Exception, ParkedRange, Saved, Shelf, Write};
use postrider_core::layout::TimeForm;
use postrider_core::route::Kind;
use postrider_core::{EntryId, Key, Text};
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, Row};
use serde_json::json;

use crate::ids;
use crate::run::{all, execute, first, lenient};
use crate::settling::shortened;
use crate::sql::CursorSql;

/// Reads and writes what a cursor keeps; always within its caller's transaction.
#[derive(Debug)]
pub(crate) struct SavedSql {
    pub(crate) outbox: String,
}

impl SavedSql {
    /// The position and the epoch.
    pub(crate) fn position(&self, connection: &Connection, sql: &CursorSql) -> rusqlite::Result<(i64, i64)> {
        let found = first(connection, &sql.position, &[&self.outbox], |row| Ok((row.get(0)?, row.get(1)?)))?;
        found.ok_or(rusqlite::Error::QueryReturnedNoRows)
    }

    pub(crate) fn load(&self, connection: &Connection, sql: &CursorSql) -> rusqlite::Result<Saved> {
        let ranges = all(connection, &sql.ranges, &[&self.outbox], |row| {
            let kind = Kind { event_type: text(row, 0)?, aggregate_type: text(row, 1)? };
            Ok(ParkedRange { kind, first: row.get(2)? })
        })?;
        let (position, _) = self.position(connection, sql)?;
        let exceptions = self.exceptions(connection, sql)?;
        Ok(Saved { position, exceptions, ranges, ..Saved::default() })
    }

    pub(crate) fn exceptions(
        &self,
        connection: &Connection,
        sql: &CursorSql,
    ) -> rusqlite::Result<Vec<Exception>> {
        let mut before: Option<Key> = None;
        all(connection, &sql.exceptions, &[&self.outbox], |row| {
            // Neighbours are mostly of one key, and share it.
            let is_same = before.as_ref().is_some_and(|key| {
                let is = |at, text: &str| {
                    row.get_ref(at).is_ok_and(|value| value == ValueRef::Text(text.as_bytes()))
                };
                is(1, &key.scope) && is(2, &key.id)
            });
            if !is_same {
                let scope = lenient(row, 1)?.unwrap_or_default();
                before = lenient(row, 2)?.map(|id| Key::new(scope, id));
            }
            Ok(Exception {
                id: row.get(0)?,
                key: before.clone(),
                shelf: shelf(row)?,
                retries: row.get(5)?,
                reason: lenient(row, 6)?.map(Text::from),
            })
        })
    }

    /// At a takeover nothing is in anybody's hands.
    pub(crate) fn start_over(&self, connection: &Connection, sql: &CursorSql) -> rusqlite::Result<()> {
        execute(connection, &sql.start_over, &[&self.outbox])?;
        execute(connection, &sql.unclaim_all, &[&self.outbox]).map(drop)
    }

    /// Everything but the position.
    pub(crate) fn write(
        &self,
        connection: &Connection,
        sql: &CursorSql,
        write: &Write,
    ) -> rusqlite::Result<()> {
        if !write.upserts.is_empty() {
            let rows: Vec<_> = write.upserts.iter().map(row_of).collect();
            execute(connection, &sql.upsert, &[&self.outbox, &serde_json::Value::from(rows).to_string()])?;
        }
        if !write.deletes.is_empty() {
            execute(connection, &sql.delete, &[&self.outbox, &list(&write.deletes)])?;
        }
        if let Some(ranges) = &write.ranges {
            let row = |range: &ParkedRange| {
                json!([&*range.kind.event_type, &*range.kind.aggregate_type, range.first])
            };
            let rows: Vec<_> = ranges.iter().map(row).collect();
            execute(connection, &sql.delete_ranges, &[&self.outbox])?;
            execute(
                connection,
                &sql.insert_ranges,
                &[&self.outbox, &serde_json::Value::from(rows).to_string()],
            )?;
        }
        Ok(())
    }

    pub(crate) fn write_position(
        &self,
        connection: &Connection,
        sql: &CursorSql,
        position: i64,
        claimed: i64,
        returned: &BTreeSet<i64>,
    ) -> rusqlite::Result<()> {
        let returned = list(returned);
        execute(connection, &sql.write_position, &[&self.outbox, &position, &claimed, &returned]).map(drop)
    }

    pub(crate) fn claim(
        &self,
        connection: &Connection,
        sql: &CursorSql,
        ids: &[i64],
    ) -> rusqlite::Result<()> {
        if ids.is_empty() {
            return Ok(());
        }
        execute(connection, &sql.claim, &[&self.outbox, &list(ids)]).map(drop)
    }

    pub(crate) fn unclaim(
        &self,
        connection: &Connection,
        sql: &CursorSql,
        ids: &BTreeSet<i64>,
    ) -> rusqlite::Result<()> {
        if ids.is_empty() {
            return Ok(());
        }
        execute(connection, &sql.unclaim, &[&self.outbox, &list(ids)]).map(drop)
    }
}

/// Whether something is given up, which is to be durable.
pub(crate) fn buries(write: &Write) -> bool {
    write.upserts.iter().any(|exception| exception.shelf == Shelf::Dead)
}

fn list<'a>(ids: impl IntoIterator<Item = &'a i64>) -> String {
    ids::json(&ids.into_iter().map(|id| EntryId::Int(*id)).collect::<Vec<_>>())
}

fn row_of(exception: &Exception) -> serde_json::Value {
    let (shelf, due) = match exception.shelf {
        Shelf::Parked => ("parked", None),
        Shelf::Waiting { due } => ("waiting", Some(due.as_microsecond())),
        Shelf::Dead => ("dead", None),
    };
    let (scope, key) = exception.key.as_ref().map(|key| (&*key.scope, &*key.id)).unzip();
    let reason = exception.reason.as_deref().map(shortened);
    json!([exception.id, scope, key, shelf, due, exception.retries, reason])
}

fn shelf(row: &Row<'_>) -> rusqlite::Result<Shelf> {
    Ok(match row.get_ref(3)?.as_str()? {
        "dead" => Shelf::Dead,
        "waiting" => {
            let due = match row.get::<_, Value>(4)? {
                Value::Integer(due) => TimeForm::UnixUs.from_number(due),
                _ => None,
            };
            Shelf::Waiting { due: due.unwrap_or_default() }
        }
        _ => Shelf::Parked,
    })
}

fn text(row: &Row<'_>, at: usize) -> rusqlite::Result<Text> {
    Ok(lenient(row, at)?.unwrap_or_default().into())
}
