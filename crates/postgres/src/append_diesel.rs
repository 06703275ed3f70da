//! The same appends inside a diesel-async transaction.

use std::marker::PhantomData;

use diesel::QueryResult;
use diesel::pg::Pg;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::result::Error;
use diesel::sql_types::{Array, BigInt, Bytea, Nullable, Text};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
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
        connection: &mut AsyncPgConnection,
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
        connection: &mut AsyncPgConnection,
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
        connection: &mut AsyncPgConnection,
        envelope: &Envelope,
        key: &str,
    ) -> Result<Appended, DieselAppendError> {
        self.append_once_by(&mut Caller(connection), envelope, key).await
    }
}

struct Caller<'c>(&'c mut AsyncPgConnection);

type OneText = Nullable<Text>;
type ThreeTexts = (Nullable<Text>, Nullable<Text>, Nullable<Text>);

impl Driver for Caller<'_> {
    type Error = Error;

    async fn run(&mut self, sql: &str, values: &[Value<'_>], columns: Columns) -> Result<Vec<Answer>, Error> {
        if columns == Columns::One {
            let rows: Vec<Option<String>> = Written::<OneText>::new(sql, values).load(self.0).await?;
            return Ok(rows.into_iter().map(|text| [text, None, None]).collect());
        }
        type Row = (Option<String>, Option<String>, Option<String>);
        let rows: Vec<Row> = Written::<ThreeTexts>::new(sql, values).load(self.0).await?;
        Ok(rows.into_iter().map(|(first, second, third)| [first, second, third]).collect())
    }
}

/// A statement that is written out already. Unlike diesel's own `sql_query`, it stays prepared on the connection: its text is
/// the same for every event.
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

impl<T> QueryFragment<Pg> for Written<'_, T> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        // diesel writes the placeholders itself, in the order in which they are pushed: that of their numbers.
        let mut rest = self.sql;
        for (number, value) in (1..).zip(self.values) {
            let placeholder = format!("${number}");
            let Some((before, after)) = rest.split_once(&format!("{placeholder}::")) else {
                return Err(Error::QueryBuilderError(format!("{placeholder} is missing").into()));
            };
            out.push_sql(before);
            match value {
                Value::Text(text) => out.push_bind_param::<Nullable<Text>, _>(text)?,
                Value::Bytes(bytes) => out.push_bind_param::<Nullable<Bytea>, _>(bytes)?,
                Value::Int(number) => out.push_bind_param::<Nullable<BigInt>, _>(number)?,
                Value::Texts(all) => out.push_bind_param::<Array<Nullable<Text>>, _>(all)?,
                Value::ManyBytes(all) => out.push_bind_param::<Array<Nullable<Bytea>>, _>(all)?,
                Value::Ints(all) => out.push_bind_param::<Array<Nullable<BigInt>>, _>(all)?,
            }
            out.push_sql("::");
            rest = after;
        }
        out.push_sql(rest);
        Ok(())
    }
}
