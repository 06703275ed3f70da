//! A connection of the bare loops, and the values that they take out of rows.

use std::error::Error;
use std::hint::black_box;

use tokio_postgres::types::{FromSql, Type};
use tokio_postgres::{Client, NoTls, Row};

use crate::Outcome;

/// A connection that is set as the relay's is for receipts: a lost one is a duplicate, so its commits do not wait.
pub(crate) async fn connect(url: &str) -> Outcome<Client> {
    let client = connect_durable(url).await?;
    client.batch_execute("set synchronous_commit = off").await?;
    Ok(client)
}

/// The same for leases, whose commits wait.
pub(crate) async fn connect_durable(url: &str) -> Outcome<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    // It ends with the client.
    tokio::spawn(connection);
    client
        .batch_execute(
            "set timezone = 'UTC'; set client_min_messages = warning; set plan_cache_mode = force_generic_plan",
        )
        .await?;
    Ok(client)
}

/// Writes down how far a stream was read while the stream goes on.
pub(crate) struct Acks {
    positions: tokio::sync::mpsc::UnboundedSender<i64>,
    writer: tokio::task::JoinHandle<Result<(), tokio_postgres::Error>>,
}

impl Acks {
    /// On a connection of its own, by a statement that takes the position.
    pub(crate) async fn begin(url: &str, sql: &str) -> Outcome<Self> {
        let client = connect(url).await?;
        let statement = client.prepare(sql).await?;
        let (positions, mut written) = tokio::sync::mpsc::unbounded_channel::<i64>();
        let writer = tokio::spawn(async move {
            while let Some(position) = written.recv().await {
                client.execute(&statement, &[&position]).await?;
            }
            Ok(())
        });
        Ok(Self { positions, writer })
    }

    pub(crate) fn send(&self, position: i64) {
        // A writer that is gone says why at the end.
        let _ = self.positions.send(position);
    }

    /// Waits until all of them are written.
    pub(crate) async fn end(self) -> Outcome<()> {
        drop(self.positions);
        Ok(self.writer.await??)
    }
}

/// A value, taken out of its row as one would by hand.
#[derive(Debug)]
#[allow(dead_code, reason = "what is taken out is looked at by nobody")]
pub(crate) enum Value {
    Null,
    Integer(i64),
    Flag(bool),
    Text(String),
    Bytes(Vec<u8>),
    Uuid([u8; 16]),
}

impl<'a> FromSql<'a> for Value {
    fn from_sql(kind: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(match *kind {
            Type::INT8 | Type::TIMESTAMP | Type::TIMESTAMPTZ => {
                Self::Integer(i64::from_be_bytes(raw.try_into()?))
            }
            Type::INT4 => Self::Integer(i32::from_be_bytes(raw.try_into()?).into()),
            Type::BOOL => Self::Flag(raw == [1]),
            Type::TEXT | Type::VARCHAR | Type::JSON => Self::Text(str::from_utf8(raw)?.to_owned()),
            Type::JSONB => Self::Text(str::from_utf8(raw.get(1..).unwrap_or_default())?.to_owned()),
            Type::UUID => Self::Uuid(raw.try_into()?),
            _ => Self::Bytes(raw.to_vec()),
        })
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self::Null)
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

/// Takes all values of a row out.
pub(crate) fn take(row: &Row, values: &mut Vec<Value>) -> Result<(), tokio_postgres::Error> {
    for at in 0..row.len() {
        values.push(row.try_get(at)?);
    }
    Ok(())
}

/// Takes all values of a batch out, and forgets them behind the compiler's back.
pub(crate) fn take_all(rows: &[Row]) -> Result<(), tokio_postgres::Error> {
    let mut values = Vec::with_capacity(rows.len() * rows.first().map_or(0, Row::len));
    rows.iter().try_for_each(|row| take(row, &mut values))?;
    black_box(&values);
    Ok(())
}
