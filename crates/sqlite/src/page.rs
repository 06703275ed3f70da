//! One page of rows for a claim of a cursor.

use std::sync::Arc;

use jiff::Timestamp;
use postrider_core::cursor::{Loaded, Settings, Taken, offer_all};
use postrider_core::limits;
use postrider_core::route::Gate;
use postrider_core::rows::{Batch, Decoder};
use postrider_core::source::Ask;
use rusqlite::Connection;

use crate::ahead::Ahead;
use crate::reading;
use crate::saved::SavedSql;
use crate::sql::CursorSql;

/// What a claim reads by.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) sql: &'a CursorSql,
    pub(crate) decoder: &'a Arc<Decoder>,
    pub(crate) now: Timestamp,
    pub(crate) ask: &'a Ask,
}

/// What a page of rows brought.
pub(crate) struct Page {
    pub(crate) taken: Taken,
    /// The ids of what was taken.
    pub(crate) ids: Vec<i64>,
    /// Ids that had been set aside before they were handed out.
    pub(crate) again: Vec<i64>,
    pub(crate) full: bool,
    pub(crate) more: bool,
    pub(crate) rows: usize,
}

/// Loads what was persisted, at a takeover: nothing is in anybody's hands then.
pub(crate) fn load(
    connection: &Connection,
    sql: &CursorSql,
    saved: &SavedSql,
    settings: Settings,
) -> rusqlite::Result<Loaded> {
    let (_, epoch) = saved.position(connection, sql)?;
    saved.start_over(connection, sql)?;
    Ok(Loaded::new(saved.load(connection, sql)?, settings, epoch))
}

/// Reads rows in one snapshot and offers them in order. Memory is bounded by the limits of the claim: what is passed by
/// stays in the buffer until the claim ends.
pub(crate) fn read_page(
    loaded: &mut Loaded,
    reader: &Reader<'_>,
    ahead: &mut Ahead,
    gate: &mut Gate<'_>,
    claim: u64,
) -> rusqlite::Result<Page> {
    let Reader { connection, sql, decoder, now, ask } = *reader;
    let limit = ask.entries_max.clamp(1, limits::BATCH_ENTRIES_MAX);
    let plan = loaded.cursor.reading(now, limit, gate, None);
    let read_to = plan.after;
    let plain = reading::is_plain(&plan);
    let known = if plain { ahead.take(plan.after, limit, ask.bytes_max) } else { None };
    let (batch, complete) = match known {
        Some(known) => known,
        None => {
            let mut batch = Batch::new(decoder);
            let complete = reading::read(connection, sql, &plan, ask.bytes_max, &mut batch)?;
            (batch, complete)
        }
    };
    let (rows, last) = (batch.len(), batch.last_id());
    let sealed = batch.seal();
    if let Some(last) = last.filter(|_| plain && !complete && !ahead.is_reading()) {
        ahead.begin(last, limit, ask.bytes_max);
    }
    let mut scan = loaded.cursor.scan(claim, plan, gate);
    let offered = offer_all(&mut scan, read_to, decoder, sealed);
    let scanned = scan.finish(complete && !offered.stopped);
    Ok(Page {
        taken: offered.taken,
        ids: offered.ids,
        again: offered.again,
        full: scanned.full,
        more: !complete && !offered.stopped,
        rows,
    })
}
