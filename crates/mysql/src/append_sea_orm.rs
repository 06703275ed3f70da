//! The same appends inside a sea-orm transaction.

use postrider_core::Envelope;
use postrider_core::append::{AppendError, Appended};
use sea_orm::{ConnectionTrait, DbBackend, DbErr, QueryResult, Statement};

use crate::append::{Answer, Columns, Driver, Outbox, Value};

/// What can go wrong in a sea-orm transaction.
pub type SeaOrmAppendError = AppendError<DbErr>;

impl Outbox {
    /// Appends one event; the transaction is the connection.
    ///
    /// # Errors
    /// When the outbox does not take it, or the database fails.
    pub async fn append_sea_orm<C: ConnectionTrait>(
        &self,
        connection: &C,
        envelope: &Envelope,
    ) -> Result<Appended, SeaOrmAppendError> {
        self.append_by(&mut Caller(connection), envelope).await
    }

    /// Appends many events in one statement; they are written in this order.
    ///
    /// # Errors
    /// When the outbox does not take one of them, or the database fails.
    pub async fn append_all_sea_orm<C: ConnectionTrait>(
        &self,
        connection: &C,
        envelopes: &[Envelope],
    ) -> Result<Vec<Appended>, SeaOrmAppendError> {
        self.append_all_by(&mut Caller(connection), envelopes).await
    }

    /// Appends one event, unless one was appended with this idempotency key before: then that one is told.
    ///
    /// # Errors
    /// When the outbox does not take it, or the database fails.
    pub async fn append_once_sea_orm<C: ConnectionTrait>(
        &self,
        connection: &C,
        envelope: &Envelope,
        key: &str,
    ) -> Result<Appended, SeaOrmAppendError> {
        self.append_once_by(&mut Caller(connection), envelope, key).await
    }
}

pub(crate) struct Caller<'c, C>(pub(crate) &'c C);

impl<C: ConnectionTrait> Driver for Caller<'_, C> {
    type Error = DbErr;

    const TELLS_ID: bool = true;

    async fn rows(
        &mut self,
        sql: &str,
        values: &[Value<'_>],
        columns: Columns,
    ) -> Result<Vec<Answer>, DbErr> {
        let rows = self.0.query_all_raw(statement(sql, values)).await?;
        rows.iter().map(|row| answer(row, columns)).collect()
    }

    async fn insert(&mut self, sql: &str, values: &[Value<'_>]) -> Result<u64, DbErr> {
        Ok(self.0.execute_raw(statement(sql, values)).await?.last_insert_id())
    }
}

fn statement(sql: &str, values: &[Value<'_>]) -> Statement {
    let bound = |value: &Value<'_>| match value {
        Value::Null => sea_orm::Value::String(None),
        Value::Text(text) => sea_orm::Value::String(Some(text.as_ref().to_owned())),
        Value::Bytes(bytes) => sea_orm::Value::Bytes(Some(bytes.to_vec())),
        Value::Int(number) => sea_orm::Value::BigInt(Some(*number)),
    };
    Statement::from_sql_and_values(DbBackend::MySql, sql, values.iter().map(bound))
}

fn answer(row: &QueryResult, columns: Columns) -> Result<Answer, DbErr> {
    let text = |at: usize| row.try_get_by_index::<Option<String>>(at);
    if columns == Columns::Text {
        return Ok([text(0)?, None, None]);
    }
    let repeated = row.try_get_by_index::<Option<i64>>(2)?;
    Ok([text(0)?, text(1)?, repeated.map(|repeated| repeated.to_string())])
}
