//! Sorting rows that were looked at: which may be handed out, and which hold back their key.

use std::collections::HashMap;
use std::time::Duration;

use super::{Hands, OpenRow, Pass, Rank};
use crate::rows::{Decoder, SealedRows};
use crate::source::{Ask, Idle};
use crate::{Key, limits};

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
    /// How long until it may be handed out.
    pub wait: Duration,
    /// Whether it is in somebody's hands until then.
    pub held: bool,
}

/// Rows that may be handed out, in order.
#[derive(Debug, Default)]
pub struct Candidates {
    /// Where they stand.
    pub ranks: Vec<Rank>,
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
    /// The last of them that is behind the pass: not looked at again.
    pub last: Option<Rank>,
    /// Whether it stopped at a limit of the claim, so that there is more.
    pub cut: bool,
    /// Whether there is nothing behind it.
    pub end: bool,
    /// Why there is nothing, if so.
    pub idle: Idle,
}

impl Page {
    /// Where the next claim goes on after these were taken, and whether there is more.
    #[must_use]
    pub fn mark(&self, taken: &[OpenRow]) -> (Option<Rank>, bool) {
        let candidates = &self.candidates;
        let last = taken.last().map(|row| row.entry.as_str());
        // What was offered in vain is in other hands: it is passed by.
        let last = last.filter(|_| taken.len() >= candidates.most);
        match last.and_then(|last| candidates.ranks.iter().position(|rank| rank.entry == last)) {
            Some(at) if at + 1 < candidates.ranks.len() => (candidates.ranks.get(at).cloned(), true),
            _ => (self.last.clone(), self.cut || !self.end),
        }
    }
}

impl Sorter<'_> {
    /// Sorts the next rows behind the pass's mark, of which `rows_max` were asked for. Keys that have to wait are added to the
    /// pass.
    #[must_use]
    pub fn page(&self, rows: Vec<Looked>, rows_max: usize, ask: &Ask, pass: &mut Pass) -> Page {
        let came = rows.len();
        let mut page = self.sort(rows, ask, pass);
        page.end = !page.cut && came < rows_max;
        page.idle.full = pass.blocked.len() >= limits::PARKED_ENTRIES_MAX;
        page
    }

    fn sort(&self, rows: Vec<Looked>, ask: &Ask, pass: &mut Pass) -> Page {
        let mut gate = ask.gate();
        // Others may have locked what comes first: then more is offered than fits, unless counting is to be exact.
        let holds = &ask.holds;
        let exact = self.keeps_order || !holds.allowances.is_empty() || !holds.sink_allowances.is_empty();
        let (mut page, mut bytes, mut full) = (Page::default(), 0, false);
        for Looked { rank, row, bytes: row_bytes, wait, held } in rows {
            let Some(raw) = row.get(0) else { continue };
            let mut decoding = self.decoder.begin();
            let key = decoding.key(raw);
            if full && exact {
                page.cut = true;
                break;
            }
            page.rows += 1;
            if !wait.is_zero() {
                page.idle.due_in = Some(page.idle.due_in.map_or(wait, |known| known.min(wait)));
                page.idle.elsewhere |= held;
                // What this holder has in hand it may have more of: the relay decides what is in flight.
                let holds_back = self.keeps_order && !held;
                pass.blocked.extend(key.filter(|_| holds_back));
            } else if self.hands.have(&rank.entry) {
                // It is in one of this relay's open claims.
            } else if self.is_blocked(key.as_ref(), &rank, pass)
                || gate.pass_by(key.as_ref(), || decoding.kind(raw)).is_err()
            {
                pass.blocked.extend(key.filter(|_| self.keeps_order));
            } else {
                bytes += row_bytes;
                page.candidates.ranks.push(rank.clone());
                page.candidates.keys.push(key.filter(|_| self.keeps_order));
                if !full {
                    page.candidates.most += 1;
                    full = page.candidates.most >= ask.entries_max.max(1) || bytes >= ask.bytes_max;
                }
            }
            page.last = Some(rank);
        }
        // No more than fits is offered where more would be too large.
        if bytes > ask.bytes_max && page.candidates.ranks.len() > page.candidates.most {
            page.cut = true;
            page.candidates.ranks.truncate(page.candidates.most);
            page.candidates.keys.truncate(page.candidates.most);
            page.last = page.candidates.ranks.last().cloned();
        }
        page
    }

    fn is_blocked(&self, key: Option<&Key>, rank: &Rank, pass: &Pass) -> bool {
        key.is_some_and(|key| {
            pass.blocked.contains(key) || self.holders.get(key).is_some_and(|dead| dead.is_before(rank))
        })
    }
}
