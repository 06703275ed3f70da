//! The same appends inside an sqlx transaction.
//!
//! Through `sqlx-core` and `sqlx-sqlite`, never the facade: these are the crates that an application's own sqlx is made of.

use postrider_core::{EntryId, Envelope};
use sqlx_core::column::ColumnIndex;
use sqlx_core::query::query;
use sqlx_core::row::Row;
use sqlx_core::sql_str::AssertSqlSafe;
use sqlx_core::value::ValueRef;
use sqlx_sqlite::{Sqlite, SqliteArguments, SqliteConnection, SqliteRow};

use crate::append::{AppendError, Appended, Outbox, appended};
use crate::encode::Cell;

/// What can go wrong in an sqlx transaction.
pub type SqlxAppendError = AppendError<sqlx_core::Error>;

impl Outbox {
    /// Appends one event; `&mut *transaction` is the connection.
    ///
    /// # Errors
    /// When the outbox does not take it, or the database fails.
    pub async fn append_sqlx(
        &self,
        connection: &mut SqliteConnection,
        envelope: &Envelope,
    ) -> Result<Appended, SqlxAppendError> {
        self.accept(envelope)?;
        let ids = self
            .insert_sqlx(connection, std::slice::from_ref(envelope))
            .await
            .map_err(AppendError::Database)?;
        Ok(appended(envelope, ids.into_iter().next()))
    }

    /// Appends one event, unless one was appended with this idempotency key before: then that one is told. The connection
    /// must have a transaction open.
    ///
    /// # Errors
    /// When the outbox does not take it, or the database fails.
    pub async fn append_once_sqlx(
        &self,
        connection: &mut SqliteConnection,
        envelope: &Envelope,
        key: &str,
    ) -> Result<Appended, SqlxAppendError> {
        self.accept(envelope)?;
        self.accept_key(key, false)?;
        self.insert_once_sqlx(connection, envelope, key).await.map_err(AppendError::Database)
    }

    /// Appends many events in one statement (in a few, past 256).
    ///
    /// # Errors
    /// When the outbox does not take one of them, or the database fails.
    pub async fn append_all_sqlx(
        &self,
        connection: &mut SqliteConnection,
        envelopes: &[Envelope],
    ) -> Result<Vec<Appended>, SqlxAppendError> {
        envelopes.iter().try_for_each(|envelope| self.accept(envelope))?;
        let ids = self.insert_sqlx(connection, envelopes).await.map_err(AppendError::Database)?;
        Ok(envelopes.iter().zip(ids).map(|(envelope, id)| appended(envelope, Some(id))).collect())
    }

    async fn insert_sqlx(
        &self,
        connection: &mut SqliteConnection,
        envelopes: &[Envelope],
    ) -> Result<Vec<EntryId>, sqlx_core::Error> {
        let mut found = Vec::with_capacity(envelopes.len());
        let mut rest = envelopes;
        for (rows, sql) in self.sql.statements(envelopes.len()) {
            let (part, after) = rest.split_at(rows);
            rest = after;
            let mut statement = query::<Sqlite>(AssertSqlSafe(sql.to_owned()));
            for cell in part.iter().flat_map(|envelope| self.cells(envelope)) {
                statement = bind(statement, cell);
            }
            for row in statement.fetch_all(&mut *connection).await? {
                found.extend(id(&row, 0)?);
            }
        }
        Ok(found)
    }

    async fn insert_once_sqlx(
        &self,
        connection: &mut SqliteConnection,
        envelope: &Envelope,
        key: &str,
    ) -> Result<Appended, sqlx_core::Error> {
        let safe = |sql: &String| AssertSqlSafe(sql.clone());
        let written = query::<Sqlite>(safe(&self.sql.remember))
            .bind(self.name().to_owned())
            .bind(key.to_owned())
            .bind(envelope.id.to_string())
            .bind(envelope.time.as_microsecond())
            .execute(&mut *connection)
            .await?;
        if written.rows_affected() == 0 {
            let known =
                query::<Sqlite>(safe(&self.sql.recall)).bind(self.name().to_owned()).bind(key.to_owned());
            let known = known.fetch_one(&mut *connection).await?;
            let event_id: String = known.try_get(0)?;
            let id = id(&known, 1)?.unwrap_or(EntryId::Int(0));
            return Ok(Appended { id, event_id: event_id.into(), repeated: true });
        }
        let ids = self.insert_sqlx(connection, std::slice::from_ref(envelope)).await?;
        let appended = appended(envelope, ids.into_iter().next());
        let complete =
            query::<Sqlite>(safe(&self.sql.complete)).bind(self.name().to_owned()).bind(key.to_owned());
        let complete = match &appended.id {
            EntryId::Int(id) => complete.bind(*id),
            EntryId::Text(id) => complete.bind(id.to_string()),
        };
        complete.execute(&mut *connection).await?;
        Ok(appended)
    }
}

type Query<'q> = sqlx_core::query::Query<'q, Sqlite, SqliteArguments>;

fn bind<'q>(statement: Query<'q>, cell: Cell<'_>) -> Query<'q> {
    match cell {
        Cell::Null => statement.bind(None::<i64>),
        Cell::Int(number) => statement.bind(number),
        Cell::Text(text) => statement.bind(text.into_owned()),
        Cell::Bytes(bytes) => statement.bind(bytes.to_vec()),
    }
}

fn id(row: &SqliteRow, at: usize) -> Result<Option<EntryId>, sqlx_core::Error> {
    let null = at.index(row).and_then(|at| row.try_get_raw(at)).map(|value| value.is_null())?;
    if null {
        return Ok(None);
    }
    // Unchecked: a column without a declared type holds whichever the row's id is.
    if let Ok(id) = row.try_get::<i64, _>(at) {
        return Ok(Some(EntryId::Int(id)));
    }
    Ok(Some(EntryId::Text(row.try_get_unchecked::<String, _>(at)?.into())))
}
