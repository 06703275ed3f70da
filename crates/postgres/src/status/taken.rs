//! Rows that were taken, as the driver has them.

use postrider_core::rows::{Decoder, Value};
use postrider_core::source::Ask;
use postrider_core::status::{Candidates, Swell, Taken};
use tokio_postgres::Row;

use crate::rows::{value, values};
use crate::session::Flow;
use crate::sql::status::taken;

/// Rows as they come from a statement that took them.
pub(crate) struct Taking<'a> {
    taking: postrider_core::status::Taking<'a>,
    /// The claim's own number.
    claim: i64,
}

impl<'a> Taking<'a> {
    pub(crate) fn new(decoder: &'a Decoder, candidates: &'a Candidates, ask: &Ask) -> Self {
        Self { taking: postrider_core::status::Taking::new(decoder, candidates, ask), claim: 0 }
    }

    pub(crate) fn read(&mut self, row: &Row) -> Result<Flow, tokio_postgres::Error> {
        if !self.taking.has_room() {
            return Ok(Flow::Enough);
        }
        let retries = (count(row, taken::RETRIES)?, count(row, taken::RETRIES_MAX)?);
        self.claim = row.try_get(taken::CLAIM)?;
        let (entry, version) = (row.try_get(taken::ENTRY)?, row.try_get(taken::VERSION)?);
        self.taking.read(entry, retries, version, values(row))?;
        Ok(Flow::More)
    }

    /// What was taken, none where it does not fit; and the claim's number.
    pub(crate) fn finish(self, swell: &Swell) -> (Option<Taken>, i64) {
        (self.taking.finish(swell), self.claim)
    }
}

/// A count as a table has it: NULL and nonsense read as none.
pub(crate) fn count(row: &Row, at: usize) -> Result<Option<u32>, tokio_postgres::Error> {
    Ok(match value(row, at)? {
        Value::Integer(number) => u32::try_from(number).ok(),
        _ => None,
    })
}
