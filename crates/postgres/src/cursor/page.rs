//! One page of rows for a claim.

use postrider_core::cursor::{Reading, Taken, offer_all};
use postrider_core::limits;
use postrider_core::rows::Batch;
use postrider_core::source::{Ask, SourceError};
use tokio_postgres::types::Type;

use super::CursorSource;
use super::memory::Held;
use crate::fault::Error;
use crate::rows::values;
use crate::session::{Flow, Session};
use crate::sql::fields::STATE;

/// What a page of rows brought.
pub(super) struct Page {
    pub(super) taken: Taken,
    /// The ids of what was taken.
    pub(super) ids: Vec<i64>,
    /// Those of them that had been set aside before they were handed out.
    pub(super) again: Vec<i64>,
    pub(super) full: bool,
    pub(super) more: bool,
    pub(super) rows: usize,
}

impl CursorSource {
    /// Reads rows in one snapshot and offers them in order. Memory is bounded by the limits of the claim.
    pub(super) async fn read_page(
        &self,
        session: &Session,
        held: &mut Held,
        ask: &Ask,
        claim: u64,
    ) -> Result<Page, SourceError> {
        let failed = |error| self.link.failed(error);
        let limit = ask.entries_max.clamp(1, limits::BATCH_ENTRIES_MAX);
        let check = self.look(session, held).await.map_err(failed)?;
        let mut gate = ask.gate();
        let plan = held.loaded.cursor.reading(held.now, limit, &gate, check);
        let read_to = plan.after;
        // The server adds up sizes only where they might matter.
        let sized = held.row_bytes == 0 || held.row_bytes.saturating_mul(2 * limit) > ask.bytes_max;
        let mut batch = Batch::new(&self.decoder);
        let complete = self.read(session, &plan, sized, ask.bytes_max, &mut batch).await.map_err(failed)?;
        let rows = batch.len();
        held.row_bytes = batch.bytes().checked_div(rows).unwrap_or(held.row_bytes);
        let mut scan = held.loaded.cursor.scan(claim, plan, &mut gate);
        let offered = offer_all(&mut scan, read_to, &self.decoder, batch.seal());
        let scanned = scan.finish(complete && !offered.stopped);
        Ok(Page {
            taken: offered.taken,
            ids: offered.ids,
            again: offered.again,
            full: scanned.full,
            more: !complete,
            rows,
        })
    }

    /// Reads what a plan asks for, all in one statement, in id order; says whether that was all of it.
    async fn read(
        &self,
        session: &Session,
        plan: &Reading,
        sized: bool,
        bytes_max: usize,
        batch: &mut Batch<'_>,
    ) -> Result<bool, Error> {
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let (limit, bytes) = (number(plan.limit), number(bytes_max));
        let (gap_first, gap_last): (Vec<i64>, Vec<i64>) =
            plan.gaps.iter().map(|gap| (*gap.start(), *gap.end())).unzip();
        let (types, aggregates): (Vec<&str>, Vec<&str>) =
            plan.ranges.iter().map(|range| (&*range.kind.event_type, &*range.kind.aggregate_type)).unzip();
        let (first, last): (Vec<i64>, Vec<i64>) =
            plan.ranges.iter().map(|range| (range.first, range.last)).unzip();
        let plain = plan.ids.is_empty() && gap_first.is_empty() && types.is_empty();
        let sql = match (plain, sized) {
            (true, false) => &self.sql.rows.plain,
            (true, true) => &self.sql.rows.plain_sized,
            (false, false) => &self.sql.rows.union,
            (false, true) => &self.sql.rows.union_sized,
        };
        let behind = [(&plan.after as _, Type::INT8), (&limit as _, Type::INT8)];
        let most = sized.then_some((&bytes as _, Type::INT8));
        let params = if plain {
            behind.into_iter().chain(most).collect::<Vec<_>>()
        } else {
            let others = [
                (&plan.ids as _, Type::INT8_ARRAY),
                (&gap_first as _, Type::INT8_ARRAY),
                (&gap_last as _, Type::INT8_ARRAY),
                (&types as _, Type::TEXT_ARRAY),
                (&aggregates as _, Type::TEXT_ARRAY),
                (&first as _, Type::INT8_ARRAY),
                (&last as _, Type::INT8_ARRAY),
            ];
            others.into_iter().chain(behind).chain(most).collect()
        };
        let (mut came, mut is_cut) = (0, false);
        session
            .each(sql, &params, |row| {
                if !batch.is_empty() && batch.bytes() >= bytes_max {
                    is_cut = true;
                    return Ok(Flow::Enough);
                }
                batch.read(0, None, values(row))?;
                came += 1;
                is_cut = sized && row.try_get(STATE)?;
                Ok(Flow::More)
            })
            .await?;
        Ok(!is_cut && came < plan.limit)
    }
}
