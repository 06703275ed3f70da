//! Rows that were taken.

use std::collections::HashMap;

use postrider_core::Entry;
use postrider_core::rows::{Batch, Decoder, Value};
use tokio_postgres::Row;

use super::Rank;
use crate::fault::Error;
use crate::rows::{value, values};
use crate::sql::status::taken;

/// What is known of a row that was handed out.
#[derive(Debug)]
pub(crate) struct OpenRow {
    pub(crate) entry: String,
    pub(crate) retries: u32,
    /// The version that it has now.
    pub(crate) version: i64,
    pub(crate) settled: bool,
}

/// Rows that were taken, in order.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    pub(crate) entries: Vec<Entry>,
    pub(crate) rows: Vec<OpenRow>,
    /// The claim's own number.
    pub(crate) claim: i64,
}

impl Taken {
    /// Reads what a statement answered, in the order in which the rows stand in the table. `beside` has the retries of rows
    /// whose table has no column for them, and no row that must not be handed out.
    pub(crate) fn read(
        decoder: &Decoder,
        ranks: &[Rank],
        rows: &[Row],
        beside: impl Fn(&str) -> Option<Option<u32>>,
    ) -> Result<Self, Error> {
        let places: HashMap<&str, usize> =
            ranks.iter().enumerate().map(|(at, rank)| (rank.entry.as_str(), at)).collect();
        let mut ordered = Vec::with_capacity(rows.len());
        for row in rows {
            let entry: &str = row.try_get(taken::ENTRY)?;
            ordered.push((places.get(entry).copied().unwrap_or(usize::MAX), row));
        }
        ordered.sort_by_key(|(place, _)| *place);
        let (mut batch, mut all) = (Batch::new(decoder), Self::default());
        for (_, row) in ordered {
            let entry: String = row.try_get(taken::ENTRY)?;
            let Some(kept) = beside(&entry) else { continue };
            let retries = count(row, taken::RETRIES)?.or(kept).unwrap_or(0);
            batch.read(retries, count(row, taken::RETRIES_MAX)?, values(row))?;
            all.claim = row.try_get(taken::CLAIM)?;
            all.rows.push(OpenRow { entry, retries, version: row.try_get(taken::VERSION)?, settled: false });
        }
        all.entries = batch.finish();
        Ok(all)
    }
}

/// A count as a table has it: NULL and nonsense read as none.
pub(crate) fn count(row: &Row, at: usize) -> Result<Option<u32>, tokio_postgres::Error> {
    Ok(match value(row, at)? {
        Value::Integer(number) => u32::try_from(number).ok(),
        _ => None,
    })
}
