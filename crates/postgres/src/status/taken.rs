//! Rows that were taken.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use postrider_core::rows::{Batch, Decoder, Value};
use postrider_core::source::Ask;
use postrider_core::{Entry, Key};
use tokio_postgres::Row;

use super::Rank;
use super::scan::Candidates;
use crate::rows::{value, values};
use crate::session::Flow;
use crate::sql::status::taken;

/// What is known of a row that was handed out.
#[derive(Debug)]
pub(crate) struct OpenRow {
    pub(crate) rank: Rank,
    /// Where order is kept.
    pub(crate) key: Option<Key>,
    pub(crate) retries: u32,
    /// The version that it has now.
    pub(crate) version: i64,
    pub(crate) settled: bool,
}

impl OpenRow {
    pub(crate) fn entry(&self) -> &str {
        &self.rank.entry
    }
}

/// Rows that were taken, in order.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    pub(crate) entries: Vec<Entry>,
    pub(crate) rows: Vec<OpenRow>,
    /// The claim's own number.
    pub(crate) claim: i64,
}

/// Rows as they come from a statement that took them. More bytes than a claim has room for are never gathered.
pub(crate) struct Taking<'a> {
    batch: Batch<'a>,
    candidates: &'a Candidates,
    places: HashMap<&'a str, usize>,
    order: Vec<usize>,
    rows: Vec<OpenRow>,
    claim: i64,
    bytes_max: usize,
    is_cut: bool,
}

impl<'a> Taking<'a> {
    pub(crate) fn new(decoder: &'a Decoder, candidates: &'a Candidates, ask: &Ask) -> Self {
        let places = candidates.ranks.iter().enumerate().map(|(at, rank)| (rank.entry.as_str(), at));
        Self {
            batch: Batch::new(decoder),
            candidates,
            places: places.collect(),
            order: Vec::with_capacity(candidates.most),
            rows: Vec::with_capacity(candidates.most),
            claim: 0,
            bytes_max: ask.bytes_max.saturating_add(ask.bytes_max / 8),
            is_cut: false,
        }
    }

    pub(crate) fn read(&mut self, row: &Row) -> Result<Flow, tokio_postgres::Error> {
        if !self.batch.is_empty() && self.batch.bytes() >= self.bytes_max {
            self.is_cut = true;
            return Ok(Flow::Enough);
        }
        let entry: String = row.try_get(taken::ENTRY)?;
        let retries = count(row, taken::RETRIES)?.unwrap_or(0);
        self.batch.read(retries, count(row, taken::RETRIES_MAX)?, values(row))?;
        self.claim = row.try_get(taken::CLAIM)?;
        let place = self.places.get(entry.as_str()).copied().unwrap_or(usize::MAX);
        let rank = self.candidates.ranks.get(place).cloned();
        self.order.push(place);
        self.rows.push(OpenRow {
            rank: rank.unwrap_or(Rank { leads: Vec::new(), entry }),
            key: self.candidates.keys.get(place).cloned().flatten(),
            retries,
            version: row.try_get(taken::VERSION)?,
            settled: false,
        });
        Ok(Flow::More)
    }

    /// What was taken, in the order in which the rows stand in the table. An error where they are larger than they were
    /// thought to be, and do not fit: the claim's number, to give them back.
    pub(crate) fn finish(self, swell: &Swell) -> Result<Taken, i64> {
        let thought = self.order.iter().filter_map(|at| self.candidates.bytes.get(*at)).sum();
        swell.learn(thought, self.batch.bytes(), self.is_cut);
        if self.is_cut {
            return Err(self.claim);
        }
        let mut all: Vec<(usize, (OpenRow, Entry))> =
            self.order.into_iter().zip(self.rows.into_iter().zip(self.batch.finish())).collect();
        all.sort_by_key(|(place, _)| *place);
        let (rows, entries) = all.into_iter().map(|(_, taken)| taken).unzip();
        Ok(Taken { entries, rows, claim: self.claim })
    }
}

impl Taken {
    /// Notes the retries of rows whose table has no column for them, and leaves out what must not be handed out.
    pub(crate) fn amend(&mut self, beside: impl Fn(&str) -> Option<Option<u32>>) {
        let (entries, rows) = (std::mem::take(&mut self.entries), std::mem::take(&mut self.rows));
        for (mut row, mut entry) in rows.into_iter().zip(entries) {
            let Some(kept) = beside(row.entry()) else { continue };
            if let Some(retries) = kept {
                (row.retries, entry.retries) = (retries, retries);
            }
            self.rows.push(row);
            self.entries.push(entry);
        }
    }
}

/// By how much rows are larger than the server thinks, in hundredths. It knows the size of a JSON document as it is stored,
/// perhaps compressed.
#[derive(Debug, Default)]
pub(crate) struct Swell(AtomicUsize);

impl Swell {
    /// What a row counts for.
    pub(crate) fn bytes(&self, thought: usize) -> usize {
        thought.saturating_mul(self.0.load(Ordering::Relaxed).max(100)) / 100
    }

    /// What was thought to have some bytes (by the last guess) has others. After a cut, the next try is for half at the most.
    fn learn(&self, thought: usize, came: usize, is_cut: bool) {
        let last = self.0.load(Ordering::Relaxed).max(100);
        let now = came.saturating_mul(last) / thought.max(1);
        self.0.store(if is_cut { now.max(last.saturating_mul(2)) } else { now }, Ordering::Relaxed);
    }
}

/// A count as a table has it: NULL and nonsense read as none.
pub(crate) fn count(row: &Row, at: usize) -> Result<Option<u32>, tokio_postgres::Error> {
    Ok(match value(row, at)? {
        Value::Integer(number) => u32::try_from(number).ok(),
        _ => None,
    })
}
