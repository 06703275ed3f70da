//! How much there is in each state.

use std::collections::HashMap;

use postrider_core::Key;
use postrider_core::layout::Words;
use postrider_core::store::Depth;
use tokio_postgres::types::Type;

use super::view::{Standing, View};
use crate::fault::Error;
use crate::rows::lenient;
use crate::session::Session;
use crate::sql::depth::{DepthSql, WRITERS};

/// Counts what a store sees, within its caller's snapshot.
pub(super) struct Counter<'a> {
    pub(super) session: &'a Session,
    pub(super) view: &'a View,
    pub(super) sql: &'a DepthSql,
    pub(super) standing: &'a Standing,
    pub(super) words: Option<&'a Words>,
    /// Quoted, with its schema.
    pub(super) table: &'a str,
    pub(super) is_cursor: bool,
    /// Whether an entry that waits or (so) is dead holds back the later ones of its key.
    pub(super) keeps_order: bool,
    pub(super) holds_dead: bool,
}

impl Counter<'_> {
    pub(super) async fn depth(&self) -> Result<Depth, Error> {
        let counts = self.counts().await?;
        let count = |word: &str| counts.get(word).copied().unwrap_or(0);
        let mut depth = if self.is_cursor { Depth::of_cursor(count) } else { of_status(&count) };
        self.count_words(&mut depth).await?;
        depth.holder.clone_from(&self.standing.holder);
        depth.oldest = self.view.oldest(self.session, self.standing).await?.and_then(|oldest| oldest.time);
        let may_hold = match self.is_cursor {
            true => depth.parked > 0,
            false => self.keeps_order && (depth.waiting > 0 || (self.holds_dead && depth.dead > 0)),
        };
        if may_hold {
            self.count_behind(&mut depth).await?;
        }
        if depth.gaps_open > 0 {
            let rows = self.session.query(WRITERS, &[(&self.table, Type::TEXT)]).await?;
            depth.gap_writers = rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
        }
        Ok(depth)
    }

    async fn counts(&self) -> Result<HashMap<String, u64>, Error> {
        let Standing { position, claimed, returned, holder, .. } = self.standing;
        let alive = holder.is_some();
        let params = [
            (&self.view.outbox as _, Type::TEXT),
            (position as _, Type::INT8),
            (claimed as _, Type::INT8),
            (returned as _, Type::INT8_ARRAY),
            (&alive as _, Type::BOOL),
        ];
        let mut counts = HashMap::new();
        for row in self.session.query(&self.sql.counts, &params).await? {
            *counts.entry(row.get(0)).or_default() += row.get::<_, i64>(1).unsigned_abs();
        }
        Ok(counts)
    }

    async fn count_words(&self, depth: &mut Depth) -> Result<(), Error> {
        let (Some(sql), Some(words)) = (&self.sql.words, self.words) else { return Ok(()) };
        for row in self.session.query(sql, &[]).await? {
            let (word, count) = (row.get::<_, Option<String>>(0), row.get::<_, i64>(1).unsigned_abs());
            let word = word.as_deref();
            let is = |known: Option<&str>| word.is_some() && word == known;
            if is(words.published.as_deref()) {
                depth.published += count;
            } else if is(words.dead.as_deref()) {
                depth.dead += count;
            } else if !words.open().chain(words.leased.as_deref()).any(|open| is(Some(open))) {
                depth.unknown += count;
            }
        }
        Ok(())
    }

    async fn count_behind(&self, depth: &mut Depth) -> Result<(), Error> {
        let Some(sql) = &self.sql.culprit else { return Ok(()) };
        let Some(row) = self.session.first(sql, &[(&self.view.outbox, Type::TEXT)]).await? else {
            return Ok(());
        };
        let (scope, id) = (lenient(&row, 0)?.unwrap_or_default(), lenient(&row, 1)?.unwrap_or_default());
        depth.culprit = Some((Key::new(scope, id), row.get::<_, i64>(2).unsigned_abs()));
        if !self.is_cursor {
            depth.parked = row.get::<_, i64>(3).unsigned_abs();
            depth.pending = depth.pending.saturating_sub(depth.parked);
        }
        Ok(())
    }
}

fn of_status(count: &impl Fn(&str) -> u64) -> Depth {
    Depth {
        pending: count("due"),
        waiting: count("waiting"),
        leased: count("leased"),
        dead: count("dead"),
        published: count("published"),
        ..Depth::default()
    }
}
