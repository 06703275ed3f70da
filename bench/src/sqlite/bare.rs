//! The bare loops: the statements that the relay runs, with nothing around them.

use postrider_sqlite::{CursorStatements, LeaseStatements};
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, Row, TransactionBehavior};

use super::outbox::Outbox;
use crate::load::BATCH_ENTRIES;

type Result<T> = rusqlite::Result<T>;

/// What a bare loop does with the values of a row.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Take {
    /// Looks at each and forgets it: nothing could be handed to a sink.
    Nothing,
    /// Copies each batch into one buffer.
    Bytes,
    /// Takes each value out of the row as the driver gives it, as one would by hand, and keeps them for the batch.
    Values,
}

/// Reads the native table by id; one write of the position per batch.
pub(crate) fn cursor(outbox: &Outbox, rows: usize, take: Take) -> Result<()> {
    let connection = outbox.connect()?;
    let sql = CursorStatements::new(&outbox.layout);
    let (mut read, mut write) = (connection.prepare(&sql.after)?, connection.prepare(&sql.write_position)?);
    let (mut position, mut seen) = (0i64, 0);
    loop {
        let batch = Batch::read(&mut read, (position, BATCH_ENTRIES as i64), BATCH_ENTRIES, take)?;
        let Some(last) = batch.ids.last() else { break };
        position = *last;
        seen += batch.ids.len();
        write.execute(("outbox", position, position, "[]"))?;
    }
    assert_eq!(seen, rows, "the bare loop reads every row");
    Ok(())
}

/// Claims rows of a status table and settles them, two transactions per batch.
pub(crate) fn lease(outbox: &Outbox, rows: usize, take: Take) -> Result<()> {
    let mut connection = outbox.connect()?;
    let sql = LeaseStatements::new(&outbox.layout).expect("the layout has a status");
    let (mut after, mut seen) = (0i64, 0);
    loop {
        let batch = claim(&mut connection, &sql, after, take)?;
        let Some(last) = batch.ids.last() else { break };
        after = *last;
        seen += batch.ids.len();
        settle(&mut connection, &sql, &batch.ids)?;
    }
    assert_eq!(seen, rows, "the bare loop settles every row");
    Ok(())
}

fn claim(connection: &mut Connection, sql: &LeaseStatements, after: i64, take: Take) -> Result<Batch> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let batch = Batch::read(
        &mut *transaction.prepare_cached(&sql.scan_on)?,
        ("outbox", None::<i64>, after),
        BATCH_ENTRIES,
        take,
    )?;
    transaction.prepare_cached(&sql.mark)?.execute(("outbox", json(&batch.ids), "bench", i64::MAX, 1))?;
    transaction.commit()?;
    Ok(batch)
}

fn settle(connection: &mut Connection, sql: &LeaseStatements, ids: &[i64]) -> Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let rows = json_rows(ids);
    transaction.prepare_cached(&sql.published)?.execute(("outbox", &rows, "bench", 1))?;
    transaction.prepare_cached(&sql.published_table)?.execute(("outbox", &rows, "2026-01-01T00:00:01Z"))?;
    transaction.commit()
}

struct Batch {
    ids: Vec<i64>,
    /// Keeps the reading of the columns from being optimised away.
    bytes: usize,
    kept: Vec<u8>,
    values: Vec<Value>,
}

impl Batch {
    fn read(
        statement: &mut rusqlite::Statement<'_>,
        parameters: impl rusqlite::Params,
        rows_max: usize,
        take: Take,
    ) -> Result<Self> {
        let columns = statement.column_count();
        let mut batch =
            Self { ids: Vec::with_capacity(rows_max), bytes: 0, kept: Vec::new(), values: Vec::new() };
        let mut rows = statement.query(parameters)?;
        while batch.ids.len() < rows_max
            && let Some(row) = rows.next()?
        {
            for column in 0..columns {
                match take {
                    Take::Nothing => batch.bytes += bytes(row, column)?,
                    Take::Bytes => {
                        if let ValueRef::Text(value) | ValueRef::Blob(value) = row.get_ref(column)? {
                            batch.kept.extend_from_slice(value);
                        }
                    }
                    Take::Values => batch.values.push(row.get(column)?),
                }
            }
            batch.ids.push(row.get(0)?);
        }
        std::hint::black_box((batch.bytes, &batch.kept, &batch.values));
        Ok(batch)
    }
}

fn bytes(row: &Row<'_>, column: usize) -> Result<usize> {
    Ok(match row.get_ref(column)? {
        ValueRef::Null => 0,
        ValueRef::Integer(_) | ValueRef::Real(_) => 8,
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.len(),
    })
}

fn json(ids: &[i64]) -> String {
    format!("[{}]", ids.iter().map(i64::to_string).collect::<Vec<_>>().join(","))
}

fn json_rows(ids: &[i64]) -> String {
    format!("[{}]", ids.iter().map(|id| format!("[{id},0]")).collect::<Vec<_>>().join(","))
}
