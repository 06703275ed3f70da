//! How much there is in each state.

use std::collections::{HashMap, HashSet};

use postrider_core::Key;
use postrider_core::rows::{Batch, Field};
use postrider_core::store::{Depth, Filter};
use rusqlite::Connection;
use rusqlite::types::{Value, ValueRef};

use crate::holders::holders;
use crate::ids;
use crate::rank::Rank;
use crate::run::{Flow, all, each, first, lenient, values};
use crate::sql::{DepthSql, LeaseSql, seen};
use crate::view::{Standing, View};

/// Counts what a store sees.
pub(crate) struct Counter<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) view: &'a View,
    pub(crate) sql: &'a DepthSql,
    pub(crate) standing: &'a Standing,
    pub(crate) is_cursor: bool,
    /// Whether an entry that waits or (so) is dead holds back the later ones of its key.
    pub(crate) keeps_order: bool,
    pub(crate) holds_dead: bool,
    /// Whether rows are ordered by their time before their id.
    pub(crate) by_time: bool,
    pub(crate) leases: Option<&'a LeaseSql>,
}

impl Counter<'_> {
    pub(crate) fn depth(&self) -> rusqlite::Result<Depth> {
        let counts = self.counts()?;
        let count = |word: &str| counts.get(word).copied().unwrap_or(0);
        let mut depth = if self.is_cursor { of_cursor(&count) } else { of_status(&count) };
        depth.holder.clone_from(&self.standing.holder);
        depth.oldest = self.oldest()?;
        if let Some(sql) = &self.sql.culprit
            && depth.parked > 0
        {
            depth.culprit = first(self.connection, sql, &[&self.view.outbox], |row| {
                let scope = lenient(row, 0)?.unwrap_or_default();
                let id = lenient(row, 1)?.unwrap_or_default();
                Ok((Key::new(scope, id), row.get::<_, i64>(2)?.unsigned_abs()))
            })?;
        }
        if self.keeps_order && (depth.waiting > 0 || (self.holds_dead && depth.dead > 0)) {
            self.count_parked(&mut depth)?;
        }
        Ok(depth)
    }

    fn counts(&self) -> rusqlite::Result<HashMap<String, u64>> {
        let Standing { now, position, claimed, returned, holder } = self.standing;
        let third = if self.is_cursor { Value::Integer(*position) } else { self.view.written(*now) };
        let (now, alive) = (now.as_microsecond(), holder.is_some());
        let mut counts = HashMap::new();
        let read =
            |row: &rusqlite::Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?.unsigned_abs()));
        for (word, count) in all(
            self.connection,
            &self.sql.counts,
            &[&self.view.outbox, &now, &third, claimed, returned, &alive],
            read,
        )? {
            *counts.entry(word).or_default() += count;
        }
        Ok(counts)
    }

    fn oldest(&self) -> rusqlite::Result<Option<jiff::Timestamp>> {
        let Standing { now, position, .. } = self.standing;
        let id = first(
            self.connection,
            &self.sql.oldest,
            &[&self.view.outbox, &now.as_microsecond(), position],
            |row| row.get_ref(0).map(ids::id),
        )?;
        let Some(id) = id.flatten() else { return Ok(None) };
        let mut oldest = None;
        let only = Filter { ids: vec![id], ..Filter::default() };
        self.view.each(self.connection, self.standing, &only, |listed| oldest = listed.time)?;
        Ok(oldest)
    }

    /// Walks over the open rows in order: what comes behind one of its key that waits or is dead is parked.
    fn count_parked(&self, depth: &mut Depth) -> rusqlite::Result<()> {
        let (Some(sql), Some(leases)) = (&self.sql.open, self.leases) else { return Ok(()) };
        let dead = if self.holds_dead { self.holders(leases)? } else { HashMap::new() };
        let (mut blocked, mut behind) = (HashSet::new(), HashMap::<Key, u64>::new());
        let written = self.view.written(self.standing.now);
        each(
            self.connection,
            sql,
            &[&self.view.outbox, &self.standing.now.as_microsecond(), &written],
            |row| {
                let rank = Rank::read(row, self.by_time.then_some(Field::Time as usize), Field::Id as usize)?;
                let mut batch = Batch::new(&self.view.decoder);
                batch.read(0, None, values(row))?;
                let (Some(rank), Some(key)) = (rank, batch.finish().pop().and_then(|entry| entry.key)) else {
                    return Ok::<_, rusqlite::Error>(Flow::More);
                };
                let held =
                    blocked.contains(&key) || dead.get(&key).is_some_and(|first| first.is_before(&rank));
                match row.get_ref(seen::WORD)? {
                    ValueRef::Text(b"waiting") => drop(blocked.insert(key)),
                    ValueRef::Text(b"due") if held => *behind.entry(key).or_default() += 1,
                    _ => {}
                }
                Ok(Flow::More)
            },
        )?;
        depth.parked = behind.values().sum();
        depth.pending = depth.pending.saturating_sub(depth.parked);
        depth.culprit =
            behind.into_iter().max_by(|one, other| one.1.cmp(&other.1).then_with(|| other.0.cmp(&one.0)));
        Ok(())
    }

    fn holders(&self, leases: &LeaseSql) -> rusqlite::Result<HashMap<Key, Rank>> {
        holders(self.connection, leases, &self.view.decoder, &self.view.outbox, self.by_time)
    }
}

fn of_cursor(count: &impl Fn(&str) -> u64) -> Depth {
    let plain_behind = count("behind").saturating_sub(count("exceptions behind"));
    let plain_before = count("before").saturating_sub(count("exceptions before"));
    Depth {
        pending: plain_behind.saturating_sub(count("leased") + count("ranged behind")) + count("due"),
        waiting: count("waiting"),
        parked: count("parked") + count("ranged") + count("ranged behind"),
        leased: count("leased") + count("again"),
        dead: count("dead"),
        published: plain_before.saturating_sub(count("ranged")),
        ..Depth::default()
    }
}

fn of_status(count: &impl Fn(&str) -> u64) -> Depth {
    Depth {
        pending: count("due"),
        waiting: count("waiting"),
        leased: count("leased"),
        dead: count("dead"),
        published: count("published"),
        unknown: count("unknown"),
        ..Depth::default()
    }
}
