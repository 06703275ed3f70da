//! Sorting rows that were looked at: which may be handed out, and which hold back their key.

use std::collections::HashMap;

use super::{Hands, OpenRow, Pass, Rank, Taken, Why};
use crate::Key;
use crate::rows::{Decoder, SealedRows};
use crate::source::Ask;

/// Rows that are read at once, at least and at most.
const PAGE_ROWS_MIN: usize = 200;
const PAGE_ROWS_MAX: usize = 4_000;

/// How many rows to read at once. Pages grow with those that were in vain.
#[must_use]
pub fn page_rows(ask: &Ask, in_vain: u32) -> usize {
    let rows_max = ask.entries_max.saturating_mul(2).clamp(PAGE_ROWS_MIN, PAGE_ROWS_MAX);
    rows_max.saturating_mul(1 << in_vain.min(8)).min(PAGE_ROWS_MAX)
}

/// What a scan goes by.
#[derive(Debug)]
pub struct Sorter<'a> {
    /// Reads keys and kinds.
    pub decoder: &'a Decoder,
    /// Whether a row that waits holds back its key.
    pub keeps_order: bool,
    /// The first dead row of each key that it holds.
    pub holders: &'a HashMap<Key, Rank>,
    /// What this relay has in its hands.
    pub hands: &'a Hands,
}

/// One row, looked at without its payload.
#[derive(Debug)]
pub struct Looked {
    /// Where it stands.
    pub rank: Rank,
    /// The row alone.
    pub row: SealedRows,
    /// What it counts for in the limits, payload included.
    pub bytes: usize,
    /// Microseconds until it may be handed out.
    pub wait_us: i64,
    /// Whether it is in somebody's hands until then.
    pub held: bool,
    /// Whether it is dead beside its table, which the table's own word does not say: it is passed by.
    pub dead: bool,
    /// The transaction that wrote it as it is; zero where the database does not tell.
    pub written_by: i64,
}

/// Rows that may be handed out, in order.
#[derive(Debug, Default)]
pub struct Candidates {
    /// Where they stand.
    pub ranks: Vec<Rank>,
    /// What they count for.
    pub bytes: Vec<usize>,
    /// Their keys, where order is kept.
    pub keys: Vec<Option<Key>>,
    /// How many of them fit into the claim. Where nobody is the only one there are more, in the place of those that others
    /// have locked.
    pub most: usize,
}

/// Rows that were looked at in one go.
#[derive(Debug, Default)]
pub struct Page {
    /// Those that may be handed out.
    pub candidates: Candidates,
    /// How many were looked at.
    pub rows: usize,
    /// Where order is kept: those that were looked at, and which transaction wrote them.
    pub seen: Vec<(String, i64)>,
    /// The first of them.
    pub first: Option<Rank>,
    /// The last of them that is behind the pass: not looked at again.
    pub last: Option<Rank>,
    /// The last one before the first that stands ahead of the clock, if there is such a one.
    pub steady: Option<Rank>,
    /// Whether it stopped at a limit of the claim, so that there is more.
    pub cut: bool,
    /// Whether there is nothing behind it.
    pub end: bool,
}

impl Page {
    /// Where the next claim goes on after these were taken, and whether there is more.
    #[must_use]
    pub fn mark(&self, taken: &Taken) -> (Option<Rank>, bool) {
        let candidates = &self.candidates;
        let last = taken.rows.last().map(OpenRow::entry);
        // What was offered in vain is in other hands: it is passed by.
        let last = last.filter(|_| taken.rows.len() >= candidates.most);
        match last.and_then(|last| candidates.ranks.iter().position(|rank| rank.entry == last)) {
            Some(at) if at + 1 < candidates.ranks.len() => (candidates.ranks.get(at).cloned(), true),
            _ => (self.last.clone(), self.cut || !self.end),
        }
    }
}

impl Sorter<'_> {
    /// Sorts the next rows of the pass, of which `rows_max` were asked for. Those that have to wait are left to the pass.
    ///
    /// # Errors
    /// When the driver cannot give a value.
    pub fn page<E>(
        &self,
        rows: impl ExactSizeIterator<Item = Result<Looked, E>>,
        rows_max: usize,
        ask: &Ask,
        pass: &mut Pass,
    ) -> Result<Page, E> {
        let came = rows.len();
        let mut page = self.sort(rows, ask, pass)?;
        page.end = !page.cut && came < rows_max;
        Ok(page)
    }

    fn sort<E>(
        &self,
        rows: impl Iterator<Item = Result<Looked, E>>,
        ask: &Ask,
        pass: &mut Pass,
    ) -> Result<Page, E> {
        let mut gate = ask.gate();
        // Others may have locked what comes first: then more is offered than fits, unless counting is to be exact.
        let holds = &ask.holds;
        let exact = self.keeps_order || !holds.allowances.is_empty() || !holds.sink_allowances.is_empty();
        let (mut page, mut bytes, mut full, mut ahead) = (Page::default(), 0, false, false);
        for looked in rows {
            let Looked { rank, row, bytes: row_bytes, wait_us, held, dead, written_by } = looked?;
            let Some(raw) = row.get(0) else { continue };
            if full && exact {
                page.cut = true;
                break;
            }
            let mut decoding = self.decoder.begin();
            let named = decoding.key(raw);
            let key = named.clone().filter(|_| self.keeps_order);
            if page.first.is_none() {
                page.first = Some(rank.clone());
            }
            page.rows += 1;
            pass.saw(&rank);
            if self.keeps_order {
                page.seen.push((rank.entry.clone(), written_by));
            }
            if dead {
                // Those of its key wait for it where it holds them.
            } else if self.hands.have(&rank.entry) {
                // It is in one of this relay's open claims, which may have more of its key: the relay decides what is in flight.
            } else if wait_us > 0 {
                pass.elsewhere |= held;
                let due = Why::Due(pass.now_us().saturating_add(wait_us));
                pass.leave(key.as_ref().filter(|_| !held), &rank, due);
            } else if key.as_ref().is_some_and(|key| pass.blocks(key, &rank)) {
                // It stands behind another one of its key.
            } else if key.as_ref().is_some_and(|key| self.is_behind_dead(key, &rank)) {
                pass.leave(key.as_ref(), &rank, Why::Dead);
            } else if let Err(hold) = gate.pass_by(named.as_ref(), || decoding.kind(raw)) {
                pass.leave(key.as_ref(), &rank, Why::Held(hold));
            } else {
                bytes += row_bytes;
                page.candidates.ranks.push(rank.clone());
                page.candidates.bytes.push(row_bytes);
                page.candidates.keys.push(key);
                if !full {
                    page.candidates.most += 1;
                    full = page.candidates.most >= ask.entries_max.max(1) || bytes >= ask.bytes_max;
                }
            }
            if !ahead && pass.is_ahead(&rank) {
                (page.steady, ahead) = (page.last.take(), true);
            }
            page.last = Some(rank);
        }
        // No more than fits is offered where more would be too large.
        if bytes > ask.bytes_max && page.candidates.ranks.len() > page.candidates.most {
            page.cut = true;
            page.candidates.ranks.truncate(page.candidates.most);
            page.last = page.candidates.ranks.last().cloned();
        }
        Ok(page)
    }

    fn is_behind_dead(&self, key: &Key, rank: &Rank) -> bool {
        self.holders.get(key).is_some_and(|dead| dead.is_before(rank))
    }

    /// The first dead row of each key that it holds, of those that are given. Keys are found by the decoder: a row may be dead
    /// because its key is none.
    ///
    /// # Errors
    /// When the driver cannot give a value.
    pub fn holders<E>(
        decoder: &Decoder,
        rows: impl Iterator<Item = Result<(Rank, SealedRows), E>>,
    ) -> Result<HashMap<Key, Rank>, E> {
        let mut first: HashMap<Key, Rank> = HashMap::new();
        for row in rows {
            let (rank, sealed) = row?;
            let Some(key) = sealed.get(0).and_then(|raw| decoder.begin().key(raw)) else { continue };
            if first.get(&key).is_none_or(|known| rank.is_before(known)) {
                first.insert(key.owned(), rank);
            }
        }
        Ok(first)
    }
}
