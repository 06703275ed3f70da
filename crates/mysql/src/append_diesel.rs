//! The same appends inside a diesel-async transaction.
//!
//! diesel does not tell the id that a table handed out. MariaDB answers it to the insert; on MySQL the installed procedure is
//! called instead, so that it stays one round trip.

use std::marker::PhantomData;

use diesel::QueryResult;
use diesel::mysql::Mysql;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::result::Error;
use diesel::sql_types::{BigInt, Binary, Nullable, Text};
use diesel_async::{AsyncMysqlConnection, RunQueryDsl};
use postrider_core::Envelope;
use postrider_core::append::{AppendError, Appended};

use crate::append::{Answer, Columns, Driver, Outbox, Value};

/// What can go wrong in a diesel-async transaction.
pub type DieselAppendError = AppendError<Error>;

impl Outbox {
    /// Appends one event; the connection that `transaction` hands to its closure is the one.
    ///
    /// # Errors
    /// When the outbox does not take it, or the database fails.
    pub async fn append_diesel(
        &self,
        connection: &mut AsyncMysqlConnection,
        envelope: &Envelope,
    ) -> Result<Appended, DieselAppendError> {
        self.append_by(&mut Caller(connection), envelope).await
    }

    /// Appends many events in one statement; they are written in this order.
    ///
    /// # Errors
    /// When the outbox does not take one of them, or the database fails.
    pub async fn append_all_diesel(
        &self,
        connection: &mut AsyncMysqlConnection,
        envelopes: &[Envelope],
    ) -> Result<Vec<Appended>, DieselAppendError> {
        self.append_all_by(&mut Caller(connection), envelopes).await
    }

    /// Appends one event, unless one was appended with this idempotency key before: then that one is told.
    ///
    /// # Errors
    /// When the outbox does not take it, or the database fails.
    pub async fn append_once_diesel(
        &self,
        connection: &mut AsyncMysqlConnection,
        envelope: &Envelope,
        key: &str,
    ) -> Result<Appended, DieselAppendError> {
        self.append_once_by(&mut Caller(connection), envelope, key).await
    }
}

pub(crate) struct Caller<'c>(pub(crate) &'c mut AsyncMysqlConnection);

type OneText = Nullable<Text>;
type Told = (Nullable<Text>, Nullable<Text>, Nullable<BigInt>);

impl Driver for Caller<'_> {
    type Error = Error;

    const TELLS_ID: bool = false;

    async fn rows(
        &mut self,
        sql: &str,
        values: &[Value<'_>],
        columns: Columns,
    ) -> Result<Vec<Answer>, Error> {
        if columns == Columns::Text {
            let rows: Vec<Option<String>> = Written::<OneText>::new(sql, values).load(self.0).await?;
            return Ok(rows.into_iter().map(|text| [text, None, None]).collect());
        }
        type Row = (Option<String>, Option<String>, Option<i64>);
        let rows: Vec<Row> = Written::<Told>::new(sql, values).load(self.0).await?;
        let told =
            |(entry, event_id, repeated): Row| [entry, event_id, repeated.map(|told| told.to_string())];
        Ok(rows.into_iter().map(told).collect())
    }

    async fn insert(&mut self, sql: &str, values: &[Value<'_>]) -> Result<u64, Error> {
        Written::<()>::new(sql, values).execute(self.0).await?;
        Ok(0)
    }
}

/// A statement that is written out already. Unlike diesel's own `sql_query`, it stays prepared on the connection: its text is
/// the same for as many events.
struct Written<'a, T> {
    sql: &'a str,
    values: &'a [Value<'a>],
    answers: PhantomData<T>,
}

impl<'a, T> Written<'a, T> {
    fn new(sql: &'a str, values: &'a [Value<'a>]) -> Self {
        Self { sql, values, answers: PhantomData }
    }
}

impl<T> QueryId for Written<'_, T> {
    type QueryId = ();
    // Known by its text.
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl<T> Query for Written<'_, T> {
    type SqlType = T;
}

impl<T> QueryFragment<Mysql> for Written<'_, T> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Mysql>) -> QueryResult<()> {
        // diesel writes the placeholders itself.
        let mut parts = between_placeholders(self.sql).into_iter();
        out.push_sql(parts.next().unwrap_or_default());
        for (value, after) in self.values.iter().zip(parts) {
            match value {
                Value::Null => out.push_bind_param::<Nullable<BigInt>, _>(&None::<i64>)?,
                Value::Text(text) => out.push_bind_param::<Text, _>(text)?,
                Value::Bytes(bytes) => out.push_bind_param::<Binary, _>(bytes)?,
                Value::Int(number) => out.push_bind_param::<BigInt, _>(number)?,
            }
            out.push_sql(after);
        }
        Ok(())
    }
}

/// What stands between the placeholders; a question mark in a quoted name is none.
fn between_placeholders(sql: &str) -> Vec<&str> {
    let (mut parts, mut from, mut quoted) = (Vec::new(), 0, false);
    for (at, c) in sql.char_indices() {
        match c {
            '`' => quoted = !quoted,
            '?' if !quoted => {
                parts.push(&sql[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&sql[from..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::between_placeholders;

    #[test]
    fn a_question_mark_in_a_name_is_no_placeholder() {
        assert_eq!(between_placeholders("a `b?``c` (?, ?)"), ["a `b?``c` (", ", ", ")"]);
    }
}
