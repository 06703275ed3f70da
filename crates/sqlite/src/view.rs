//! Rows as operators see them, and which of them a filter chooses.

use jiff::Timestamp;
use postrider_core::layout::TimeForm;
use postrider_core::route::matches;
use postrider_core::rows::{Batch, Decoder};
use postrider_core::store::{Filter, Listed, Shown, unknown_status};
use postrider_core::{Entry, EntryId, State, Text};
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, Row};

use crate::ids;
use crate::run::{Flow, each, first, value, values};
use crate::sql::{Names, StoreSql, seen};

/// What a store reads by.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) outbox: String,
    pub(crate) decoder: Decoder,
    pub(crate) sql: StoreSql,
    position: String,
    lease: String,
    zone: postrider_core::layout::Zone,
}

/// How far the outbox was read, and who holds it.
#[derive(Clone, Debug)]
pub(crate) struct Standing {
    pub(crate) now: Timestamp,
    pub(crate) position: i64,
    pub(crate) claimed: i64,
    pub(crate) returned: String,
    /// The holder, while its lease is good.
    pub(crate) holder: Option<String>,
}

impl View {
    pub(crate) fn new(layout: &postrider_core::Layout, names: &Names, id_counts: bool) -> Self {
        Self {
            outbox: layout.table.as_str().to_owned(),
            // Whether order is kept decides what a source blocks, not what an operator sees.
            decoder: Decoder::new(layout).with_keys(),
            sql: StoreSql::new(layout, names, id_counts),
            position: format!("select position, claimed, returned from {} where outbox = ?1", names.position),
            lease: format!(
                "select owner from {} where outbox = ?1 and name = 'relay' and expires_at > ?2",
                names.leases
            ),
            zone: layout.zone,
        }
    }

    pub(crate) fn standing(&self, connection: &Connection, now: Timestamp) -> rusqlite::Result<Standing> {
        let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        let (position, claimed, returned) =
            first(connection, &self.position, &[&self.outbox], read)?.unwrap_or((0, 0, "[]".into()));
        let holder =
            first(connection, &self.lease, &[&self.outbox, &now.as_microsecond()], |row| row.get(0))?;
        Ok(Standing { now, position, claimed, returned, holder })
    }

    /// Entries that match, oldest first, until `take` has enough.
    pub(crate) fn each(
        &self,
        connection: &Connection,
        standing: &Standing,
        filter: &Filter,
        mut take: impl FnMut(Listed),
    ) -> rusqlite::Result<()> {
        let sql = if filter.ids.is_empty() { self.sql.list(filter.state) } else { &self.sql.listed };
        let mut left = filter.limit.unwrap_or(u64::MAX);
        if left == 0 {
            return Ok(());
        }
        self.rows(connection, sql, standing, &ids::json(&filter.ids), |row| {
            if let Some((listed, _)) = self.listed(row)?
                && chooses(filter, &listed, standing.now)
            {
                take(listed);
                left -= 1;
            }
            Ok(if left == 0 { Flow::Enough } else { Flow::More })
        })
    }

    pub(crate) fn show(
        &self,
        connection: &Connection,
        standing: &Standing,
        id: &EntryId,
    ) -> rusqlite::Result<Option<Shown>> {
        let by_id = self.shown(connection, standing, &self.sql.shown, &ids::json([id]))?;
        match by_id {
            Some(shown) => Ok(Some(shown)),
            None => self.shown(connection, standing, &self.sql.shown_by_event, &id.to_string()),
        }
    }

    fn shown(
        &self,
        connection: &Connection,
        standing: &Standing,
        sql: &str,
        wanted: &str,
    ) -> rusqlite::Result<Option<Shown>> {
        let mut found = None;
        self.rows(connection, sql, standing, wanted, |row| {
            let Some((listed, entry)) = self.listed(row)? else { return Ok(Flow::More) };
            let of_entry = text(row, seen::HOLDER)?;
            let of_outbox = standing.holder.clone().map(Text::from).filter(|_| listed.state == State::Leased);
            let published_at = self.time(row, seen::PUBLISHED_AT, self.sql.published_at_form)?;
            let published_at = published_at.filter(|_| listed.state == State::Published);
            found = Some(Shown { holder: of_entry.or(of_outbox), published_at, listed, entry });
            Ok(Flow::Enough)
        })?;
        Ok(found)
    }

    fn rows(
        &self,
        connection: &Connection,
        sql: &str,
        standing: &Standing,
        wanted: &str,
        take: impl FnMut(&Row<'_>) -> rusqlite::Result<Flow>,
    ) -> rusqlite::Result<()> {
        let now = standing.now.as_microsecond();
        let alive = standing.holder.is_some();
        each(
            connection,
            sql,
            &[&self.outbox, &now, &standing.position, &standing.claimed, &standing.returned, &alive, &wanted],
            take,
        )
    }

    fn listed(&self, row: &Row<'_>) -> rusqlite::Result<Option<(Listed, Entry)>> {
        let state = match row.get_ref(seen::WORD)? {
            ValueRef::Text(b"pending") => State::Pending,
            ValueRef::Text(b"leased") => State::Leased,
            ValueRef::Text(b"published") => State::Published,
            ValueRef::Text(b"dead") => State::Dead,
            ValueRef::Text(b"unknown") => State::Unknown,
            _ => return Ok(None),
        };
        let number = |at| {
            Ok::<_, rusqlite::Error>(match row.get_ref(at)? {
                ValueRef::Integer(number) => u32::try_from(number).ok(),
                _ => None,
            })
        };
        let retries = number(seen::RETRIES)?.unwrap_or(0);
        let mut batch = Batch::new(&self.decoder);
        batch.read(retries, number(seen::RETRIES_MAX)?, values(row))?;
        let Some(entry) = batch.finish().pop() else { return Ok(None) };
        let due = self.time(row, seen::NOT_BEFORE, self.sql.not_before_form)?;
        let listed = Listed {
            id: entry.id.clone(),
            event_id: entry.envelope.id.clone(),
            event_type: entry.envelope.event_type.clone(),
            key: entry.key.clone(),
            state,
            retries,
            time: entry.envelope.known_time(),
            not_before: due.filter(|_| state == State::Pending),
            error: match state {
                State::Unknown => Some(unknown_status(word(row, seen::STATUS)?.as_deref())),
                _ => text(row, seen::ERROR)?,
            },
        };
        Ok(Some((listed, entry)))
    }

    fn time(&self, row: &Row<'_>, at: usize, form: TimeForm) -> rusqlite::Result<Option<Timestamp>> {
        Ok(self.decoder.time(value(row, at)?, form))
    }

    /// Now, as the table writes it.
    pub(crate) fn written(&self, now: Timestamp) -> Value {
        Value::Text(self.zone.write(now))
    }
}

/// Everything that SQL does not decide.
fn chooses(filter: &Filter, listed: &Listed, now: Timestamp) -> bool {
    let age =
        listed.time.map(|time| std::time::Duration::try_from(time.duration_until(now)).unwrap_or_default());
    filter.state.is_none_or(|state| state == listed.state)
        && filter.event_type.as_ref().is_none_or(|pattern| matches(pattern, &listed.event_type))
        && filter.is_of_key(listed.key.as_ref())
        && filter.older_than.is_none_or(|span| age.is_some_and(|age| age > span))
        && filter.newer_than.is_none_or(|span| age.is_some_and(|age| age < span))
}

fn text(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<Text>> {
    Ok(match row.get_ref(at)? {
        ValueRef::Text(text) => std::str::from_utf8(text).ok().map(Text::from),
        _ => None,
    })
}

/// A status, whatever its type.
fn word(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<String>> {
    Ok(match row.get_ref(at)? {
        ValueRef::Null => None,
        ValueRef::Integer(number) => Some(number.to_string()),
        ValueRef::Real(number) => Some(number.to_string()),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
    })
}
