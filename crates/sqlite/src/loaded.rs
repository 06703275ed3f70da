//! What a cursor knows while it holds the lease.

use std::collections::{BTreeSet, HashMap};

use jiff::Timestamp;
use postrider_core::cursor::{Cursor, Offer, Settings};
use postrider_core::route::Gate;
use postrider_core::source::Ask;
use postrider_core::{Entry, Settlement, limits};
use rusqlite::Connection;

use crate::decode::{Batch, Decoder, Size};
use crate::reading;
use crate::saved::SavedSql;
use crate::sql::CursorSql;

/// What a cursor knows while it holds the lease.
pub(crate) struct Loaded {
    pub(crate) cursor: Cursor,
    pub(crate) epoch: i64,
    pub(crate) open: HashMap<u64, Vec<i64>>,
    /// Released rows above the position.
    pub(crate) returned: BTreeSet<i64>,
    /// Rows that are marked one by one as being in this holder's hands.
    pub(crate) again: BTreeSet<i64>,
    /// How large the last batch was.
    size: Size,
}

/// What a claim reads by.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) sql: &'a CursorSql,
    pub(crate) decoder: &'a Decoder,
    pub(crate) now: Timestamp,
    pub(crate) ask: &'a Ask,
}

/// What a page of rows brought.
pub(crate) struct Page {
    pub(crate) entries: Vec<Entry>,
    /// Ids that had been set aside before they were handed out.
    pub(crate) again: Vec<i64>,
    pub(crate) full: bool,
    pub(crate) more: bool,
    pub(crate) rows: usize,
}

/// Stands for a row of a claim that was settled: indexes must not shift.
pub(crate) const SETTLED: i64 = i64::MIN;

impl Loaded {
    pub(crate) fn read(
        connection: &Connection,
        sql: &CursorSql,
        saved: &SavedSql,
        settings: Settings,
    ) -> rusqlite::Result<Self> {
        let (_, epoch) = saved.position(connection, sql)?;
        saved.start_over(connection, sql)?;
        let cursor = Cursor::load(saved.load(connection, sql)?, settings);
        Ok(Self {
            cursor,
            epoch,
            open: HashMap::new(),
            returned: BTreeSet::new(),
            again: BTreeSet::new(),
            size: Size::default(),
        })
    }

    /// Reads rows in one snapshot and offers them in order. Memory is bounded by the limits of the claim: what is passed by
    /// stays in the buffer until the claim ends.
    pub(crate) fn page(
        &mut self,
        reader: &Reader<'_>,
        gate: &mut Gate<'_>,
        claim: u64,
    ) -> rusqlite::Result<Page> {
        let Reader { connection, sql, decoder, now, ask } = *reader;
        let limit = ask.entries_max.clamp(1, limits::BATCH_ENTRIES_MAX);
        let plan = self.cursor.reading(now, limit, gate, None);
        let read_to = plan.after;
        let mut batch = Batch::sized(decoder, self.size);
        let complete = reading::read(connection, sql, &plan, ask.bytes_max, &mut batch)?;
        let rows = batch.len();
        self.size = batch.size();
        let mut scan = self.cursor.scan(claim, plan, gate);
        let (mut again, mut stopped) = (Vec::new(), false);
        let mut entries = batch.finish();
        entries.retain_mut(|entry| {
            let Some(id) = entry.id.int().filter(|_| !stopped) else { return false };
            match scan.offer(id, entry) {
                Offer::Take { retries } => {
                    entry.retries = retries;
                    again.extend((id <= read_to).then_some(id));
                    true
                }
                Offer::Pass => false,
                Offer::Stop => {
                    stopped = true;
                    false
                }
            }
        });
        let scanned = scan.finish(complete && !stopped);
        Ok(Page { entries, again, full: scanned.full, more: !complete, rows })
    }

    pub(crate) fn hand_out(&mut self, claim: u64, ids: Vec<i64>, again: &[i64]) {
        self.again.extend(again);
        for id in &ids {
            self.returned.remove(id);
        }
        self.open.insert(claim, ids);
    }

    pub(crate) fn settle(&mut self, claim: u64, now: Timestamp, settlements: &[(usize, Settlement)]) {
        let Some(ids) = self.open.get_mut(&claim) else { return };
        let fresh = settlements.iter().filter_map(|(index, settlement)| {
            let id = ids.get(*index).copied().filter(|id| *id != SETTLED)?;
            Some((*index, id, settlement))
        });
        let fresh: Vec<_> = fresh.collect();
        self.cursor.settle(claim, now, fresh.iter().map(|(_, id, settlement)| (*id, *settlement)));
        for (index, id, settlement) in fresh {
            ids[index] = SETTLED;
            if *settlement == Settlement::Released {
                self.returned.insert(id);
            }
        }
    }

    /// Marked rows that are settled or given back by now.
    pub(crate) fn no_longer_again(&self) -> BTreeSet<i64> {
        if self.again.is_empty() {
            return BTreeSet::new();
        }
        let out: BTreeSet<i64> = self.open.values().flatten().copied().collect();
        self.again.difference(&out).copied().collect()
    }

    /// The highest id in this holder's hands, or the position.
    pub(crate) fn claimed(&self, position: i64) -> i64 {
        let out = self.open.values().flatten().copied().filter(|id| *id != SETTLED);
        out.max().unwrap_or(position).max(position)
    }
}
