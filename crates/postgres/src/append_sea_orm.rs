//! The same appends inside a sea-orm transaction.

use std::borrow::Cow;

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

struct Caller<'c, C>(&'c C);

impl<C: ConnectionTrait> Driver for Caller<'_, C> {
    type Error = DbErr;

    async fn run(&mut self, sql: &str, values: &[Value<'_>], columns: Columns) -> Result<Vec<Answer>, DbErr> {
        let statement = Statement::from_sql_and_values(DbBackend::Postgres, sql, values.iter().map(bound));
        let rows = self.0.query_all_raw(statement).await?;
        rows.iter().map(|row| answer(row, columns)).collect()
    }
}

fn bound(value: &Value<'_>) -> sea_orm::Value {
    match value {
        Value::Text(text) => sea_orm::Value::String(text.as_deref().map(str::to_owned)),
        Value::Bytes(bytes) => sea_orm::Value::Bytes(bytes.as_deref().map(<[u8]>::to_vec)),
        Value::Int(number) => sea_orm::Value::BigInt(*number),
        // sea-orm's arrays hold no nulls: they travel as the server's own text, which the statement casts.
        Value::Texts(all) => array(all, |text| text.clone()),
        Value::ManyBytes(all) => array(all, |bytes| hex(bytes).into()),
        Value::Ints(all) => array(all, |number| number.to_string().into()),
    }
}

fn array<'a, T>(all: &'a [Option<T>], text: impl Fn(&'a T) -> Cow<'a, str>) -> sea_orm::Value {
    let mut written = String::from("{");
    for (at, one) in all.iter().enumerate() {
        if at > 0 {
            written.push(',');
        }
        let Some(one) = one else {
            written.push_str("null");
            continue;
        };
        written.push('"');
        for c in text(one).chars() {
            if c == '"' || c == '\\' {
                written.push('\\');
            }
            written.push(c);
        }
        written.push('"');
    }
    written.push('}');
    sea_orm::Value::String(Some(written))
}

/// Bytes as the server writes them.
fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |half: u8| char::from(DIGITS[usize::from(half)]);
    let mut written = String::with_capacity(2 + bytes.len() * 2);
    written.push_str("\\x");
    written.extend(bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]));
    written
}

fn answer(row: &QueryResult, columns: Columns) -> Result<Answer, DbErr> {
    let text = |at: usize| row.try_get_by_index::<Option<String>>(at);
    match columns {
        Columns::One => Ok([text(0)?, None, None]),
        Columns::Three => Ok([text(0)?, text(1)?, text(2)?]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_written_as_the_server_reads_them() {
        let texts = Value::Texts(vec![Some("a".into()), None, Some("say \"\\n\", {b}".into())]);
        let written = "{\"a\",null,\"say \\\"\\\\n\\\", {b}\"}";
        assert_eq!(bound(&texts), sea_orm::Value::String(Some(written.into())));
        let bytes = Value::ManyBytes(vec![Some(vec![0, 255].into())]);
        assert_eq!(bound(&bytes), sea_orm::Value::String(Some("{\"\\\\x00ff\"}".into())));
    }
}
