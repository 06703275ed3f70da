//! Appending with mysql_async.

use mysql_async::prelude::Queryable;
use mysql_async::{Error, Params, Row};
use postrider_core::Envelope;
use postrider_core::append::{AppendError, Appended};

use super::{Answer, Columns, Driver, Outbox, Value};
use crate::rows::text;

impl Outbox {
    /// Appends one event. A transaction, or a pool's connection that has one open, is the connection.
    ///
    /// # Errors
    /// When the outbox does not take it, or the database fails.
    pub async fn append<C: Queryable>(
        &self,
        connection: &mut C,
        envelope: &Envelope,
    ) -> Result<Appended, AppendError<Error>> {
        self.append_by(&mut Caller(connection), envelope).await
    }

    /// Appends many events in one statement; they are written in this order.
    ///
    /// # Errors
    /// When the outbox does not take one of them, or the database fails.
    pub async fn append_all<C: Queryable>(
        &self,
        connection: &mut C,
        envelopes: &[Envelope],
    ) -> Result<Vec<Appended>, AppendError<Error>> {
        self.append_all_by(&mut Caller(connection), envelopes).await
    }

    /// Appends one event, unless one was appended with this idempotency key before: then that one is told. While another
    /// transaction appends with the same key, this waits for its end.
    ///
    /// It calls the procedure that `postrider migrate` installs.
    ///
    /// # Errors
    /// When the outbox does not take it, or the database fails.
    pub async fn append_once<C: Queryable>(
        &self,
        connection: &mut C,
        envelope: &Envelope,
        key: &str,
    ) -> Result<Appended, AppendError<Error>> {
        self.append_once_by(&mut Caller(connection), envelope, key).await
    }
}

pub(crate) struct Caller<'c, C>(pub(crate) &'c mut C);

impl<C: Queryable> Driver for Caller<'_, C> {
    type Error = Error;

    const TELLS_ID: bool = true;

    async fn rows(&mut self, sql: &str, values: &[Value<'_>], _: Columns) -> Result<Vec<Answer>, Error> {
        let rows: Vec<Row> = self.0.exec(sql, params(values)).await?;
        Ok(rows.iter().map(|row| [text(row, 0), text(row, 1), text(row, 2)]).collect())
    }

    async fn insert(&mut self, sql: &str, values: &[Value<'_>]) -> Result<u64, Error> {
        let result = self.0.exec_iter(sql, params(values)).await?;
        let first = result.last_insert_id().unwrap_or(0);
        result.drop_result().await?;
        Ok(first)
    }
}

fn params(values: &[Value<'_>]) -> Params {
    use mysql_async::Value as Bound;
    let bound = |value: &Value<'_>| match value {
        Value::Null => Bound::NULL,
        Value::Text(text) => Bound::Bytes(text.as_bytes().to_vec()),
        Value::Bytes(bytes) => Bound::Bytes(bytes.to_vec()),
        Value::Int(number) => Bound::Int(*number),
    };
    Params::Positional(values.iter().map(bound).collect())
}
