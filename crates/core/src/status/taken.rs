//! Rows that were taken.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Candidates, Rank};
use crate::rows::{Batch, Decoder, Value};
use crate::source::Ask;
use crate::{Entry, Key};

/// What is known of a row that was handed out.
#[derive(Clone, Debug)]
pub struct OpenRow {
    /// Where it stands.
    pub rank: Rank,
    /// Where order is kept.
    pub key: Option<Key>,
    /// Retries scheduled before this try.
    pub retries: u32,
    /// The version that it has now; zero where the table has none.
    pub version: i64,
    /// Whether what became of it is written.
    pub settled: bool,
}

impl OpenRow {
    /// The row's id.
    #[must_use]
    pub fn entry(&self) -> &str {
        &self.rank.entry
    }
}

/// Rows that were taken, in order.
#[derive(Debug, Default)]
pub struct Taken {
    /// What they hold.
    pub entries: Vec<Entry>,
    /// What is known of each of them.
    pub rows: Vec<OpenRow>,
}

/// Rows as they come from a statement that took them. More bytes than a claim has room for are never gathered.
#[derive(Debug)]
pub struct Taking<'a> {
    batch: Batch<'a>,
    candidates: &'a Candidates,
    places: HashMap<&'a str, usize>,
    order: Vec<usize>,
    rows: Vec<OpenRow>,
    bytes_max: usize,
    is_cut: bool,
}

impl<'a> Taking<'a> {
    /// None yet.
    #[must_use]
    pub fn new(decoder: &'a Decoder, candidates: &'a Candidates, ask: &Ask) -> Self {
        let places = candidates.ranks.iter().enumerate().map(|(at, rank)| (rank.entry.as_str(), at));
        Self {
            batch: Batch::new(decoder),
            candidates,
            places: places.collect(),
            order: Vec::with_capacity(candidates.most),
            rows: Vec::with_capacity(candidates.most),
            bytes_max: ask.bytes_max.saturating_add(ask.bytes_max / 8),
            is_cut: false,
        }
    }

    /// Whether there is room for another row, which came.
    pub fn has_room(&mut self) -> bool {
        self.is_cut |= !self.batch.is_empty() && self.batch.bytes() >= self.bytes_max;
        !self.is_cut
    }

    /// Takes one in.
    ///
    /// # Errors
    /// When the driver cannot give a value.
    pub fn read<'r, E>(
        &mut self,
        entry: String,
        (retries, retries_max): (Option<u32>, Option<u32>),
        version: i64,
        value: impl FnMut(usize) -> Result<Value<'r>, E>,
    ) -> Result<(), E> {
        let (retries, before) = (retries.unwrap_or(0), self.batch.len());
        self.batch.read(retries, retries_max, value)?;
        if self.batch.len() == before {
            // Its id is none that could be settled.
            return Ok(());
        }
        let place = self.places.get(entry.as_str()).copied().unwrap_or(usize::MAX);
        let rank = self.candidates.ranks.get(place).cloned();
        self.order.push(place);
        self.rows.push(OpenRow {
            rank: rank.unwrap_or(Rank { leads: Vec::new(), entry }),
            key: self.candidates.keys.get(place).cloned().flatten(),
            retries,
            version,
            settled: false,
        });
        Ok(())
    }

    /// What was taken, in the order in which the rows stand in the table. None where they are larger than they were thought to
    /// be, and do not fit: they are to be given back.
    #[must_use]
    pub fn finish(self, swell: &Swell) -> Option<Taken> {
        let thought = self.order.iter().filter_map(|at| self.candidates.bytes.get(*at)).sum();
        swell.learn(thought, self.batch.bytes(), self.is_cut);
        if self.is_cut {
            return None;
        }
        let mut all: Vec<(usize, (OpenRow, Entry))> =
            self.order.into_iter().zip(self.rows.into_iter().zip(self.batch.finish())).collect();
        all.sort_by_key(|(place, _)| *place);
        let (rows, entries) = all.into_iter().map(|(_, taken)| taken).unzip();
        Some(Taken { entries, rows })
    }
}

impl Taken {
    /// Notes the retries of rows whose table has no column for them, and leaves out what must not be handed out.
    pub fn amend(&mut self, beside: impl Fn(&str) -> Option<Option<u32>>) {
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
pub struct Swell(AtomicUsize);

impl Swell {
    /// What a row counts for.
    #[must_use]
    pub fn bytes(&self, thought: usize) -> usize {
        thought.saturating_mul(self.0.load(Ordering::Relaxed).max(100)) / 100
    }

    /// What was thought to have some bytes (by the last guess) has others. After a cut, the next try is for half at the most.
    fn learn(&self, thought: usize, came: usize, is_cut: bool) {
        let last = self.0.load(Ordering::Relaxed).max(100);
        let now = came.saturating_mul(last) / thought.max(1);
        self.0.store(if is_cut { now.max(last.saturating_mul(2)) } else { now }, Ordering::Relaxed);
    }
}
