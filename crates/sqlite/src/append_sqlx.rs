//! The same appends inside an sqlx transaction.
//!
//! Through `sqlx-core` and `sqlx-sqlite`, never the facade: these are the crates that an application's own sqlx is made of.

use postrider_core::append::{AppendError, Appended, Cell};
use postrider_core::{EntryId, Envelope};
use sqlx_core::column::ColumnIndex;
use sqlx_core::query::query;
use sqlx_core::row::Row;
use sqlx_core::sql_str::AssertSqlSafe;
use sqlx_core::value::ValueRef;
use sqlx_sqlite::{Sqlite, SqliteArguments, SqliteConnection, SqliteRow};

use crate::append::Outbox;
use crate::sql::{AppendSql, ID_COLUMN};

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
        let sql = self.sql_sqlx(connection).await?;
        let ids = self
            .insert_sqlx(connection, sql, std::slice::from_ref(envelope))
            .await
            .map_err(AppendError::Database)?;
        Ok(self.appended(sql, envelope, ids.into_iter().next()))
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
        let sql = self.sql_sqlx(connection).await?;
        self.insert_once_sqlx(connection, sql, envelope, key).await.map_err(AppendError::Database)
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
        let sql = self.sql_sqlx(connection).await?;
        let ids = self.insert_sqlx(connection, sql, envelopes).await.map_err(AppendError::Database)?;
        Ok(envelopes.iter().zip(ids).map(|(envelope, id)| self.appended(sql, envelope, Some(id))).collect())
    }

    async fn sql_sqlx(&self, connection: &mut SqliteConnection) -> Result<&AppendSql, SqlxAppendError> {
        if let Some([table, schema, id]) = self.unknown_ids() {
            let asked = query::<Sqlite>(AssertSqlSafe(ID_COLUMN.to_owned()))
                .bind(table.to_owned())
                .bind(schema.to_owned())
                .bind(id.to_owned());
            if let Some(row) = asked.fetch_optional(&mut *connection).await.map_err(AppendError::Database)? {
                let declared = row.try_get::<String, _>(0).map_err(AppendError::Database)?;
                let is_only_key = row.try_get_unchecked::<bool, _>(1).map_err(AppendError::Database)?;
                self.know_ids(&declared, is_only_key);
            }
        }
        Ok(self.known_sql()?)
    }

    async fn insert_sqlx(
        &self,
        connection: &mut SqliteConnection,
        sql: &AppendSql,
        envelopes: &[Envelope],
    ) -> Result<Vec<EntryId>, sqlx_core::Error> {
        let mut found = Vec::with_capacity(envelopes.len());
        let mut rest = envelopes;
        for (rows, text) in sql.statements(envelopes.len()) {
            let (part, after) = rest.split_at(rows);
            rest = after;
            let mut statement = query::<Sqlite>(AssertSqlSafe(text.to_owned()));
            for cell in part.iter().flat_map(|envelope| self.cells(sql, envelope)) {
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
        sql: &AppendSql,
        envelope: &Envelope,
        key: &str,
    ) -> Result<Appended, sqlx_core::Error> {
        let safe = |text: &String| AssertSqlSafe(text.clone());
        let written = query::<Sqlite>(safe(&sql.remember))
            .bind(self.name().to_owned())
            .bind(key.to_owned())
            .bind(envelope.id.to_string())
            .bind(envelope.time.as_microsecond())
            .execute(&mut *connection)
            .await?;
        if written.rows_affected() == 0 {
            let known = query::<Sqlite>(safe(&sql.recall)).bind(self.name().to_owned()).bind(key.to_owned());
            let known = known.fetch_one(&mut *connection).await?;
            let event_id: String = known.try_get(0)?;
            let id = id(&known, 1)?.unwrap_or(EntryId::Int(0));
            return Ok(Appended { id, event_id: event_id.into(), repeated: true });
        }
        let ids = self.insert_sqlx(connection, sql, std::slice::from_ref(envelope)).await?;
        let appended = self.appended(sql, envelope, ids.into_iter().next());
        let complete = query::<Sqlite>(safe(&sql.complete)).bind(self.name().to_owned()).bind(key.to_owned());
        let complete = match &appended.id {
            EntryId::Int(id) => complete.bind(*id),
            EntryId::Text(id) => complete.bind(id.to_string()),
        };
        complete.bind(appended.event_id.to_string()).execute(&mut *connection).await?;
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
