//! One page of rows for a claim.

use mysql_async::{Params, Value, params};
use postrider_core::cursor::{Reading, Taken, offer_all};
use postrider_core::gaps::Check;
use postrider_core::limits;
use postrider_core::route::Gate;
use postrider_core::rows::Batch;
use postrider_core::source::{Ask, SourceError};
use serde::Serialize;

use super::CursorSource;
use super::memory::Held;
use crate::fault::Error;
use crate::rows::{number, values};
use crate::session::Session;
use crate::sql::cursor::Read;

/// Rows that are asked for at least, however large the last ones were.
const ROWS_MIN: usize = 16;
/// Gaps of so many ids are asked for id by id, which finds each at once; for a wider one the server makes a plan.
const NARROW_IDS: u64 = 32;

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
    /// Whether operators' changes were asked for before it was read.
    pub(super) is_felt: bool,
}

/// What is to be read.
struct Plan {
    reading: Reading,
    /// Whether sizes are to be asked for first.
    is_sized: bool,
    /// Whether there can be nothing to read.
    is_quiet: bool,
}

/// A kind that was held, as the statement takes it.
#[derive(Serialize)]
struct KindRead<'a> {
    t: &'a str,
    a: &'a str,
    f: i64,
}

impl CursorSource {
    /// Reads rows in one snapshot and offers them in order. Memory is bounded by the limits of the claim. None where the
    /// lease is not held.
    pub(super) async fn read_page(
        &self,
        session: &mut Session,
        ask: &Ask,
    ) -> Result<Option<Page>, SourceError> {
        let failed = |error| self.reads.failed(error);
        let mut gate = ask.gate();
        let is_felt = self.feel(session).await?;
        let check = self.look(session).await.map_err(failed)?;
        let plan = self.memory.with(|held| plan(held, ask, &gate, check, is_felt));
        let Some(Plan { reading, is_sized, is_quiet }) = plan else { return Ok(None) };
        let mut batch = Batch::new(&self.decoder);
        let complete = if is_quiet {
            true
        } else if is_sized {
            self.read_sized(session, &reading, ask.bytes_max, &mut batch).await.map_err(failed)?
        } else {
            self.read_whole(session, &reading, ask.bytes_max, &mut batch).await.map_err(failed)?
        };
        let page = self.memory.with(|held| {
            let (rows, read_to) = (batch.len(), reading.after);
            held.idle = if rows == 0 { held.idle.saturating_add(1) } else { 0 };
            held.row_bytes = batch.bytes().checked_div(rows).unwrap_or(held.row_bytes);
            let claim = held.loaded.cursor.open_claim();
            let mut scan = held.loaded.cursor.scan(claim, reading, &mut gate);
            let offered = offer_all(&mut scan, read_to, &self.decoder, batch.seal());
            let scanned = scan.finish(complete && !offered.stopped);
            self.tell_of_late_ones(held);
            self.tell_of_vanished_ones(scanned.vanished);
            Page {
                claim,
                taken: offered.taken,
                ids: offered.ids,
                again: offered.again,
                full: scanned.full,
                more: !complete && !offered.stopped,
                rows,
                is_felt,
            }
        });
        Ok(page)
    }

    fn statement(&self, reading: &Reading) -> (&Read, Params) {
        let Reading { ids, gaps, ranges, after, limit, .. } = reading;
        if ids.is_empty() && gaps.is_empty() && ranges.is_empty() {
            return (&self.sql.rows.plain, params! { "after" => *after, "rows" => *limit });
        }
        let is_narrow = |first: i64, last: i64| last.abs_diff(first) < NARROW_IDS;
        let (mut ids, mut wide) = (ids.clone(), Vec::new());
        for (first, last) in gaps.iter().map(|gap| (*gap.start(), *gap.end())) {
            if is_narrow(first, last) { ids.extend(first..=last) } else { wide.push((first, last)) }
        }
        let mut all: Vec<(&str, Value)> = vec![
            ("ids", json(&ids).into()),
            ("gaps", json(&wide).into()),
            ("after", (*after).into()),
            ("rows", (*limit).into()),
        ];
        if ranges.is_empty() {
            return (&self.sql.rows.union, Params::from(all));
        }
        let kinds = ranges.iter().map(|range| KindRead {
            t: &range.kind.event_type,
            a: &range.kind.aggregate_type,
            f: range.first,
        });
        let kinds: Vec<KindRead<'_>> = kinds.collect();
        let first = ranges.iter().map(|range| range.first).min().unwrap_or(0);
        let last = ranges.iter().map(|range| range.last).max().unwrap_or(0);
        all.extend([("kinds", json(&kinds).into()), ("first", first.into()), ("last", last.into())]);
        (&self.sql.rows.with_kinds, Params::from(all))
    }

    /// Says whether that was all. Rows may have become larger than the last ones were: then the rest is passed by.
    async fn read_whole(
        &self,
        session: &mut Session,
        reading: &Reading,
        bytes_max: usize,
        batch: &mut Batch<'_>,
    ) -> Result<bool, Error> {
        let (read, params) = self.statement(reading);
        let is_cut = fill(session, &read.whole, params, bytes_max, batch).await?;
        Ok(!is_cut && batch.len() < reading.limit)
    }

    /// Where rows may be large, the ids and sizes are what is read; then those rows are fetched that fit. Says whether that was
    /// all. What is deleted in between is as if it had not been there.
    async fn read_sized(
        &self,
        session: &mut Session,
        reading: &Reading,
        bytes_max: usize,
        batch: &mut Batch<'_>,
    ) -> Result<bool, Error> {
        let (read, params) = self.statement(reading);
        let sizes = session.query(&read.sizes, params).await?;
        let (mut bytes, mut fits) = (0_usize, Vec::with_capacity(sizes.len()));
        for row in &sizes {
            if bytes >= bytes_max {
                break;
            }
            fits.extend(number(row, 0));
            let size = number(row, 1).and_then(|size| usize::try_from(size).ok());
            bytes = bytes.saturating_add(size.unwrap_or(0));
        }
        if fits.is_empty() {
            return Ok(true);
        }
        let params = params! { "ids" => json(&fits) };
        let is_cut = fill(session, &self.sql.rows.by_ids, params, bytes_max, batch).await?;
        Ok(!is_cut && fits.len() == sizes.len() && sizes.len() < reading.limit)
    }

    /// Whoever draws ids before the INSERT goes round the rule by which gaps are closed: a later look has caught it.
    fn tell_of_late_ones(&self, held: &mut Held) {
        let late = held.loaded.cursor.late_after_close();
        if late > held.late_told {
            tracing::warn!(
                outbox = %self.outbox,
                late_after_close = late,
                "rows have appeared with ids that nobody alive could have drawn by an INSERT: an application gives ids itself, \
                 and only ids drawn by the INSERT are safe; they are published now"
            );
            held.late_told = late;
        }
    }

    /// An operator would have used `bury` and `prune`: this may be a clean-up that takes what was never sent.
    fn tell_of_vanished_ones(&self, vanished: usize) {
        if vanished > 0 {
            tracing::error!(
                outbox = %self.outbox,
                entries = vanished,
                "entries that waited to be published are gone: somebody has deleted their rows. Whatever cleans the table up \
                 must leave alone what `postrider list` shows as pending, parked or dead"
            );
        }
    }
}

/// Reads rows until they are enough; says whether there were more.
async fn fill(
    session: &mut Session,
    sql: &str,
    params: Params,
    bytes_max: usize,
    batch: &mut Batch<'_>,
) -> Result<bool, Error> {
    let mut is_cut = false;
    session
        .each(sql, params, |row| {
            is_cut |= !batch.is_empty() && batch.bytes() >= bytes_max;
            if !is_cut {
                let Ok(()) = batch.read(0, None, values(&row));
            }
        })
        .await?;
    Ok(is_cut)
}

fn plan(held: &mut Held, ask: &Ask, gate: &Gate<'_>, check: Option<Check>, is_felt: bool) -> Plan {
    let limit = ask.entries_max.clamp(1, limits::BATCH_ENTRIES_MAX);
    // The server sends no more than is about to fit.
    let fits = ask.bytes_max.saturating_mul(2).checked_div(held.row_bytes).unwrap_or(limit);
    let limit = limit.min(fits.max(ROWS_MIN));
    let is_checked = check.is_some();
    let reading = held.loaded.cursor.reading(held.now, limit, gate, check);
    let asks = !reading.ids.is_empty() || !reading.gaps.is_empty() || !reading.ranges.is_empty();
    Plan {
        is_sized: held.row_bytes == 0 || held.row_bytes.saturating_mul(2 * limit) > ask.bytes_max,
        // So an idle relay costs the database next to nothing.
        is_quiet: is_felt && !is_checked && !asks && held.highest <= reading.after,
        reading,
    }
}

fn json(list: &impl Serialize) -> String {
    serde_json::to_string(list).unwrap_or_default()
}
