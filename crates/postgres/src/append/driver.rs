//! What an append needs of a driver, and everything that is the same for all of them.

use std::sync::Arc;

use postrider_core::append::{AppendError, Appended, RowIds, accept_key};
use postrider_core::{EntryId, Envelope, Fault, Text, limits};

use super::values::{Value, many, once, one, shortest};
use super::{Outbox, Shape};
use crate::sql::{AppendSql, COLUMNS};

/// The first columns of an answer, as texts.
pub(crate) type Answer = [Option<String>; 3];

/// How many columns an answer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Columns {
    One,
    Three,
}

/// A caller's connection: runs one statement in one round trip, once it is prepared.
pub(crate) trait Driver {
    type Error;

    /// The rows that it answers: one column or three, all of them texts.
    fn run(
        &mut self,
        sql: &str,
        values: &[Value<'_>],
        columns: Columns,
    ) -> impl Future<Output = Result<Vec<Answer>, Self::Error>> + Send;
}

type Outcome<T, D> = Result<T, AppendError<<D as Driver>::Error>>;

impl Outbox {
    pub(crate) async fn append_by<D: Driver>(
        &self,
        driver: &mut D,
        envelope: &Envelope,
    ) -> Outcome<Appended, D> {
        self.accept(envelope)?;
        let sql = self.sql(driver).await?;
        let (text, values) = shortest(self.layout(), &sql, envelope)?;
        let rows = self.run(driver, text, &values, Columns::One).await?;
        Ok(appended(&sql, envelope, rows.into_iter().next()))
    }

    pub(crate) async fn append_all_by<D: Driver>(
        &self,
        driver: &mut D,
        envelopes: &[Envelope],
    ) -> Outcome<Vec<Appended>, D> {
        fits_one_statement(envelopes)?;
        envelopes.iter().try_for_each(|envelope| self.accept(envelope))?;
        if envelopes.is_empty() {
            return Ok(Vec::new());
        }
        let sql = self.sql(driver).await?;
        let values = many(self.layout(), &sql, envelopes)?;
        let rows = self.run(driver, &sql.many, &values, Columns::One).await?;
        Ok(envelopes.iter().zip(rows).map(|(envelope, row)| appended(&sql, envelope, Some(row))).collect())
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
        // What the table would refuse is refused before the function is called.
        one(self.layout(), &sql, envelope)?;
        let rows = self.run(driver, &sql.once, &once(self.layout(), envelope, key), Columns::Three).await?;
        let [entry, event_id, repeated] = rows.into_iter().next().unwrap_or_default();
        Ok(Appended {
            id: entry_id(&sql, entry),
            event_id: event_id.map_or_else(|| envelope.id.clone(), Text::from),
            repeated: repeated.as_deref() == Some("true"),
        })
    }

    pub(crate) async fn sql<D: Driver>(&self, driver: &mut D) -> Outcome<Arc<AppendSql>, D> {
        if let Some(known) = self.known() {
            return Ok(known);
        }
        let table = Value::Text(Some(self.table().into()));
        let told = driver.run(COLUMNS, &[table], Columns::One).await.map_err(AppendError::Database)?;
        let told = told.into_iter().next().and_then(|[columns, ..]| columns);
        let sql = AppendSql::new(self.layout(), &Shape::read(self.layout(), told.as_deref())?)?;
        Ok(self.know(sql))
    }

    async fn run<D: Driver>(
        &self,
        driver: &mut D,
        sql: &str,
        values: &[Value<'_>],
        columns: Columns,
    ) -> Outcome<Vec<Answer>, D> {
        let rows = driver.run(sql, values, columns).await;
        if rows.is_err() {
            // The table may have changed: look at it again next time.
            self.forget();
        }
        rows.map_err(AppendError::Database)
    }
}

pub(crate) fn appended(sql: &AppendSql, envelope: &Envelope, row: Option<Answer>) -> Appended {
    let [entry, ..] = row.unwrap_or_default();
    let id = entry_id(sql, entry);
    // As the table has it: its spelling of a UUID, or the number that it handed out.
    let is_rows =
        sql.is_row_id || (sql.row_ids == RowIds::Event && id.to_string().eq_ignore_ascii_case(&envelope.id));
    let event_id = if is_rows { Text::from(id.to_string()) } else { envelope.id.clone() };
    Appended { id, event_id, repeated: false }
}

fn entry_id(sql: &AppendSql, entry: Option<String>) -> EntryId {
    let entry = entry.unwrap_or_default();
    match entry.parse() {
        Ok(number) if sql.counts => EntryId::Int(number),
        _ => EntryId::Text(entry.into()),
    }
}

fn fits_one_statement(envelopes: &[Envelope]) -> Result<(), Fault> {
    let bytes: usize = envelopes.iter().map(Envelope::bytes).sum();
    if envelopes.len() <= limits::APPEND_ENTRIES_MAX && bytes <= limits::APPEND_BYTES_MAX {
        return Ok(());
    }
    Err(Fault::new(
        "append",
        format!(
            "{} events of {bytes} bytes are too many for one statement, which takes {} of {} bytes",
            envelopes.len(),
            limits::APPEND_ENTRIES_MAX,
            limits::APPEND_BYTES_MAX
        ),
        "Append them in parts, in the same transaction",
    ))
}
