//! Giving back what dead holders left.

use std::collections::HashSet;

use jiff::Timestamp;
use postrider_core::layout::{Column, TimeForm};
use postrider_core::store::Filter;
use postrider_core::{EntryId, State};
use tokio_postgres::types::Type;

use super::ids::Ids;
use super::view::View;
use crate::config::Config;
use crate::fault::Error;
use crate::rows;
use crate::session::Session;
use crate::sql::reap::{LeftSql, ReapSql};

/// Gives rows of one outbox back; runs within its caller's transaction.
pub(super) struct Reaper<'a> {
    pub(super) session: &'a Session,
    pub(super) view: &'a View,
    pub(super) config: &'a Config,
}

impl Reaper<'_> {
    pub(super) async fn reap(&self, sql: &ReapSql) -> Result<u64, Error> {
        match sql {
            ReapSql::Cursor { unclaim, forget } => self.unclaim(unclaim, forget).await,
            ReapSql::Lease(sql) => self.lease(sql).await,
            ReapSql::Hold => Ok(0),
        }
    }

    /// One lease covers all that a cursor's holder has: when it has run out, nothing of it is held.
    async fn unclaim(&self, unclaim: &[String; 2], forget: &str) -> Result<u64, Error> {
        let outbox = [(&self.view.outbox as _, Type::TEXT)];
        if let Some(sql) = &self.view.sql.verbs.hold_position {
            self.session.query(sql, &outbox).await?;
        }
        let gone = self.session.execute(forget, &outbox).await?;
        if gone > 0 {
            tracing::warn!(
                entries = gone,
                "dead entries are forgotten: somebody has deleted their rows; their keys go on"
            );
            self.session.execute(&self.view.sql.verbs.bump_epoch, &outbox).await?;
        }
        let mut standing = self.view.standing(self.session).await?;
        if standing.holder.is_some() {
            return Ok(0);
        }
        standing.holder = Some(String::new());
        let held = Filter { state: Some(State::Leased), ..Filter::default() };
        let mut reaped = 0;
        self.view.each(self.session, &standing, &held, |_| reaped += 1).await?;
        for sql in unclaim {
            self.session.execute(sql, &outbox).await?;
        }
        Ok(reaped)
    }

    async fn lease(&self, sql: &LeftSql) -> Result<u64, Error> {
        let outbox = (&self.view.outbox as _, Type::TEXT);
        let expired = self.session.query(&sql.expired, std::slice::from_ref(&outbox)).await?;
        let mut left: Vec<EntryId> =
            expired.iter().map(|row| EntryId::Text(row.get::<_, String>(0).into())).collect();
        left.extend(self.foreign(sql).await?);
        let mut reaped = 0;
        if !left.is_empty() {
            let held = self.hold(&left).await?;
            let ids = Ids::new(self.view.id_kind, &held);
            let held: HashSet<EntryId> = held.into_iter().collect();
            let taken = self.session.query(&sql.take_back, &[outbox.clone(), ids.param()]).await?;
            let mut back: Vec<EntryId> =
                taken.iter().map(|row| EntryId::Text(row.get::<_, String>(0).into())).collect();
            // Somebody may have claimed one before it was held here: it is looked at again.
            back.extend(self.foreign(sql).await?.into_iter().filter(|id| held.contains(id)));
            reaped = back.len() as u64;
            if let Some(sql) = &sql.give_back {
                let ids = Ids::new(self.view.id_kind, &back);
                self.session.execute(sql, &[outbox.clone(), ids.param()]).await?;
            }
        }
        self.session.execute(&sql.forget, &[outbox]).await?;
        Ok(reaped)
    }

    /// Rows that somebody else than Postrider took, longer ago than a lease lasts.
    async fn foreign(&self, sql: &LeftSql) -> Result<Vec<EntryId>, Error> {
        let Some(sql) = &sql.foreign else { return Ok(Vec::new()) };
        let now = self.view.standing(self.session).await?.now;
        let form = match &self.config.layout.columns.leased_at {
            Some(Column::Named(_, form)) => *form,
            _ => TimeForm::Text,
        };
        let is_over = |since: Option<Timestamp>| {
            let until = since.and_then(|since| since.saturating_add(self.config.lease_ttl).ok());
            until.is_none_or(|until| until <= now)
        };
        let mut left = Vec::new();
        for row in self.session.query(sql, &[(&self.view.outbox, Type::TEXT)]).await? {
            let since = self.view.decoder.time(rows::value(&row, 1)?, form);
            left.extend(rows::id(&row, 0)?.filter(|_| is_over(since)));
        }
        Ok(left)
    }

    /// Keeps rows from being claimed meanwhile; those that somebody is at are left.
    async fn hold(&self, ids: &[EntryId]) -> Result<Vec<EntryId>, Error> {
        let Some(sql) = &self.view.sql.verbs.hold_rows else { return Ok(Vec::new()) };
        let ids = Ids::new(self.view.id_kind, ids);
        let mut held = Vec::new();
        for row in self.session.query(sql, &[(&self.view.outbox, Type::TEXT), ids.param()]).await? {
            held.extend(rows::id(&row, 0)?);
        }
        Ok(held)
    }
}
