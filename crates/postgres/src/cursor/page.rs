//! One page of rows for a claim.

use std::time::Duration;

use postrider_core::cursor::{Reading, Taken, offer_all};
use postrider_core::gaps::Check;
use postrider_core::limits;
use postrider_core::route::Gate;
use postrider_core::rows::Batch;
use postrider_core::source::{Ask, SourceError};
use tokio_postgres::types::Type;

use super::memory::{Held, Memory};
use super::{CursorSource, load};
use crate::fault::Error;
use crate::rows::values;
use crate::session::{Flow, Session};
use crate::sql::fields::STATE;

/// Rows whose ids were not drawn from the sequence are seen so much later at most, and so is a lost lease where there is
/// nothing to do.
const READ_EVERY: Duration = Duration::from_millis(500);

/// Rows that are asked for at least, however large the last ones were.
const ROWS_MIN: usize = 16;

/// Readings without a row after which a glance will do.
const GLANCE_AFTER: u32 = 10;

/// What a page of rows brought.
pub(super) struct Page {
    pub(super) claim: u64,
    pub(super) taken: Taken,
    /// The ids of what was taken.
    pub(super) ids: Vec<i64>,
    /// Those of them that had been set aside before they were handed out.
    pub(super) again: Vec<i64>,
    pub(super) full: bool,
    pub(super) more: bool,
    pub(super) rows: usize,
}

/// What is read, and what came of it.
struct Read<'d> {
    plan: Reading,
    sized: bool,
    batch: Batch<'d>,
    complete: bool,
}

impl CursorSource {
    /// Reads rows in one snapshot and offers them in order. Memory is bounded by the limits of the claim. None where the
    /// lease is not held, or an operator's verb has changed something since: then it is to be asked again.
    pub(super) async fn read_page(
        &self,
        session: &Session,
        memory: &mut Memory,
        ask: &Ask,
    ) -> Result<Option<Page>, SourceError> {
        let failed = |error| self.link.failed(error);
        let Some(held) = memory.held.as_mut() else { return Ok(None) };
        let (mut gate, fence) = (ask.gate(), held.fence);
        let glanced = self.glance(session, held, ask, &gate).await.map_err(failed)?;
        let ahead = if glanced.is_some() {
            glanced
        } else if self.may_ask_at_once(session, held) {
            let mut read = self.plan(held, ask, &gate, None);
            // One trip: the rows come with the answer that says whether they count.
            let (pulse, rows) =
                futures_util::future::join(self.pulse(session, fence), self.read(session, ask, &mut read))
                    .await;
            rows.map_err(failed)?;
            self.take(session, memory, pulse.map_err(failed)?).await?.then_some(read)
        } else {
            let pulse = self.pulse(session, fence).await.map_err(failed)?;
            self.take(session, memory, pulse).await?;
            None
        };
        let Some(held) = memory.held.as_mut() else { return Ok(None) };
        let Read { plan, batch, complete, .. } = match ahead {
            Some(read) => read,
            None => {
                let check = self.look(session, held).await.map_err(failed)?;
                let is_checked = check.is_some();
                let mut read = self.plan(held, ask, &gate, check);
                if !is_checked && is_quiet(held, &read.plan) {
                    read.complete = true;
                } else {
                    self.read(session, ask, &mut read).await.map_err(failed)?;
                    held.read_at = Some(held.now);
                }
                read
            }
        };
        let (rows, read_to) = (batch.len(), plan.after);
        held.idle = if rows == 0 { held.idle.saturating_add(1) } else { 0 };
        held.row_bytes = batch.bytes().checked_div(rows).unwrap_or(held.row_bytes);
        let claim = held.loaded.cursor.open_claim();
        let mut scan = held.loaded.cursor.scan(claim, plan, &mut gate);
        let offered = offer_all(&mut scan, read_to, &self.decoder, batch.seal());
        let scanned = scan.finish(complete && !offered.stopped);
        self.tell_of_late_ones(held);
        self.tell_of_vanished_ones(scanned.vanished);
        Ok(Some(Page {
            claim,
            taken: offered.taken,
            ids: offered.ids,
            again: offered.again,
            full: scanned.full,
            more: !complete && !offered.stopped,
            rows,
        }))
    }

    /// After a while without rows, the least that can be asked: whether an id was drawn, or an operator has changed something.
    /// If not there is nothing to read; the lease and the rest are asked for now and then.
    async fn glance(
        &self,
        session: &Session,
        held: &mut Held,
        ask: &Ask,
        gate: &Gate<'_>,
    ) -> Result<Option<Read<'_>>, Error> {
        if held.idle < GLANCE_AFTER || held.loaded.cursor.idle(held.now).due_in.is_some() {
            return Ok(None);
        }
        let mut read = self.plan(held, ask, gate, None);
        read.complete = true;
        if !is_quiet(held, &read.plan) {
            return Ok(None);
        }
        let params = [(&self.fence.outbox as _, Type::TEXT), (&held.drawn as _, Type::INT8)];
        let Some(row) = session.first(&self.sql.glance, &params).await? else { return Ok(None) };
        let (epoch, now, drawn): (i64, _, i64) = (row.try_get(0)?, load::time(&row, 1)?, row.try_get(2)?);
        let within = READ_EVERY.min(self.config.lease_ttl / 10);
        let is_recent = held.read_at.is_some_and(|at| now.duration_since(at).unsigned_abs() < within);
        Ok((epoch == held.loaded.epoch && drawn == held.drawn && is_recent).then_some(read))
    }

    /// Whether the rows can be asked for before it is known what time it is: where some are likely, nothing waits for its
    /// time, nobody has to be asked about gaps first, and no other table may change what is to be read.
    fn may_ask_at_once(&self, session: &Session, held: &Held) -> bool {
        let waits = held.loaded.cursor.idle(held.now).due_in.is_some();
        let rows = &self.sql.rows;
        let read = if held.loaded.cursor.idle(held.now).gaps_open > 0 { &rows.union } else { &rows.plain };
        !waits
            && held.idle == 0
            && self.failed.is_none()
            && !self.is_time_to_look(held)
            && session.pipelines([self.sql.pulse.as_str(), read.as_str()])
    }

    /// Whoever draws ids before the INSERT goes round the rule by which gaps are closed: a later look has caught it.
    fn tell_of_late_ones(&self, held: &mut Held) {
        let late = held.loaded.cursor.late_after_close();
        if late > held.late_told {
            tracing::warn!(
                outbox = %self.fence.outbox,
                late_after_close = late,
                "rows have appeared with ids that nobody alive could have drawn by an INSERT: an application draws ids itself, \
                 and only ids drawn by the INSERT are safe; they are published now"
            );
            held.late_told = late;
        }
    }

    /// An operator would have used `bury` and `prune`: this may be a clean-up that takes what was never sent.
    fn tell_of_vanished_ones(&self, vanished: usize) {
        if vanished > 0 {
            tracing::error!(
                outbox = %self.fence.outbox,
                entries = vanished,
                "entries that waited to be published are gone: somebody has deleted their rows. Whatever cleans the table up \
                 must leave alone what `postrider list` shows as pending, parked or dead"
            );
        }
    }

    fn plan(&self, held: &mut Held, ask: &Ask, gate: &Gate<'_>, check: Option<Check>) -> Read<'_> {
        let limit = ask.entries_max.clamp(1, limits::BATCH_ENTRIES_MAX);
        // The server sends no more than is about to fit: it may think that rows are smaller than they are.
        let fits = ask.bytes_max.saturating_mul(2).checked_div(held.row_bytes).unwrap_or(limit);
        let limit = limit.min(fits.max(ROWS_MIN));
        Read {
            plan: held.loaded.cursor.reading(held.now, limit, gate, check),
            // The server adds up sizes only where they might matter.
            sized: held.row_bytes == 0 || held.row_bytes.saturating_mul(2 * limit) > ask.bytes_max,
            batch: Batch::new(&self.decoder),
            complete: false,
        }
    }

    /// Reads what a plan asks for, all in one statement, in id order.
    async fn read(&self, session: &Session, ask: &Ask, read: &mut Read<'_>) -> Result<(), Error> {
        let Read { plan, sized, batch, complete } = read;
        let (sized, bytes_max) = (*sized, ask.bytes_max);
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
        *complete = !is_cut && came < plan.limit;
        Ok(())
    }
}

/// Whether there can be nothing to read: every id that was drawn has been seen, and nothing is asked for by its id. So an
/// idle relay costs the database next to nothing, however many partitions its table has.
fn is_quiet(held: &Held, plan: &Reading) -> bool {
    let is_recent = |at| held.now.duration_since(at).unsigned_abs() < READ_EVERY;
    held.drawn <= plan.after
        && held.read_at.is_some_and(is_recent)
        && plan.ids.is_empty()
        && plan.gaps.is_empty()
        && plan.ranges.is_empty()
}
