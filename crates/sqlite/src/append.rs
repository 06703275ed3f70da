//! Appending inside the caller's own transaction (F9).

use std::sync::OnceLock;

use postrider_core::append::{
    AppendError, Appended, Cell, RowIds, accept, accept_key, cell, gives_no_numbers, no_transaction,
};
use postrider_core::layout::Column;
use postrider_core::{EntryId, Envelope, Fault, Layout, Text, limits};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ToSql};

use crate::ids;
use crate::row_ids::{nobody, row_ids};
use crate::run::{execute, first};
use crate::sql::{AppendSql, ID_COLUMN, Names};

/// An outbox that events are appended to.
///
/// Every method takes the caller's connection, which has the caller's transaction open: the event is there if and only if
/// that commits.
///
/// ```no_run
/// # fn append(envelope: &postrider_core::Envelope) -> Result<(), Box<dyn std::error::Error>> {
/// use postrider_core::Layout;
/// use postrider_sqlite::Outbox;
///
/// let outbox = Outbox::new(&Layout::built_in("native")?)?;
/// let mut connection = rusqlite::Connection::open("shop.db")?;
/// let transaction = connection.transaction()?;
/// transaction.execute("insert into orders (id) values (?1)", [7])?;
/// outbox.append(&transaction, envelope)?;
/// transaction.commit()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Outbox {
    pub(crate) layout: Layout,
    /// The row's id and the event's are one, and the event gives it.
    by_event: Option<AppendSql>,
    by_table: AppendSql,
    row_ids: OnceLock<RowIds>,
    payload_bytes_max: usize,
}

impl Outbox {
    /// Compiles a layout. A table with a column for the event's id hands out its rows' ids itself; where the row's id is the
    /// event's, the event gives it, unless the table counts: then the number that it hands out is the event's id, and
    /// [`Appended::event_id`] tells it.
    ///
    /// # Errors
    /// When the layout is not sound.
    pub fn new(layout: &Layout) -> Result<Self, Fault> {
        layout.validate(&format!("table \"{}\"", layout.table))?;
        gives_no_numbers(layout, "SQLite")?;
        let (names, columns) = (Names::new(layout), &layout.columns);
        let event_id = columns.event_id.as_ref().and_then(Column::name);
        let is_row_id = event_id.is_none() || event_id == columns.id.as_ref().and_then(Column::name);
        Ok(Self {
            layout: layout.clone(),
            by_event: is_row_id.then(|| AppendSql::new(layout, &names, RowIds::Event)),
            by_table: AppendSql::new(layout, &names, RowIds::Table),
            row_ids: OnceLock::new(),
            payload_bytes_max: limits::PAYLOAD_BYTES,
        })
    }

    /// Sets another bound on payloads than [`limits::PAYLOAD_BYTES`].
    #[must_use]
    pub fn payload_bytes_max(mut self, bytes: usize) -> Self {
        self.payload_bytes_max = bytes.min(limits::PAYLOAD_BYTES_MAX);
        self
    }

    /// Appends one event.
    ///
    /// # Errors
    /// When the outbox does not take it, or the database fails.
    pub fn append(
        &self,
        connection: &Connection,
        envelope: &Envelope,
    ) -> Result<Appended, AppendError<rusqlite::Error>> {
        self.accept(envelope)?;
        let sql = self.sql(connection)?;
        let ids =
            self.insert(connection, sql, std::slice::from_ref(envelope)).map_err(AppendError::Database)?;
        Ok(self.appended(sql, envelope, ids.into_iter().next()))
    }

    /// Appends one event, unless one was appended with this idempotency key before: then that one is told.
    ///
    /// # Errors
    /// When the outbox does not take it, no transaction is open, or the database fails.
    pub fn append_once(
        &self,
        connection: &Connection,
        envelope: &Envelope,
        key: &str,
    ) -> Result<Appended, AppendError<rusqlite::Error>> {
        self.accept(envelope)?;
        self.accept_key(key, connection.is_autocommit())?;
        let sql = self.sql(connection)?;
        self.insert_once(connection, sql, envelope, key).map_err(AppendError::Database)
    }

    /// Appends many events in one statement (in a few, past 256).
    ///
    /// # Errors
    /// When the outbox does not take one of them, several statements are needed and no transaction is open, or the
    /// database fails.
    pub fn append_all(
        &self,
        connection: &Connection,
        envelopes: &[Envelope],
    ) -> Result<Vec<Appended>, AppendError<rusqlite::Error>> {
        envelopes.iter().try_for_each(|envelope| self.accept(envelope))?;
        let sql = self.sql(connection)?;
        if connection.is_autocommit() && sql.statements(envelopes.len()).count() > 1 {
            return Err(no_transaction("many events").into());
        }
        let ids = self.insert(connection, sql, envelopes).map_err(AppendError::Database)?;
        Ok(envelopes.iter().zip(ids).map(|(envelope, id)| self.appended(sql, envelope, Some(id))).collect())
    }

    pub(crate) fn accept(&self, envelope: &Envelope) -> Result<(), Fault> {
        accept(&self.layout, self.payload_bytes_max, envelope)
    }

    pub(crate) fn accept_key(&self, key: &str, autocommit: bool) -> Result<(), Fault> {
        accept_key(key)?;
        if autocommit { Err(no_transaction("an event with an idempotency key")) } else { Ok(()) }
    }

    pub(crate) fn name(&self) -> &str {
        self.layout.table.as_str()
    }

    pub(crate) fn cells<'a>(
        &'a self,
        sql: &'a AppendSql,
        envelope: &'a Envelope,
    ) -> impl Iterator<Item = Cell<'a>> {
        sql.slots.iter().map(move |slot| cell(&self.layout, slot, envelope))
    }

    /// Names the id column to [`ID_COLUMN`], when it has to be asked who gives new rows their ids.
    pub(crate) fn unknown_ids(&self) -> Option<[&str; 3]> {
        let layout = &self.layout;
        let id = layout.columns.id.as_ref().and_then(Column::name)?.as_str();
        let schema = layout.schema.as_ref().map_or("main", |schema| schema.as_str());
        let asks = self.by_event.is_some() && self.row_ids.get().is_none();
        asks.then_some([layout.table.as_str(), schema, id])
    }

    /// Takes how the id column is declared and whether it is the primary key, alone.
    pub(crate) fn know_ids(&self, declared: &str, is_only_key: bool) {
        self.row_ids.get_or_init(|| row_ids(declared, is_only_key));
    }

    /// The statements for this table.
    pub(crate) fn known_sql(&self) -> Result<&AppendSql, Fault> {
        match (&self.by_event, self.row_ids.get()) {
            (Some(_), Some(RowIds::Nobody)) => Err(nobody(&self.layout)),
            (Some(by_event), None | Some(RowIds::Event)) => Ok(by_event),
            (None, _) | (_, Some(RowIds::Table)) => Ok(&self.by_table),
        }
    }

    fn sql(&self, connection: &Connection) -> Result<&AppendSql, AppendError<rusqlite::Error>> {
        if let Some([table, schema, id]) = self.unknown_ids() {
            let declared = first(connection, ID_COLUMN, &[&table, &schema, &id], |row| {
                Ok((row.get::<_, String>(0)?, row.get(1)?))
            });
            if let Some((declared, is_only_key)) = declared.map_err(AppendError::Database)? {
                self.know_ids(&declared, is_only_key);
            }
        }
        Ok(self.known_sql()?)
    }

    pub(crate) fn appended(&self, sql: &AppendSql, envelope: &Envelope, id: Option<EntryId>) -> Appended {
        let id = id.unwrap_or(EntryId::Int(0));
        let counted = self.by_event.is_some() && sql.row_ids == RowIds::Table;
        let event_id = if counted { Text::from(id.to_string()) } else { envelope.id.clone() };
        Appended { id, event_id, repeated: false }
    }

    fn insert(
        &self,
        connection: &Connection,
        sql: &AppendSql,
        envelopes: &[Envelope],
    ) -> rusqlite::Result<Vec<EntryId>> {
        let mut found = Vec::with_capacity(envelopes.len());
        let mut rest = envelopes;
        for (rows, text) in sql.statements(envelopes.len()) {
            let (part, after) = rest.split_at(rows);
            rest = after;
            let mut statement = connection.prepare_cached(text)?;
            for (at, cell) in part.iter().flat_map(|envelope| self.cells(sql, envelope)).enumerate() {
                statement.raw_bind_parameter(at + 1, Bound(cell))?;
            }
            let mut rows = statement.raw_query();
            while let Some(row) = rows.next()? {
                found.extend(ids::id(row.get_ref(0)?));
            }
        }
        Ok(found)
    }

    fn insert_once(
        &self,
        connection: &Connection,
        sql: &AppendSql,
        envelope: &Envelope,
        key: &str,
    ) -> rusqlite::Result<Appended> {
        let (outbox, event_id, time) = (self.name(), &*envelope.id, envelope.time.as_microsecond());
        if execute(connection, &sql.remember, &[&outbox, &key, &event_id, &time])? == 0 {
            let known = first(connection, &sql.recall, &[&outbox, &key], |row| {
                Ok((row.get::<_, String>(0)?, ids::id(row.get_ref(1)?)))
            })?;
            let (event_id, id) = known.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
            return Ok(Appended {
                id: id.unwrap_or(EntryId::Int(0)),
                event_id: event_id.into(),
                repeated: true,
            });
        }
        let ids = self.insert(connection, sql, std::slice::from_ref(envelope))?;
        let appended = self.appended(sql, envelope, ids.into_iter().next());
        let (id, event_id) = (ids::value(&appended.id), &*appended.event_id);
        execute(connection, &sql.complete, &[&outbox, &key, &id, &event_id])?;
        Ok(appended)
    }
}

/// A cell as rusqlite binds it.
struct Bound<'a>(Cell<'a>);

impl ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match &self.0 {
            Cell::Null => ValueRef::Null,
            Cell::Int(number) => ValueRef::Integer(*number),
            Cell::Text(text) => ValueRef::Text(text.as_bytes()),
            Cell::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}
