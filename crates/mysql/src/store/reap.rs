//! Giving back what dead holders left.

use std::collections::HashSet;

use mysql_async::params;
use postrider_core::State;
use postrider_core::store::Filter;

use super::desk::Desk;
use crate::fault::Error;
use crate::rows::text;
use crate::sql::ids;
use crate::sql::reap::{LeftSql, ReapSql};

impl Desk {
    pub(super) async fn reap(&mut self) -> Result<u64, Error> {
        let sql = std::sync::Arc::clone(&self.reap);
        match &*sql {
            ReapSql::Cursor(unclaim) => self.unclaim(unclaim).await,
            ReapSql::Status(sql) => self.reap_rows(sql).await,
        }
    }

    /// One lease covers all that a cursor's holder has: when it has run out, nothing of it is held.
    async fn unclaim(&mut self, unclaim: &[String; 2]) -> Result<u64, Error> {
        let outbox = self.outbox().to_owned();
        self.session.begin().await?;
        self.hold_position().await?;
        let mut standing = self.view.standing(&mut self.session).await?;
        let mut reaped = 0;
        if standing.holder.is_none() {
            standing.holder = Some(String::new());
            let held = Filter { state: Some(State::Leased), ..Filter::default() };
            self.view.each(&mut self.session, &standing, &held, |_| reaped += 1).await?;
            for sql in unclaim {
                self.session.execute(sql, params! { "outbox" => &outbox }).await?;
            }
        }
        self.session.commit().await?;
        Ok(reaped)
    }

    async fn reap_rows(&mut self, sql: &LeftSql) -> Result<u64, Error> {
        let outbox = self.outbox().to_owned();
        self.session.begin().await?;
        let left = self.left(sql).await?;
        let mut reaped = 0;
        if !left.is_empty() {
            let held = self.session.query(&sql.hold, params! { "list" => list(&left) }).await?;
            let held: Vec<String> = held.iter().filter_map(|row| text(row, 0)).collect();
            // Somebody may have claimed one before it was held here: it is looked at again.
            let still: HashSet<String> = self.left(sql).await?.into_iter().collect();
            let back: Vec<String> = held.into_iter().filter(|entry| still.contains(entry)).collect();
            reaped = back.len() as u64;
            if !back.is_empty() {
                let list = list(&back);
                let params = params! { "outbox" => &outbox, "list" => &list };
                self.session.execute(&sql.take_back, params).await?;
                if let Some(sql) = &sql.give_back {
                    self.session.execute(sql, params! { "list" => &list }).await?;
                }
            }
        }
        self.session.execute(&sql.forget, params! { "outbox" => &outbox }).await?;
        self.session.commit().await?;
        Ok(reaped)
    }

    /// Entries whose holder's time has run out, and rows that another program took too long ago.
    async fn left(&mut self, sql: &LeftSql) -> Result<Vec<String>, Error> {
        let outbox = self.outbox().to_owned();
        let mut rows = self.session.query(&sql.expired, params! { "outbox" => &outbox }).await?;
        if let Some(sql) = &sql.stalled {
            rows.extend(self.session.query(sql, params! { "outbox" => &outbox }).await?);
        }
        Ok(rows.iter().filter_map(|row| text(row, 0)).collect())
    }
}

fn list(entries: &[String]) -> String {
    ids(entries.iter().map(String::as_str))
}
