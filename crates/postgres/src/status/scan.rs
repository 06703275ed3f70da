//! Looking for rows: which may be handed out, and which hold back their key.

use std::collections::HashMap;
use std::time::Duration;

use postrider_core::Key;
use postrider_core::rows::{Batch, Decoder};
use postrider_core::source::Ask;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::{Hands, OpenRow, Pass, Place, Rank, Swell, Taken, Why};
use crate::fault::Error;
use crate::rows::values;
use crate::session::Session;
use crate::sql::status::{ScanSql, scanned};

/// Rows that are read at once, at least and at most.
const PAGE_ROWS_MIN: usize = 200;
const PAGE_ROWS_MAX: usize = 4_000;

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

/// What the database says before anything is looked at.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pulse {
    /// Whatever operators' verbs have changed, this is another number.
    pub(crate) epoch: i64,
    /// The database's clock, in microseconds.
    pub(crate) now_us: i64,
    /// The oldest transaction that is under way.
    pub(crate) oldest: i64,
}

/// Rows that may be handed out, in order.
#[derive(Debug, Default)]
pub(crate) struct Candidates {
    pub(crate) ranks: Vec<Rank>,
    /// What they count for.
    pub(crate) bytes: Vec<usize>,
    /// Their keys, where order is kept.
    pub(crate) keys: Vec<Option<Key>>,
    /// How many of them fit into the claim. Where nobody is the only one there are more, in the place of those that others
    /// have locked.
    pub(crate) most: usize,
}

/// Rows that were looked at in one go.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) candidates: Candidates,
    /// Those that were looked at, and which transaction wrote them.
    pub(crate) rows: Vec<(String, i64)>,
    pub(crate) first: Option<Rank>,
    /// The last of them that is behind the pass: not looked at again.
    pub(crate) last: Option<Rank>,
    /// Whether it stopped at a limit of the claim, so that there is more.
    pub(crate) cut: bool,
    /// Whether there is nothing behind it.
    pub(crate) end: bool,
}

impl Page {
    /// Where the next claim goes on after these were taken, and whether there is more.
    pub(crate) fn mark(&self, taken: &Taken) -> (Option<Rank>, bool) {
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

impl Scanner<'_> {
    /// Looks at the next rows of the pass. Those that have to wait are left to it. Pages grow with those that were in vain.
    pub(crate) async fn page(&self, ask: &Ask, pass: &mut Pass, in_vain: u32) -> Result<Page, Error> {
        let rows_max = ask.entries_max.saturating_mul(2).clamp(PAGE_ROWS_MIN, PAGE_ROWS_MAX);
        let rows_max = rows_max.saturating_mul(1 << in_vain.min(8)).min(PAGE_ROWS_MAX);
        let limit = i64::try_from(rows_max).unwrap_or(i64::MAX);
        let (sql, from) = match pass.place() {
            Place::Head => (&self.sql.first, None),
            Place::At(rank) => (&self.sql.at, Some(rank)),
            Place::Behind(rank) => (&self.sql.on, Some(rank)),
        };
        let (leads, entry) = (from.map(|rank| &rank.leads), from.map(|rank| &rank.entry));
        let params = [
            (&self.outbox as _, Type::TEXT),
            (&leads as _, Type::TEXT_ARRAY),
            (&entry as _, Type::TEXT),
            (&limit as _, Type::INT8),
        ];
        let rows = self.session.query(sql, &params).await?;
        if pass.is_looking() {
            pass.clock(self.pulse().await?.now_us);
        }
        let mut page = self.sort_out(&rows, ask, pass)?;
        page.end = !page.cut && rows.len() < rows_max;
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
            if full && exact {
                page.cut = true;
                break;
            }
            let mut decoding = self.decoder.begin();
            let named = decoding.key(raw);
            let key = named.clone().filter(|_| self.keeps_order);
            let wait_us = row.try_get::<_, i64>(scanned::WAIT_US)?;
            if page.first.is_none() {
                page.first = Some(rank.clone());
            }
            page.rows.push((rank.entry.clone(), row.try_get(scanned::WRITTEN_BY)?));
            if self.hands.have(&rank.entry) {
                // It is in one of this relay's open claims, which may have more of its key: the relay decides what is in flight.
            } else if wait_us > 0 {
                let is_held = row.try_get::<_, bool>(scanned::HELD)?;
                pass.elsewhere |= is_held;
                let due = Why::Due(pass.now_us().saturating_add(wait_us));
                pass.leave(key.as_ref().filter(|_| !is_held), &rank, due);
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

    /// What is asked at the beginning of each claim.
    pub(crate) async fn pulse(&self) -> Result<Pulse, Error> {
        let row = self.session.first(&self.sql.pulse, &[(&self.outbox, Type::TEXT)]).await?;
        let Some(row) = row else { return Ok(Pulse::default()) };
        Ok(Pulse { epoch: row.try_get(0)?, now_us: row.try_get(1)?, oldest: row.try_get(2)? })
    }

    /// When the next row is due, where those that wait are not looked at.
    pub(crate) async fn due_in(&self) -> Result<Option<Duration>, Error> {
        let Some(sql) = &self.sql.due else { return Ok(None) };
        let row = self.session.first(sql, &[(&self.outbox, Type::TEXT)]).await?;
        let us = row.map(|row| row.try_get::<_, i64>(0)).transpose()?;
        Ok(us.map(|us| Duration::from_micros(u64::try_from(us).unwrap_or(0))))
    }
}
