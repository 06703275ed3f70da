//! The same appends inside an sqlx transaction.
//!
//! Through `sqlx-core` and `sqlx-mysql`, never the facade: these are the crates that an application's own sqlx is made of.

use postrider_core::Envelope;
use postrider_core::append::{AppendError, Appended};
use sqlx_core::query::query;
use sqlx_core::row::Row;
use sqlx_core::sql_str::AssertSqlSafe;
use sqlx_mysql::{MySql, MySqlArguments, MySqlConnection, MySqlRow};

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
        connection: &mut MySqlConnection,
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
        connection: &mut MySqlConnection,
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
        connection: &mut MySqlConnection,
        envelope: &Envelope,
        key: &str,
    ) -> Result<Appended, SqlxAppendError> {
        self.append_once_by(&mut Caller(connection), envelope, key).await
    }
}

pub(crate) struct Caller<'c>(pub(crate) &'c mut MySqlConnection);

impl Driver for Caller<'_> {
    type Error = sqlx_core::Error;

    const TELLS_ID: bool = true;

    async fn rows(
        &mut self,
        sql: &str,
        values: &[Value<'_>],
        columns: Columns,
    ) -> Result<Vec<Answer>, sqlx_core::Error> {
        // sqlx keeps the statement prepared on the connection.
        let rows = statement(sql, values).fetch_all(&mut *self.0).await?;
        rows.iter().map(|row| answer(row, columns)).collect()
    }

    async fn insert(&mut self, sql: &str, values: &[Value<'_>]) -> Result<u64, sqlx_core::Error> {
        Ok(statement(sql, values).execute(&mut *self.0).await?.last_insert_id())
    }
}

type Query<'q> = sqlx_core::query::Query<'q, MySql, MySqlArguments>;

fn statement<'q>(sql: &str, values: &[Value<'_>]) -> Query<'q> {
    values.iter().fold(query::<MySql>(AssertSqlSafe(sql.to_owned())), |statement, value| match value {
        Value::Null => statement.bind(None::<&str>),
        Value::Text(text) => statement.bind(&**text),
        Value::Bytes(bytes) => statement.bind(&**bytes),
        Value::Int(number) => statement.bind(*number),
    })
}

fn answer(row: &MySqlRow, columns: Columns) -> Result<Answer, sqlx_core::Error> {
    if columns == Columns::Text {
        return Ok([row.try_get(0)?, None, None]);
    }
    let repeated: Option<i64> = row.try_get(2)?;
    Ok([row.try_get(0)?, row.try_get(1)?, repeated.map(|repeated| repeated.to_string())])
}
