//! One pass over the open rows of a status table: what is handed out, and what holds back its key.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use jiff::Timestamp;
use postrider_core::entry::Flaw;
use postrider_core::layout::TimeForm;
use postrider_core::route::Gate;
use postrider_core::rows::{Batch, Decoder, Field};
use postrider_core::source::{Ask, Idle};
use postrider_core::{Entry, EntryId, Key, Text, limits};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};

use crate::ids;
use crate::rank::Rank;
use crate::run::{Flow, each, value, values};
use crate::sql::{LeaseSql, state};

/// What a scan goes by.
pub(crate) struct Scanner<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) outbox: &'a str,
    pub(crate) sql: &'a LeaseSql,
    pub(crate) decoder: &'a Decoder,
    pub(crate) keeps_order: bool,
    /// Whether rows are ordered by their time before their id.
    pub(crate) by_time: bool,
    pub(crate) leased_at_form: TimeForm,
    pub(crate) lease_ttl: Duration,
    /// The first dead row of each key that holds it.
    pub(crate) holders: &'a HashMap<Key, Rank>,
    pub(crate) now: Timestamp,
}

/// How far the rows were looked at, and which keys may not be handed out behind that: a row of theirs was left there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pass {
    from: Option<Rank>,
    blocked: HashSet<Key>,
}

/// What a scan brought.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) entries: Vec<Entry>,
    /// The rows' versions before the claim, in the order of the entries.
    pub(crate) versions: Vec<i64>,
    /// Where the next scan goes on.
    pub(crate) pass: Pass,
    pub(crate) idle: Idle,
}

/// Rows that were read in one go, in order.
struct Page<'d> {
    batch: Batch<'d>,
    items: Vec<Item>,
    /// Rows that were looked at.
    rows: usize,
    /// The last of them.
    last: Option<Rank>,
    /// Whether there may be more behind it.
    more: bool,
}

enum Item {
    /// The next row of the batch, its version, and whether that is one.
    Row(Rank, i64, bool),
    /// A row that waits, and holds back its key.
    Waiting(Key),
}

impl Scanner<'_> {
    /// Looks for at most `entries_max` rows, on from where the last scan stopped; a scan that finds nothing there looks from
    /// the beginning.
    pub(crate) fn scan(&self, ask: &Ask, entries_max: usize, pass: &Pass) -> rusqlite::Result<Found> {
        let found = self.scan_from(ask, entries_max, pass.clone())?;
        let again = found.entries.is_empty() && pass.from.is_some() && !found.idle.more;
        if again { self.scan_from(ask, entries_max, Pass::default()) } else { Ok(found) }
    }

    fn scan_from(&self, ask: &Ask, entries_max: usize, pass: Pass) -> rusqlite::Result<Found> {
        let mut gate = ask.gate();
        let mut found = Found { pass, ..Found::default() };
        let (mut rows, mut bytes) = (0, 0);
        loop {
            let page = self.page(ask, entries_max, &mut found)?;
            rows += page.rows;
            bytes += page.batch.bytes();
            let (more, last) = (page.more, page.last.clone());
            let cut = self.take(page, &mut gate, entries_max, &mut found);
            if !cut && !more {
                found.pass = Pass::default();
                return Ok(found);
            }
            if !cut {
                found.pass.from = last.or(found.pass.from.take());
            }
            found.idle.full = found.pass.blocked.len() >= limits::PARKED_ENTRIES_MAX;
            // What was read and not taken stays in memory with its neighbours: its bytes count too.
            let enough =
                found.entries.len() >= entries_max || (!found.entries.is_empty() && bytes >= ask.bytes_max);
            if enough || rows >= limits::SCAN_ROWS_MAX || found.idle.full {
                found.idle.more = !found.idle.full;
                return Ok(found);
            }
        }
    }

    /// Reads the next rows that are due and in nobody's hands.
    fn page(&self, ask: &Ask, entries_max: usize, found: &mut Found) -> rusqlite::Result<Page<'_>> {
        let mut page =
            Page { batch: Batch::new(self.decoder), items: Vec::new(), rows: 0, last: None, more: false };
        let from = found.pass.from.as_ref();
        let sql = if from.is_some() { &self.sql.scan_on } else { &self.sql.scan };
        let (lead, id) = (from.map(|rank| rank.lead.clone()), from.map(|rank| ids::value(&rank.id)));
        each(self.connection, sql, &[&self.outbox, &lead, &id], |row| {
            let Some(rank) = self.rank(row)? else { return Ok::<_, rusqlite::Error>(Flow::More) };
            page.rows += 1;
            page.last = Some(rank.clone());
            if let Some(due) = self.not_now(row)? {
                let due_in = Duration::try_from(self.now.duration_until(due)).unwrap_or_default();
                found.idle.due_in = Some(found.idle.due_in.map_or(due_in, |known| known.min(due_in)));
                // What this holder has in hand it may have more of: the relay decides what is in flight.
                let is_held = self.is_held(row)?;
                found.idle.elsewhere |= is_held;
                let holds_back = self.keeps_order && !is_held;
                page.items.extend(if holds_back { self.key(row)? } else { None }.map(Item::Waiting));
            } else {
                let retries = count(row, state::RETRIES)?.unwrap_or(0);
                page.batch.read(retries, count(row, state::RETRIES_MAX)?, values(row))?;
                let is_version = row.get::<_, bool>(state::VERSION_SOUND)?;
                page.items.push(Item::Row(rank, row.get(state::VERSION)?, is_version));
            }
            let full = page.batch.len() >= entries_max.max(1) || page.batch.bytes() >= ask.bytes_max;
            page.more = full || page.rows >= limits::SCAN_ROWS_MAX;
            Ok(if page.more { Flow::Enough } else { Flow::More })
        })?;
        Ok(page)
    }

    /// Lets the rows of a page through the gate, in order; says whether it stopped before the end of it.
    fn take(&self, page: Page<'_>, gate: &mut Gate<'_>, entries_max: usize, found: &mut Found) -> bool {
        let mut entries = page.batch.finish().into_iter();
        found.entries.reserve(entries.len());
        for item in page.items {
            match item {
                Item::Waiting(key) => drop(found.pass.blocked.insert(key)),
                Item::Row(..) if found.entries.len() >= entries_max => return true,
                Item::Row(rank, version, is_version) => {
                    let Some(mut entry) = entries.next() else { return false };
                    if !is_version {
                        entry.flaw.get_or_insert(Flaw("column version holds no whole number".into()));
                    }
                    if !self.is_blocked(&entry, &rank, &found.pass) && gate.pass(&entry).is_ok() {
                        found.entries.push(entry);
                        found.versions.push(version);
                    } else if let Some(key) = &entry.key {
                        found.pass.blocked.insert(key.owned());
                    }
                    found.pass.from = Some(rank);
                }
            }
        }
        false
    }

    fn is_blocked(&self, entry: &Entry, rank: &Rank, pass: &Pass) -> bool {
        entry.key.as_ref().is_some_and(|key| {
            pass.blocked.contains(key) || self.holders.get(key).is_some_and(|dead| dead.is_before(rank))
        })
    }

    fn rank(&self, row: &Row<'_>) -> rusqlite::Result<Option<Rank>> {
        Rank::read(row, self.by_time.then_some(Field::Time as usize), Field::Id as usize)
    }

    /// When a row that is not to be handed out now may be.
    fn not_now(&self, row: &Row<'_>) -> rusqlite::Result<Option<Timestamp>> {
        if let Some(until) = self.held_until(row)?.filter(|until| *until > self.now) {
            return Ok(Some(until));
        }
        // NULL reads as due (D2), and so does what is no time: better early than never.
        let due = self.decoder.time(value(row, state::NOT_BEFORE)?, self.sql.not_before_form);
        Ok(due.filter(|due| *due > self.now))
    }

    fn is_held(&self, row: &Row<'_>) -> rusqlite::Result<bool> {
        Ok(self.held_until(row)?.is_some_and(|until| until > self.now))
    }

    /// Until when a row is in somebody's hands; in another relay's, which Postrider knows only by its word, since then.
    fn held_until(&self, row: &Row<'_>) -> rusqlite::Result<Option<Timestamp>> {
        if let ValueRef::Integer(until) = row.get_ref(state::LEASED_UNTIL)? {
            return Ok(TimeForm::UnixUs.from_number(until));
        }
        if row.get::<_, i64>(state::LEASED)? == 0 {
            return Ok(None);
        }
        let since = self.decoder.time(value(row, state::LEASED_AT)?, self.leased_at_form);
        Ok(since.map(|since| since.saturating_add(self.lease_ttl).unwrap_or(Timestamp::MAX)))
    }

    /// The key of a row that is not decoded.
    fn key(&self, row: &Row<'_>) -> rusqlite::Result<Option<Key>> {
        let mut batch = Batch::new(self.decoder);
        batch.read(0, None, values(row))?;
        Ok(batch.finish().into_iter().next().and_then(|entry| entry.key.as_ref().map(Key::owned)))
    }
}

/// A count as a table has it: NULL and nonsense read as none.
fn count(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<u32>> {
    Ok(match row.get_ref(at)? {
        ValueRef::Integer(number) => u32::try_from(number).ok(),
        _ => None,
    })
}

/// A copy of an id that keeps no batch alive.
pub(crate) fn own_id(id: &EntryId) -> EntryId {
    match id {
        EntryId::Int(id) => EntryId::Int(*id),
        EntryId::Text(id) => EntryId::Text(Text::from(&**id)),
    }
}
