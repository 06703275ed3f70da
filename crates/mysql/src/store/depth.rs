//! How much there is in each state.

use std::collections::HashMap;

use mysql_async::{Params, params};
use postrider_core::Key;
use postrider_core::store::Depth;

use super::view::{Standing, View};
use crate::fault::Error;
use crate::rows::{number, text};
use crate::session::Session;
use crate::sql::depth::{CursorDepthSql, DepthSql, StatusDepthSql, WRITERS};

/// Counts what a store sees, within its caller's snapshot.
pub(super) struct Counter<'a> {
    pub(super) view: &'a View,
    pub(super) sql: &'a DepthSql,
    pub(super) standing: &'a Standing,
    /// Whether an entry that waits or (so) is dead holds back the later ones of its key.
    pub(super) keeps_order: bool,
    pub(super) holds_dead: bool,
}

impl Counter<'_> {
    pub(super) async fn depth(&self, session: &mut Session) -> Result<Depth, Error> {
        let mut depth = match self.sql {
            DepthSql::Status(sql) => self.of_status(session, sql).await?,
            DepthSql::Cursor(sql) => self.of_cursor(session, sql).await?,
        };
        depth.holder.clone_from(&self.standing.holder);
        depth.oldest = self.view.oldest(session, self.standing).await?.and_then(|oldest| oldest.time);
        Ok(depth)
    }

    async fn of_status(&self, session: &mut Session, sql: &StatusDepthSql) -> Result<Depth, Error> {
        let mut depth = Depth::default();
        let mut counts = session.query(&sql.open, self.outbox()).await?;
        if let Some(sql) = &sql.closed {
            counts.extend(session.query(sql, Params::Empty).await?);
        }
        for row in &counts {
            let count = number(row, 1).unwrap_or(0).unsigned_abs();
            match text(row, 0).as_deref() {
                Some("due") => depth.pending += count,
                Some("waiting") => depth.waiting += count,
                Some("leased") => depth.leased += count,
                Some("dead") => depth.dead += count,
                Some("published") => depth.published += count,
                _ => depth.unknown += count,
            }
        }
        let locked = self.view.count_locked(session, self.standing).await?;
        depth.pending = depth.pending.saturating_sub(locked);
        depth.leased += locked;
        let may_hold = self.keeps_order && (depth.waiting > 0 || (self.holds_dead && depth.dead > 0));
        if let Some(sql) = sql.culprit.as_ref().filter(|_| may_hold)
            && let Some((culprit, behind_all)) = self.culprit(session, sql).await?
        {
            depth.culprit = Some(culprit);
            depth.parked = behind_all;
            depth.pending = depth.pending.saturating_sub(depth.parked);
        }
        Ok(depth)
    }

    async fn of_cursor(&self, session: &mut Session, sql: &CursorDepthSql) -> Result<Depth, Error> {
        let ids: u64 = self.standing.gaps.iter().map(|gap| gap.end().abs_diff(*gap.start()) + 1).sum();
        let mut counts = HashMap::from([("gap ids".to_owned(), ids)]);
        for row in session.ask(&self.standing.inline(&sql.counts, &self.view.outbox)).await? {
            let count = number(&row, 1).unwrap_or(0).unsigned_abs();
            *counts.entry(text(&row, 0).unwrap_or_default()).or_default() += count;
        }
        let mut depth = Depth::of_cursor(|word| counts.get(word).copied().unwrap_or(0));
        if depth.parked > 0 {
            let sql = self.standing.inline(&sql.culprit, &self.view.outbox);
            depth.culprit = self.culprit(session, &sql).await?.map(|(culprit, _)| culprit);
        }
        if depth.gaps_open > 0 {
            depth.gap_writers = self.writers(session).await?;
        }
        Ok(depth)
    }

    /// Who may fill gaps. Whoever asks may not be allowed to see it, and a relay says so.
    async fn writers(&self, session: &mut Session) -> Result<Vec<String>, Error> {
        let rows = match session.ask(WRITERS).await {
            Err(error) if error.code().is_some() => return Ok(Vec::new()),
            answer => answer?,
        };
        let shown = |row| {
            let seconds = number(row, 1).unwrap_or(0);
            format!("{}, open for {seconds} s", text(row, 0).unwrap_or_default())
        };
        Ok(rows.iter().map(shown).collect())
    }

    /// The key with the most entries held back behind it, how many those are, and how many there are behind all keys.
    async fn culprit(&self, session: &mut Session, sql: &str) -> Result<Option<((Key, u64), u64)>, Error> {
        let Some(row) = session.ask(sql).await?.into_iter().next() else { return Ok(None) };
        let part = |at| text(&row, at).unwrap_or_default();
        let count = |at| number(&row, at).unwrap_or(0).unsigned_abs();
        Ok(Some(((Key::new(part(0), part(1)), count(2)), count(3))))
    }

    fn outbox(&self) -> Params {
        params! { "outbox" => &self.view.outbox }
    }
}
