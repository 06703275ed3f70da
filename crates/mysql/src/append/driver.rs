//! What an append needs of a driver, and everything that is the same for all of them.

use std::sync::Arc;

use postrider_core::append::{AppendError, Appended, RowIds, accept_key};
use postrider_core::{EntryId, Envelope, Fault, Text, limits};

use super::document::document;
use super::values::{Value, one};
use super::{Outbox, Shape};
use crate::sql::append::{AppendSql, COLUMNS};
use crate::table::Server;

/// The first columns of an answer, as texts.
pub(crate) type Answer = [Option<String>; 3];

/// What the columns of an answer are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Columns {
    /// A text.
    Text,
    /// Two texts, and a number behind them: what the installed procedure answers.
    Called,
}

/// A caller's connection: runs one statement in one round trip, once it is prepared.
pub(crate) trait Driver {
    type Error;

    /// Whether [`Self::insert`] tells the id that the table handed out.
    const TELLS_ID: bool;

    /// The rows that it answers.
    fn rows(
        &mut self,
        sql: &str,
        values: &[Value<'_>],
        columns: Columns,
    ) -> impl Future<Output = Result<Vec<Answer>, Self::Error>> + Send;

    /// The first id that the table handed out.
    fn insert(
        &mut self,
        sql: &str,
        values: &[Value<'_>],
    ) -> impl Future<Output = Result<u64, Self::Error>> + Send;
}

type Outcome<T, D> = Result<T, AppendError<<D as Driver>::Error>>;

impl Outbox {
    pub(crate) async fn append_by<D: Driver>(
        &self,
        driver: &mut D,
        envelope: &Envelope,
    ) -> Outcome<Appended, D> {
        let all = self.append_all_by(driver, std::slice::from_ref(envelope)).await?;
        all.into_iter().next().ok_or_else(|| AppendError::Refused(unanswered()))
    }

    pub(crate) async fn append_all_by<D: Driver>(
        &self,
        driver: &mut D,
        envelopes: &[Envelope],
    ) -> Outcome<Vec<Appended>, D> {
        envelopes.iter().try_for_each(|envelope| self.accept(envelope))?;
        if envelopes.is_empty() {
            return Ok(Vec::new());
        }
        let sql = self.sql(driver).await?;
        fits_one_statement(&sql, envelopes)?;
        let mut values = Vec::with_capacity(sql.parameters.len() * envelopes.len());
        for envelope in envelopes {
            values.extend(one(self.layout(), &sql, envelope)?);
        }
        let hands_out = sql.row_ids == RowIds::Table;
        if self.gives_numbers() || (hands_out && sql.server == Server::Mysql && !D::TELLS_ID) {
            return self.call(driver, &sql, envelopes, None).await;
        }
        let text = sql.insert(envelopes.len());
        if hands_out && sql.server == Server::Mariadb {
            let rows = self.heard(driver.rows(&text, &values, Columns::Text).await)?;
            let ids = rows.into_iter().map(|[id, ..]| entry_id(&sql, id));
            return Ok(envelopes
                .iter()
                .zip(ids)
                .map(|(envelope, id)| appended(&sql, envelope, id))
                .collect());
        }
        let first = self.heard(driver.insert(&text, &values).await)?;
        // Rows of one statement have ids one after the other, whatever the server's mode of locking is.
        let id = |(at, envelope): (i64, &Envelope)| match sql.row_ids {
            RowIds::Table => {
                EntryId::Int(i64::try_from(first).unwrap_or(i64::MAX).saturating_add(at * sql.step))
            }
            RowIds::Event | RowIds::Nobody => EntryId::Text(envelope.id.clone()),
        };
        Ok((0..).zip(envelopes).map(|each| appended(&sql, each.1, id(each))).collect())
    }

    pub(crate) async fn append_once_by<D: Driver>(
        &self,
        driver: &mut D,
        envelope: &Envelope,
        key: &str,
    ) -> Outcome<Appended, D> {
        self.accept(envelope)?;
        accept_key(key)?;
        let sql = self.sql(driver).await?;
        // What the table would refuse is refused before the procedure is called.
        one(self.layout(), &sql, envelope)?;
        let all = self.call(driver, &sql, std::slice::from_ref(envelope), Some(key)).await?;
        all.into_iter().next().ok_or_else(|| AppendError::Refused(unanswered()))
    }

    /// Calls the installed procedure.
    async fn call<D: Driver>(
        &self,
        driver: &mut D,
        sql: &AppendSql,
        envelopes: &[Envelope],
        key: Option<&str>,
    ) -> Outcome<Vec<Appended>, D> {
        let document = document(envelopes, key);
        if document.len() > sql.packet_bytes_max.saturating_sub(PACKET_SPARE_BYTES) {
            return Err(too_many(envelopes.len(), document.len(), sql).into());
        }
        let values = [Value::Text(document.into())];
        let rows = self.heard(driver.rows(&sql.call, &values, Columns::Called).await)?;
        let told = |(envelope, [entry, event_id, repeated]): (&Envelope, Answer)| Appended {
            id: entry_id(sql, entry),
            event_id: event_id.map_or_else(|| envelope.id.clone(), Text::from),
            repeated: repeated.as_deref() == Some("1"),
        };
        Ok(envelopes.iter().zip(rows).map(told).collect())
    }

    async fn sql<D: Driver>(&self, driver: &mut D) -> Outcome<Arc<AppendSql>, D> {
        if let Some(known) = self.known() {
            return Ok(known);
        }
        let layout = self.layout();
        let schema = layout.schema.as_ref().map_or(Value::Null, |schema| Value::Text(schema.as_str().into()));
        let named = [schema, Value::Text(layout.table.as_str().into())];
        let told = driver.rows(COLUMNS, &named, Columns::Text).await.map_err(AppendError::Database)?;
        let told = told.into_iter().filter_map(|[column, ..]| column);
        Ok(self.know(AppendSql::new(layout, &Shape::read(layout, told)?)?))
    }

    fn heard<T, E>(&self, answer: Result<T, E>) -> Result<T, AppendError<E>> {
        if answer.is_err() {
            // The table may have changed: look at it again next time.
            self.forget();
        }
        answer.map_err(AppendError::Database)
    }
}

fn appended(sql: &AppendSql, envelope: &Envelope, id: EntryId) -> Appended {
    let event_id = if sql.is_row_id { Text::from(id.to_string()) } else { envelope.id.clone() };
    Appended { id, event_id, repeated: false }
}

fn entry_id(sql: &AppendSql, entry: Option<String>) -> EntryId {
    let entry = entry.unwrap_or_default();
    match entry.parse() {
        Ok(number) if sql.row_ids == RowIds::Table => EntryId::Int(number),
        _ => EntryId::Text(entry.into()),
    }
}

/// The protocol's own bound on the parameters of a statement.
const PARAMETERS_MAX: usize = 65_535;
/// What a packet has besides what events say.
const PACKET_SPARE_BYTES: usize = 16 * 1024;
/// What a row has besides what its event says: the lengths of its parameters, a hash, a time.
const ROW_SPARE_BYTES: usize = 256;

fn fits_one_statement(sql: &AppendSql, envelopes: &[Envelope]) -> Result<(), Fault> {
    let bytes: usize = envelopes.iter().map(|envelope| envelope.bytes() + ROW_SPARE_BYTES).sum();
    let most = sql.packet_bytes_max.saturating_sub(PACKET_SPARE_BYTES).min(limits::APPEND_BYTES_MAX);
    if envelopes.len() <= entries_max(sql) && bytes <= most {
        return Ok(());
    }
    Err(too_many(envelopes.len(), bytes, sql))
}

/// Events that go into one statement.
pub(crate) fn entries_max(sql: &AppendSql) -> usize {
    (PARAMETERS_MAX / sql.parameters.len().max(1)).min(limits::APPEND_ENTRIES_MAX)
}

fn too_many(events: usize, bytes: usize, sql: &AppendSql) -> Fault {
    Fault::new(
        "append",
        format!(
            "{events} events of {bytes} bytes are too many for one statement, which takes {} of {} bytes here",
            entries_max(sql),
            sql.packet_bytes_max
        ),
        "Append them in parts, in the same transaction, or raise the server's max_allowed_packet",
    )
}

/// What no server does: an insert or a call that succeeds and tells nothing.
fn unanswered() -> Fault {
    Fault::new(
        "append",
        "the database told no id",
        "Run `postrider migrate`, which installs the procedure anew",
    )
}
