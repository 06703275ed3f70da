//! Giving back what dead holders left.

use std::collections::HashSet;

use mysql_async::params;

use super::desk::Desk;
use crate::fault::Error;
use crate::rows::text;
use crate::sql::ids;

impl Desk {
    pub(super) async fn reap(&mut self) -> Result<u64, Error> {
        let outbox = self.outbox().to_owned();
        self.session.begin().await?;
        let left = self.left().await?;
        let mut reaped = 0;
        if !left.is_empty() {
            let held = self.session.query(&self.reap.hold, params! { "list" => list(&left) }).await?;
            let held: Vec<String> = held.iter().filter_map(|row| text(row, 0)).collect();
            // Somebody may have claimed one before it was held here: it is looked at again.
            let still: HashSet<String> = self.left().await?.into_iter().collect();
            let back: Vec<String> = held.into_iter().filter(|entry| still.contains(entry)).collect();
            reaped = back.len() as u64;
            if !back.is_empty() {
                let list = list(&back);
                let params = params! { "outbox" => &outbox, "list" => &list };
                self.session.execute(&self.reap.take_back, params).await?;
                if let Some(sql) = &self.reap.give_back {
                    self.session.execute(sql, params! { "list" => &list }).await?;
                }
            }
        }
        self.session.execute(&self.reap.forget, params! { "outbox" => &outbox }).await?;
        self.session.commit().await?;
        Ok(reaped)
    }

    /// Entries whose holder's time has run out, and rows that another program took too long ago.
    async fn left(&mut self) -> Result<Vec<String>, Error> {
        let outbox = self.outbox().to_owned();
        let mut rows = self.session.query(&self.reap.expired, params! { "outbox" => &outbox }).await?;
        if let Some(sql) = &self.reap.stalled {
            rows.extend(self.session.query(sql, params! { "outbox" => &outbox }).await?);
        }
        Ok(rows.iter().filter_map(|row| text(row, 0)).collect())
    }
}

fn list(entries: &[String]) -> String {
    ids(entries.iter().map(String::as_str))
}
