//! Looking for rows: which may be handed out, and which hold back their key.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use postrider_core::rows::{Batch, Decoder};
use postrider_core::source::{Ask, Idle};
use postrider_core::{Key, limits};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::{Hands, Rank, Swell, Taken};
use crate::fault::Error;
use crate::rows::values;
use crate::session::Session;
use crate::sql::status::{ScanSql, scanned};

/// After so many claims that found something behind the mark, rows before it are looked at again: one may have been
/// committed late, become due, or been left by another relay.
const CLAIMS_BEHIND_MARK_MAX: u32 = 8;
/// Rows that are read at once, at least and at most.
const PAGE_ROWS_MIN: usize = 200;
const PAGE_ROWS_MAX: usize = 4_000;

/// How far the rows were looked at, and which keys may not be handed out behind that: a row of theirs was left there.
///
/// It is a low-water mark: what was published before it stays in the index for as long as anybody has an old snapshot, and
/// is not looked at with every claim.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pass {
    pub(crate) mark: Option<Rank>,
    pub(crate) blocked: HashSet<Key>,
    /// Whether it was looked at everything up to the mark, in vain: then the end is the end.
    in_vain: bool,
    /// Claims that found something behind the mark.
    claims: u32,
}

impl Pass {
    /// For the next claim.
    pub(crate) fn next(self) -> Self {
        if self.mark.is_none() || self.claims > CLAIMS_BEHIND_MARK_MAX { Self::from_start() } else { self }
    }

    pub(crate) fn from_start() -> Self {
        Self { in_vain: true, ..Self::default() }
    }

    /// From the first row on, but for these keys.
    pub(crate) fn without(keys: &HashSet<Key>) -> Self {
        Self { blocked: keys.clone(), ..Self::from_start() }
    }

    /// Rows up to this one were handed out.
    pub(crate) fn up_to(self, mark: Option<Rank>) -> Self {
        Self { mark, in_vain: false, claims: self.claims + 1, ..self }
    }

    /// At the last row: whether there is nothing anywhere. Else it is to be looked from the first on: something may have come
    /// to be before the mark.
    pub(crate) fn ends(&mut self) -> bool {
        if self.in_vain {
            self.in_vain = false;
            return true;
        }
        *self = Self::from_start();
        false
    }
}

/// What a scan goes by.
pub(crate) struct Scanner<'a> {
    pub(crate) session: &'a Session,
    pub(crate) outbox: &'a str,
    pub(crate) sql: &'a ScanSql,
    pub(crate) decoder: &'a Decoder,
    pub(crate) keeps_order: bool,
    /// The first dead row of each key that it holds.
    pub(crate) holders: &'a HashMap<Key, Rank>,
    /// What this relay has in its hands.
    pub(crate) hands: &'a Hands,
    pub(crate) swell: &'a Swell,
}

/// Rows that may be handed out, in order.
#[derive(Debug, Default)]
pub(crate) struct Candidates {
    pub(crate) ranks: Vec<Rank>,
    /// What they count for.
    pub(crate) bytes: Vec<usize>,
    /// Their keys, where order is kept.
    pub(crate) keys: Vec<Key>,
    /// How many of them fit into the claim. Where nobody is the only one there are more, in the place of those that others
    /// have locked.
    pub(crate) most: usize,
}

/// Rows that were looked at in one go.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) candidates: Candidates,
    /// How many were looked at.
    pub(crate) rows: usize,
    /// The last of them that is behind the pass: not looked at again.
    pub(crate) last: Option<Rank>,
    /// Whether it stopped at a limit of the claim, so that there is more.
    pub(crate) cut: bool,
    /// Whether there is nothing behind it.
    pub(crate) end: bool,
    pub(crate) idle: Idle,
}

impl Page {
    /// Where the next claim goes on after these were taken, and whether there is more.
    pub(crate) fn mark(&self, taken: &Taken) -> (Option<Rank>, bool) {
        let candidates = &self.candidates;
        let last = taken.rows.last().map(|row| row.entry.as_str());
        // What was offered in vain is in other hands: it is passed by.
        let last = last.filter(|_| taken.rows.len() >= candidates.most);
        match last.and_then(|last| candidates.ranks.iter().position(|rank| rank.entry == last)) {
            Some(at) if at + 1 < candidates.ranks.len() => (candidates.ranks.get(at).cloned(), true),
            _ => (self.last.clone(), self.cut || !self.end),
        }
    }
}

impl Scanner<'_> {
    /// Looks at the next rows behind the pass's mark. Keys that have to wait are added to the pass.
    pub(crate) async fn page(&self, ask: &Ask, pass: &mut Pass) -> Result<Page, Error> {
        let rows_max = ask.entries_max.saturating_mul(2).clamp(PAGE_ROWS_MIN, PAGE_ROWS_MAX);
        let limit = i64::try_from(rows_max).unwrap_or(i64::MAX);
        let (leads, entry) = match &pass.mark {
            Some(mark) => (Some(&mark.leads), Some(&mark.entry)),
            None => (None, None),
        };
        let sql = if pass.mark.is_some() { &self.sql.on } else { &self.sql.first };
        let params = [
            (&self.outbox as _, Type::TEXT),
            (&leads as _, Type::TEXT_ARRAY),
            (&entry as _, Type::TEXT),
            (&limit as _, Type::INT8),
        ];
        let rows = self.session.query(sql, &params).await?;
        let mut page = self.sort_out(&rows, ask, pass)?;
        page.end = !page.cut && rows.len() < rows_max;
        page.idle.full = pass.blocked.len() >= limits::PARKED_ENTRIES_MAX;
        Ok(page)
    }

    fn sort_out(&self, rows: &[Row], ask: &Ask, pass: &mut Pass) -> Result<Page, Error> {
        let mut gate = ask.gate();
        // Others may have locked what comes first: then more is offered than fits, unless counting is to be exact.
        let holds = &ask.holds;
        let exact = self.keeps_order || !holds.allowances.is_empty() || !holds.sink_allowances.is_empty();
        let (mut page, mut bytes, mut full) = (Page::default(), 0, false);
        for row in rows {
            let rank = Rank::read(row)?;
            let mut batch = Batch::new(self.decoder);
            batch.read(0, None, values(row))?;
            let payload_bytes = usize::try_from(row.try_get::<_, i64>(scanned::BYTES)?).unwrap_or(0);
            let row_bytes = batch.bytes() + self.swell.bytes(payload_bytes);
            let sealed = batch.seal();
            let Some(raw) = sealed.get(0) else { continue };
            let mut decoding = self.decoder.begin();
            let key = decoding.key(raw);
            let wait =
                Duration::from_micros(u64::try_from(row.try_get::<_, i64>(scanned::WAIT_US)?).unwrap_or(0));
            if full && exact {
                page.cut = true;
                break;
            }
            page.rows += 1;
            if !wait.is_zero() {
                page.idle.due_in = Some(page.idle.due_in.map_or(wait, |known| known.min(wait)));
                // What this holder has in hand it may have more of: the relay decides what is in flight.
                let is_held = row.try_get::<_, bool>(scanned::HELD)?;
                page.idle.elsewhere |= is_held;
                let holds_back = self.keeps_order && !is_held;
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
                page.candidates.bytes.push(row_bytes);
                page.candidates.keys.extend(key.filter(|_| self.keeps_order));
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
            page.last = page.candidates.ranks.last().cloned();
        }
        Ok(page)
    }

    fn is_blocked(&self, key: Option<&Key>, rank: &Rank, pass: &Pass) -> bool {
        key.is_some_and(|key| {
            pass.blocked.contains(key) || self.holders.get(key).is_some_and(|dead| dead.is_before(rank))
        })
    }

    /// The first dead row of each key that it holds. Keys are found by the decoder: a row may be dead because its key is none.
    pub(crate) async fn holders(&self) -> Result<HashMap<Key, Rank>, Error> {
        let mut first: HashMap<Key, Rank> = HashMap::new();
        for row in self.session.query(&self.sql.holders, &[(&self.outbox, Type::TEXT)]).await? {
            let rank = Rank::read(&row)?;
            let mut batch = Batch::new(self.decoder);
            batch.read(0, None, values(&row))?;
            let sealed = batch.seal();
            let Some(key) = sealed.get(0).and_then(|raw| self.decoder.begin().key(raw)) else { continue };
            if first.get(&key).is_none_or(|known| rank.is_before(known)) {
                first.insert(key.owned(), rank);
            }
        }
        Ok(first)
    }

    /// Whatever operators' verbs have changed, this is another number.
    pub(crate) async fn epoch(&self) -> Result<i64, Error> {
        let row = self.session.first(&self.sql.epoch, &[(&self.outbox, Type::TEXT)]).await?;
        Ok(row.map(|row| row.try_get(0)).transpose()?.unwrap_or(0))
    }

    /// When the next row is due, where those that wait are not looked at.
    pub(crate) async fn due_in(&self) -> Result<Option<Duration>, Error> {
        let Some(sql) = &self.sql.due else { return Ok(None) };
        let row = self.session.first(sql, &[(&self.outbox, Type::TEXT)]).await?;
        let us = row.map(|row| row.try_get::<_, i64>(0)).transpose()?;
        Ok(us.map(|us| Duration::from_micros(u64::try_from(us).unwrap_or(0))))
    }
}
