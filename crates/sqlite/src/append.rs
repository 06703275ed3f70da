//! Appending inside the caller's own transaction (F9).

use postrider_core::layout::Column;
use postrider_core::{EntryId, Envelope, Fault, Layout, Text, limits};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ToSql};

use crate::encode::{Cell, accept, cell};
use crate::ids;
use crate::run::{execute, first};
use crate::sql::{AppendSql, Names};

/// An outbox that events are appended to.
///
/// Every method takes the caller's connection, which has the caller's transaction open: the event is there if and only if
/// that commits.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let envelope: postrider_core::Envelope = unimplemented!();
/// use postrider_core::Layout;
/// use postrider_sqlite::Outbox;
///
/// let outbox = Outbox::new(&Layout::built_in("native")?)?;
/// let mut connection = rusqlite::Connection::open("shop.db")?;
/// let transaction = connection.transaction()?;
/// transaction.execute("insert into orders (id) values (?1)", [7])?;
/// outbox.append(&transaction, &envelope)?;
/// transaction.commit()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Outbox {
    pub(crate) layout: Layout,
    pub(crate) sql: AppendSql,
    payload_bytes_max: usize,
}

/// What was appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The row's id.
    pub id: EntryId,
    /// The event's id.
    pub event_id: Text,
    /// Whether an earlier append with the same idempotency key wrote it, so that this one wrote nothing.
    pub repeated: bool,
}

/// Why nothing was appended: the event must change, or the transaction must be tried again.
#[derive(Debug, thiserror::Error)]
pub enum AppendError<E> {
    /// The outbox does not take this event.
    #[error(transparent)]
    Refused(#[from] Fault),
    /// The database failed.
    #[error("the event was not appended")]
    Database(#[source] E),
}

impl Outbox {
    /// Compiles a layout. Ids that are numbers are the table's to hand out, unless the event's own id is the row's.
    ///
    /// # Errors
    /// When the layout is not sound.
    pub fn new(layout: &Layout) -> Result<Self, Fault> {
        layout.validate(&format!("table \"{}\"", layout.table))?;
        // A table whose rows have no event id but their own has nowhere else to keep the event's.
        let id_counts = layout.columns.event_id.as_ref().and_then(Column::name).is_some();
        let sql = AppendSql::new(layout, &Names::new(layout), id_counts);
        Ok(Self { layout: layout.clone(), sql, payload_bytes_max: limits::PAYLOAD_BYTES })
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
        let ids = self.insert(connection, std::slice::from_ref(envelope)).map_err(AppendError::Database)?;
        Ok(appended(envelope, ids.into_iter().next()))
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
        self.insert_once(connection, envelope, key).map_err(AppendError::Database)
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
        if connection.is_autocommit() && self.sql.statements(envelopes.len()).count() > 1 {
            return Err(no_transaction("many events").into());
        }
        let ids = self.insert(connection, envelopes).map_err(AppendError::Database)?;
        Ok(envelopes.iter().zip(ids).map(|(envelope, id)| appended(envelope, Some(id))).collect())
    }

    pub(crate) fn accept(&self, envelope: &Envelope) -> Result<(), Fault> {
        accept(&self.layout, self.payload_bytes_max, envelope)
    }

    pub(crate) fn accept_key(&self, key: &str, autocommit: bool) -> Result<(), Fault> {
        if key.is_empty() || key.len() > limits::KEY_BYTES_MAX {
            return Err(Fault::new(
                "idempotency key",
                format!("it has {} bytes, and from 1 to {} are allowed", key.len(), limits::KEY_BYTES_MAX),
                "Use the request's id, or a hash of it",
            ));
        }
        if autocommit { Err(no_transaction("an event with an idempotency key")) } else { Ok(()) }
    }

    pub(crate) fn name(&self) -> &str {
        self.layout.table.as_str()
    }

    pub(crate) fn cells<'a>(&'a self, envelope: &'a Envelope) -> impl Iterator<Item = Cell<'a>> {
        self.sql.slots.iter().map(move |slot| cell(&self.layout, slot, envelope))
    }

    fn insert(&self, connection: &Connection, envelopes: &[Envelope]) -> rusqlite::Result<Vec<EntryId>> {
        let mut found = Vec::with_capacity(envelopes.len());
        let mut rest = envelopes;
        for (rows, sql) in self.sql.statements(envelopes.len()) {
            let (part, after) = rest.split_at(rows);
            rest = after;
            let mut statement = connection.prepare_cached(sql)?;
            for (at, cell) in part.iter().flat_map(|envelope| self.cells(envelope)).enumerate() {
                statement.raw_bind_parameter(at + 1, cell)?;
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
        envelope: &Envelope,
        key: &str,
    ) -> rusqlite::Result<Appended> {
        let (outbox, event_id, time) = (self.name(), &*envelope.id, envelope.time.as_microsecond());
        if execute(connection, &self.sql.remember, &[&outbox, &key, &event_id, &time])? == 0 {
            let known = first(connection, &self.sql.recall, &[&outbox, &key], |row| {
                Ok((row.get::<_, String>(0)?, ids::id(row.get_ref(1)?)))
            })?;
            let (event_id, id) = known.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
            return Ok(Appended {
                id: id.unwrap_or(EntryId::Int(0)),
                event_id: event_id.into(),
                repeated: true,
            });
        }
        let ids = self.insert(connection, std::slice::from_ref(envelope))?;
        let appended = appended(envelope, ids.into_iter().next());
        execute(connection, &self.sql.complete, &[&outbox, &key, &ids::value(&appended.id)])?;
        Ok(appended)
    }
}

pub(crate) fn appended(envelope: &Envelope, id: Option<EntryId>) -> Appended {
    Appended { id: id.unwrap_or(EntryId::Int(0)), event_id: envelope.id.clone(), repeated: false }
}

fn no_transaction(what: &str) -> Fault {
    Fault::new(
        "append",
        format!("{what} cannot be appended without a transaction"),
        "Open one, write your own rows and append in it, then commit",
    )
}

impl ToSql for Cell<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Int(number) => ValueRef::Integer(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}
