//! Appending with tokio-postgres.

use std::error::Error as StdError;
use std::sync::Arc;

use bytes::BytesMut;
use postrider_core::append::{AppendError, Appended};
use postrider_core::{Envelope, Text};
use tokio_postgres::types::{Format, IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Error, GenericClient, Row, Statement};

use super::driver::appended;
use super::values::shortest;
use super::{Answer, Columns, Driver, Outbox, Value};
use crate::sql::{AppendSql, Form};

impl Outbox {
    /// Appends one event. A transaction, or a pool's, is the client.
    ///
    /// # Errors
    /// When the outbox does not take it, or the database fails.
    pub async fn append<C: GenericClient + Sync>(
        &self,
        client: &C,
        envelope: &Envelope,
    ) -> Result<Appended, AppendError<Error>> {
        self.append_by(&mut Caller(client), envelope).await
    }

    /// Appends many events in one statement; they are written in this order.
    ///
    /// # Errors
    /// When the outbox does not take one of them, or the database fails.
    pub async fn append_all<C: GenericClient + Sync>(
        &self,
        client: &C,
        envelopes: &[Envelope],
    ) -> Result<Vec<Appended>, AppendError<Error>> {
        self.append_all_by(&mut Caller(client), envelopes).await
    }

    /// Appends one event, unless one was appended with this idempotency key before: then that one is told. While another
    /// transaction appends with the same key, this waits for its end.
    ///
    /// It calls the function that `postrider migrate` installs.
    ///
    /// # Errors
    /// When the outbox does not take it, or the database fails.
    pub async fn append_once<C: GenericClient + Sync>(
        &self,
        client: &C,
        envelope: &Envelope,
        key: &str,
    ) -> Result<Appended, AppendError<Error>> {
        self.append_once_by(&mut Caller(client), envelope, key).await
    }

    /// Prepares the insert on a connection, which then need not parse it for every event. Keep it as long as the connection.
    ///
    /// # Errors
    /// When the table is not as the layout says, or the database fails.
    pub async fn prepare<C: GenericClient + Sync>(&self, client: &C) -> Result<Prepared, AppendError<Error>> {
        self.prepare_with(client, async |sql, types| client.prepare_typed(sql, types).await).await
    }

    /// The same by a pool's own cache of statements, which knows whether the connection has it already: with
    /// deadpool-postgres `outbox.prepare_with(&**client, async |sql, types| client.prepare_typed_cached(sql, types).await)`.
    ///
    /// # Errors
    /// When the table is not as the layout says, or the database fails.
    pub async fn prepare_with<C, F>(&self, client: &C, prepare: F) -> Result<Prepared, AppendError<Error>>
    where
        C: GenericClient + Sync,
        F: AsyncFn(&str, &[Type]) -> Result<Statement, Error>,
    {
        let sql = self.sql(&mut Caller(client)).await?;
        let types = |all: bool| -> Vec<Type> {
            let listed = sql.parameters.iter().filter(|parameter| all || !parameter.is_extra);
            listed.map(|parameter| type_of(parameter.form)).collect()
        };
        let plain =
            prepare(sql.unanswered(&sql.plain), &types(false)).await.map_err(AppendError::Database)?;
        let whole = prepare(sql.unanswered(&sql.one), &types(true)).await.map_err(AppendError::Database)?;
        Ok(Prepared { outbox: self.clone(), sql, plain, whole })
    }
}

/// The insert, prepared on one connection.
#[derive(Clone, Debug)]
pub struct Prepared {
    outbox: Outbox,
    sql: Arc<AppendSql>,
    /// Without the columns that most events have nothing for: the server's work is by the column.
    plain: Statement,
    whole: Statement,
}

impl Prepared {
    /// Appends one event, on the connection that this was prepared on, and answers the event's id. The row's own id is not
    /// asked for: an answer would cost the transaction some hundredths of its time.
    ///
    /// # Errors
    /// When the outbox does not take it, or the database fails.
    pub async fn append<C: GenericClient + Sync>(
        &self,
        client: &C,
        envelope: &Envelope,
    ) -> Result<Text, AppendError<Error>> {
        self.outbox.accept(envelope)?;
        let (text, values) = shortest(self.outbox.layout(), &self.sql, envelope)?;
        let statement = if text == self.sql.plain { &self.plain } else { &self.whole };
        let values: Vec<&(dyn ToSql + Sync)> =
            values.iter().map(|value| value as &(dyn ToSql + Sync)).collect();
        if !self.sql.gives_event_ids() {
            client.execute(statement, &values).await.map_err(AppendError::Database)?;
            return Ok(envelope.id.clone());
        }
        let row = client.query_one(statement, &values).await.map_err(AppendError::Database)?;
        Ok(appended(&self.sql, envelope, Some(answer(&row).map_err(AppendError::Database)?)).event_id)
    }
}

struct Caller<'c, C>(&'c C);

impl<C: GenericClient + Sync> Driver for Caller<'_, C> {
    type Error = Error;

    async fn run(&mut self, sql: &str, values: &[Value<'_>], _: Columns) -> Result<Vec<Answer>, Error> {
        let values: Vec<(&(dyn ToSql + Sync), Type)> =
            values.iter().map(|value| (value as &(dyn ToSql + Sync), value.of())).collect();
        self.0.query_typed(sql, &values).await?.iter().map(answer).collect()
    }
}

fn answer(row: &Row) -> Result<Answer, Error> {
    let mut found = Answer::default();
    for (at, text) in found.iter_mut().enumerate().take(row.len()) {
        *text = row.try_get(at)?;
    }
    Ok(found)
}

fn type_of(form: Form) -> Type {
    match form {
        Form::Text => Type::TEXT,
        Form::Bytes => Type::BYTEA,
        Form::Int => Type::INT8,
    }
}

impl Value<'_> {
    fn of(&self) -> Type {
        match self {
            Self::Text(_) => Type::TEXT,
            Self::Bytes(_) => Type::BYTEA,
            Self::Int(_) => Type::INT8,
            Self::Texts(_) => Type::TEXT_ARRAY,
            Self::ManyBytes(_) => Type::BYTEA_ARRAY,
            Self::Ints(_) => Type::INT8_ARRAY,
        }
    }
}

impl ToSql for Value<'_> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        match self {
            Self::Text(text) => text.as_deref().to_sql(ty, out),
            Self::Bytes(bytes) => bytes.as_deref().to_sql(ty, out),
            Self::Int(number) => number.to_sql(ty, out),
            Self::Texts(all) => all.to_sql(ty, out),
            Self::ManyBytes(all) => {
                all.iter().map(Option::as_deref).collect::<Vec<Option<&[u8]>>>().to_sql(ty, out)
            }
            Self::Ints(all) => all.to_sql(ty, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Binary
    }

    to_sql_checked!();
}
