//! The same appends inside an sqlx transaction.
//!
//! Through `sqlx-core` and `sqlx-postgres`, never the facade: these are the crates that an application's own sqlx is made of.

use postrider_core::Envelope;
use postrider_core::append::{AppendError, Appended};
use sqlx_core::query::query;
use sqlx_core::row::Row;
use sqlx_core::sql_str::AssertSqlSafe;
use sqlx_postgres::{PgArguments, PgConnection, PgRow, Postgres};

use crate::append::{Answer, Columns, Driver, Outbox, Value};

/// What can go wrong in an sqlx transaction.
pub type SqlxAppendError = AppendError<sqlx_core::Error>;

impl Outbox {
    /// Appends one event; `&mut *transaction` is the connection.
    ///
    /// # Errors
    /// When the outbox does not take it, or the database fails.
    pub async fn append_sqlx(
        &self,
        connection: &mut PgConnection,
        envelope: &Envelope,
    ) -> Result<Appended, SqlxAppendError> {
        self.append_by(&mut Caller(connection), envelope).await
    }

    /// Appends many events in one statement; they are written in this order.
    ///
    /// # Errors
    /// When the outbox does not take one of them, or the database fails.
    pub async fn append_all_sqlx(
        &self,
        connection: &mut PgConnection,
        envelopes: &[Envelope],
    ) -> Result<Vec<Appended>, SqlxAppendError> {
        self.append_all_by(&mut Caller(connection), envelopes).await
    }

    /// Appends one event, unless one was appended with this idempotency key before: then that one is told.
    ///
    /// # Errors
    /// When the outbox does not take it, or the database fails.
    pub async fn append_once_sqlx(
        &self,
        connection: &mut PgConnection,
        envelope: &Envelope,
        key: &str,
    ) -> Result<Appended, SqlxAppendError> {
        self.append_once_by(&mut Caller(connection), envelope, key).await
    }
}

struct Caller<'c>(&'c mut PgConnection);

impl Driver for Caller<'_> {
    type Error = sqlx_core::Error;

    async fn run(
        &mut self,
        sql: &str,
        values: &[Value<'_>],
        _: Columns,
    ) -> Result<Vec<Answer>, sqlx_core::Error> {
        // sqlx keeps the statement prepared on the connection.
        let statement = values.iter().fold(query::<Postgres>(AssertSqlSafe(sql.to_owned())), bind);
        statement.fetch_all(&mut *self.0).await?.iter().map(answer).collect()
    }
}

type Query<'q> = sqlx_core::query::Query<'q, Postgres, PgArguments>;

fn bind<'q>(statement: Query<'q>, value: &Value<'_>) -> Query<'q> {
    match value {
        Value::Text(text) => statement.bind(text.as_deref()),
        Value::Bytes(bytes) => statement.bind(bytes.as_deref()),
        Value::Int(number) => statement.bind(*number),
        Value::Texts(all) => statement.bind(all.iter().map(Option::as_deref).collect::<Vec<_>>()),
        Value::ManyBytes(all) => statement.bind(all.iter().map(Option::as_deref).collect::<Vec<_>>()),
        Value::Ints(all) => statement.bind(all),
    }
}

fn answer(row: &PgRow) -> Result<Answer, sqlx_core::Error> {
    let mut found = Answer::default();
    for (at, text) in found.iter_mut().enumerate().take(row.len()) {
        *text = row.try_get(at)?;
    }
    Ok(found)
}
