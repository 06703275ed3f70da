//! How much there is in each state.

use mysql_async::{Params, params};
use postrider_core::Key;
use postrider_core::store::Depth;

use super::view::View;
use crate::fault::Error;
use crate::rows::{number, text};
use crate::session::Session;
use crate::sql::depth::DepthSql;

/// Counts what a store sees, within its caller's snapshot.
pub(super) struct Counter<'a> {
    pub(super) view: &'a View,
    pub(super) sql: &'a DepthSql,
    /// Whether an entry that waits or (so) is dead holds back the later ones of its key.
    pub(super) keeps_order: bool,
    pub(super) holds_dead: bool,
}

impl Counter<'_> {
    pub(super) async fn depth(&self, session: &mut Session) -> Result<Depth, Error> {
        let mut depth = Depth::default();
        let mut counts = session.query(&self.sql.open, self.outbox()).await?;
        if let Some(sql) = &self.sql.closed {
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
        depth.holder = self.view.holder(session).await?;
        depth.oldest = self.view.oldest(session).await?.and_then(|oldest| oldest.time);
        if self.keeps_order && (depth.waiting > 0 || (self.holds_dead && depth.dead > 0)) {
            self.count_behind(session, &mut depth).await?;
        }
        Ok(depth)
    }

    async fn count_behind(&self, session: &mut Session, depth: &mut Depth) -> Result<(), Error> {
        let Some(sql) = &self.sql.culprit else { return Ok(()) };
        let Some(row) = session.ask(sql).await?.into_iter().next() else { return Ok(()) };
        let part = |at| text(&row, at).unwrap_or_default();
        let count = |at| number(&row, at).unwrap_or(0).unsigned_abs();
        depth.culprit = Some((Key::new(part(0), part(1)), count(2)));
        depth.parked = count(3);
        depth.pending = depth.pending.saturating_sub(depth.parked);
        Ok(())
    }

    fn outbox(&self) -> Params {
        params! { "outbox" => &self.view.outbox }
    }
}
