//! What a cursor knows while it holds the lease: which rows are in whose hands.

use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;

use super::{Cursor, Keyed, Offer, OutKey, Row, Saved, Scan, Settings};
use crate::route::Kind;
use crate::rows::{Decoder, Field, RawRow, SealedRows, Value};
use crate::{Entry, Key, Settlement};

/// What a cursor knows while it holds the lease.
#[derive(Debug)]
pub struct Loaded {
    /// The cursor itself.
    pub cursor: Cursor,
    /// The last operator's verb that it has taken over.
    pub epoch: i64,
    /// Per claim, the rows that it handed out; [`SETTLED`] stands for one that is done with.
    pub open: HashMap<u64, Vec<i64>>,
    /// Released rows above the position.
    pub returned: BTreeSet<i64>,
    /// Rows that are marked one by one as being in this holder's hands.
    pub again: BTreeSet<i64>,
}

/// What became of a page of rows.
#[derive(Debug)]
pub struct Offered {
    /// What is handed out.
    pub taken: Taken,
    /// The ids of what was taken.
    pub ids: Vec<i64>,
    /// Those of them that had been set aside before they were handed out.
    pub again: Vec<i64>,
    /// Whether the scan wanted no more rows.
    pub stopped: bool,
}

/// Offers every row of a page to a scan, in order. Rows up to `read_to` were looked at before.
pub fn offer_all(
    scan: &mut Scan<'_, '_, '_>,
    read_to: i64,
    decoder: &Arc<Decoder>,
    rows: SealedRows,
) -> Offered {
    let all = Arc::new(Undecoded { decoder: Arc::clone(decoder), rows });
    let (mut ids, mut again, mut retries, mut stopped) = (Vec::new(), Vec::new(), Vec::new(), false);
    for (at, row) in all.rows.iter().enumerate() {
        let Value::Integer(id) = row.get(Field::Id) else {
            retries.push(None);
            continue;
        };
        match scan.offer(id, &OneRow { all: &all, at, row, key: OnceCell::new() }) {
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
    Offered { taken: Taken { rows: all, retries }, ids, again, stopped }
}

/// Rows that were taken, to be decoded by whoever asked for them: the thread that owns the connection reads on.
#[derive(Debug)]
pub struct Taken {
    rows: Arc<Undecoded>,
    /// Of each row that was taken, how many retries were scheduled; none of those that were passed by.
    retries: Vec<Option<u32>>,
}

impl Taken {
    /// The entries.
    #[must_use]
    pub fn entries(self) -> Vec<Entry> {
        let mut entries = Vec::with_capacity(self.retries.len());
        let mut decoding = self.rows.decoder.begin();
        for (row, retries) in self.rows.rows.iter().zip(self.retries) {
            if let Some(retries) = retries {
                let mut entry = decoding.entry(row);
                entry.retries = retries;
                entries.push(entry);
            }
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
struct OneRow<'a> {
    all: &'a Arc<Undecoded>,
    at: usize,
    row: RawRow<'a>,
    key: OnceCell<Option<Key>>,
}

impl Row for OneRow<'_> {
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
pub const SETTLED: i64 = i64::MIN;

impl Loaded {
    /// Starts from what was persisted.
    #[must_use]
    pub fn new(saved: Saved, settings: Settings, epoch: i64) -> Self {
        let cursor = Cursor::load(saved, settings);
        Self { cursor, epoch, open: HashMap::new(), returned: BTreeSet::new(), again: BTreeSet::new() }
    }

    /// Rows go into the relay's hands.
    pub fn hand_out(&mut self, claim: u64, ids: Vec<i64>, again: &[i64]) {
        self.again.extend(again);
        for id in &ids {
            self.returned.remove(id);
        }
        self.open.insert(claim, ids);
    }

    /// What became of rows of a claim; what is settled already stays so.
    pub fn settle(&mut self, claim: u64, now: Timestamp, settlements: &[(usize, Settlement)]) {
        let Some(ids) = self.open.get_mut(&claim) else { return };
        let returned = &mut self.returned;
        let fresh = settlements.iter().filter_map(|(index, settlement)| {
            let id = ids.get_mut(*index).filter(|id| **id != SETTLED)?;
            let id = std::mem::replace(id, SETTLED);
            if *settlement == Settlement::Released {
                returned.insert(id);
            }
            Some((id, settlement))
        });
        self.cursor.settle(claim, now, fresh);
    }

    /// Marked rows that are settled or given back by now.
    pub fn no_longer_again(&self) -> BTreeSet<i64> {
        if self.again.is_empty() {
            return BTreeSet::new();
        }
        let out: BTreeSet<i64> = self.open.values().flatten().copied().collect();
        self.again.difference(&out).copied().collect()
    }

    /// The highest id in this holder's hands, or the position.
    pub fn claimed(&self, position: i64) -> i64 {
        let out = self.open.values().flatten().copied().filter(|id| *id != SETTLED);
        out.max().unwrap_or(position).max(position)
    }

    /// Whether everything of a claim is settled.
    #[must_use]
    pub fn is_settled(&self, claim: u64) -> bool {
        let ids = self.open.get(&claim);
        ids.is_some_and(|ids| !ids.is_empty() && ids.iter().all(|id| *id == SETTLED))
    }

    /// What a claim has not settled is as if it had not been claimed.
    pub fn abandon(&mut self, claim: u64) {
        let Some(left) = self.open.get_mut(&claim) else { return };
        if left.iter().any(|id| *id != SETTLED) {
            self.cursor.release(claim);
            self.returned.extend(left.drain(..).filter(|id| *id != SETTLED));
        }
    }

    /// Forgets a claim, and gives back what it has not settled.
    pub fn drop_claim(&mut self, claim: u64) {
        self.abandon(claim);
        self.open.remove(&claim);
    }
}
