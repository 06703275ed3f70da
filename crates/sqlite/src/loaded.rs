//! What a cursor knows while it holds the lease.

use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use postrider_core::cursor::{Cursor, Keyed, Offer, OutKey, Row, Settings};
use postrider_core::route::{Gate, Kind};
use postrider_core::source::Ask;
use postrider_core::{Entry, Key, Settlement, limits};
use rusqlite::Connection;
use rusqlite::types::ValueRef;

use crate::ahead::Ahead;
use crate::decode::{Batch, Decoder};
use crate::raw::{RawRow, SealedRows};
use crate::reading;
use crate::saved::SavedSql;
use crate::sql::{CursorSql, Field};

/// What a cursor knows while it holds the lease.
pub(crate) struct Loaded {
    pub(crate) cursor: Cursor,
    pub(crate) epoch: i64,
    pub(crate) open: HashMap<u64, Vec<i64>>,
    /// Released rows above the position.
    pub(crate) returned: BTreeSet<i64>,
    /// Rows that are marked one by one as being in this holder's hands.
    pub(crate) again: BTreeSet<i64>,
}

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

/// Rows that were taken, to be decoded by whoever asked for them: the thread that owns the connection reads on.
pub(crate) struct Taken {
    rows: Arc<Undecoded>,
    /// Of each row that was taken, how many retries were scheduled; none of those that were passed by.
    retries: Vec<Option<u32>>,
}

impl Taken {
    pub(crate) fn entries(self) -> Vec<Entry> {
        let mut entries = Vec::with_capacity(self.retries.len());
        let mut decoding = self.rows.decoder.begin();
        for (row, retries) in self.rows.rows.iter().zip(self.retries) {
            entries.extend(retries.map(|retries| Entry { retries, ..decoding.entry(row) }));
        }
        entries
    }
}

#[derive(Debug)]
struct Undecoded {
    decoder: Arc<Decoder>,
    rows: SealedRows,
}

impl Keyed for Undecoded {
    fn key(&self, at: usize) -> Option<Key> {
        self.rows.get(at).and_then(|row| self.decoder.begin().key(row))
    }
}

/// What a cursor asks of a row before it is decoded.
struct Offered<'a> {
    all: &'a Arc<Undecoded>,
    at: usize,
    row: RawRow<'a>,
    key: OnceCell<Option<Key>>,
}

impl Row for Offered<'_> {
    fn key(&self) -> Option<&Key> {
        self.key.get_or_init(|| self.all.decoder.begin().key(self.row)).as_ref()
    }

    fn key_later(&self) -> OutKey {
        let keyed: Arc<Undecoded> = Arc::clone(self.all);
        OutKey::Later(keyed, self.at)
    }

    fn kind(&self) -> Kind {
        self.all.decoder.begin().kind(self.row)
    }

    fn retries(&self) -> u32 {
        self.row.retries()
    }
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
        Ok(Self { cursor, epoch, open: HashMap::new(), returned: BTreeSet::new(), again: BTreeSet::new() })
    }

    /// Reads rows in one snapshot and offers them in order. Memory is bounded by the limits of the claim: what is passed by
    /// stays in the buffer until the claim ends.
    pub(crate) fn page(
        &mut self,
        reader: &Reader<'_>,
        ahead: &mut Ahead,
        gate: &mut Gate<'_>,
        claim: u64,
    ) -> rusqlite::Result<Page> {
        let Reader { connection, sql, decoder, now, ask } = *reader;
        let limit = ask.entries_max.clamp(1, limits::BATCH_ENTRIES_MAX);
        let plan = self.cursor.reading(now, limit, gate, None);
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
        let all = Arc::new(Undecoded { decoder: Arc::clone(decoder), rows: batch.seal() });
        if let Some(last) = last.filter(|_| plain && !complete && !ahead.is_reading()) {
            ahead.begin(last, limit, ask.bytes_max);
        }
        let mut scan = self.cursor.scan(claim, plan, gate);
        let (mut ids, mut again, mut stopped) = (Vec::with_capacity(rows), Vec::new(), false);
        let mut retries = Vec::with_capacity(rows);
        for (at, row) in all.rows.iter().enumerate() {
            let ValueRef::Integer(id) = row.get(Field::Id) else {
                retries.push(None);
                continue;
            };
            match scan.offer(id, &Offered { all: &all, at, row, key: OnceCell::new() }) {
                Offer::Take { retries: counted } => {
                    retries.push(Some(counted));
                    ids.push(id);
                    again.extend((id <= read_to).then_some(id));
                }
                Offer::Pass => retries.push(None),
                Offer::Stop => {
                    stopped = true;
                    break;
                }
            }
        }
        let scanned = scan.finish(complete && !stopped);
        let taken = Taken { rows: all, retries };
        Ok(Page { taken, ids, again, full: scanned.full, more: !complete, rows })
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
