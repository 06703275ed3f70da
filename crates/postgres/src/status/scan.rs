//! Looking for rows.

use std::collections::HashMap;
use std::time::Duration;

use postrider_core::Key;
use postrider_core::rows::{Batch, Decoder};
use postrider_core::source::Ask;
use postrider_core::status::{Hands, Looked, Page, Pass, Place, Rank, Sorter, Swell, page_rows};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::fault::Error;
use crate::rows::values;
use crate::session::Session;
use crate::sql::status::{ScanSql, scanned};

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
#[derive(Clone, Debug, Default)]
pub(crate) struct Pulse {
    /// Whatever operators' verbs have changed, this is another number.
    pub(crate) epoch: i64,
    /// The database's clock, in microseconds.
    pub(crate) now_us: i64,
    /// The same as rows are ordered by it, where they are.
    pub(crate) now_lead: Option<String>,
    /// The oldest transaction that is under way.
    pub(crate) oldest: i64,
}

impl Scanner<'_> {
    /// Looks at the next rows of the pass. Those that have to wait are left to it.
    pub(crate) async fn page(&self, ask: &Ask, pass: &mut Pass, in_vain: u32) -> Result<Page, Error> {
        let rows_max = page_rows(ask, in_vain);
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
        let sorter = Sorter {
            decoder: self.decoder,
            keeps_order: self.keeps_order,
            holders: self.holders,
            hands: self.hands,
        };
        sorter.page(rows.iter().map(|row| self.looked(row)), rows_max, ask, pass)
    }

    fn looked(&self, row: &Row) -> Result<Looked, Error> {
        let mut batch = Batch::new(self.decoder);
        batch.read(0, None, values(row))?;
        let payload_bytes = usize::try_from(row.try_get::<_, i64>(scanned::BYTES)?).unwrap_or(0);
        Ok(Looked {
            rank: rank(row)?,
            bytes: batch.bytes() + self.swell.bytes(payload_bytes),
            row: batch.seal(),
            wait_us: row.try_get(scanned::WAIT_US)?,
            held: row.try_get(scanned::HELD)?,
            dead: false,
            written_by: row.try_get(scanned::WRITTEN_BY)?,
        })
    }

    /// The first dead row of each key that it holds.
    pub(crate) async fn holders(&self) -> Result<HashMap<Key, Rank>, Error> {
        let rows = self.session.query(&self.sql.holders, &[(&self.outbox, Type::TEXT)]).await?;
        let read = |row: &Row| {
            let mut batch = Batch::new(self.decoder);
            batch.read(0, None, values(row))?;
            Ok((rank(row)?, batch.seal()))
        };
        Sorter::holders(self.decoder, rows.iter().map(read))
    }

    /// What is asked at the beginning of each claim.
    pub(crate) async fn pulse(&self) -> Result<Pulse, Error> {
        let row = self.session.first(&self.sql.pulse, &[(&self.outbox, Type::TEXT)]).await?;
        let Some(row) = row else { return Ok(Pulse::default()) };
        Ok(Pulse {
            epoch: row.try_get(0)?,
            now_us: row.try_get(1)?,
            oldest: row.try_get(2)?,
            now_lead: row.try_get(3)?,
        })
    }

    /// When the next row is due, where those that wait are not looked at.
    pub(crate) async fn due_in(&self) -> Result<Option<Duration>, Error> {
        let Some(sql) = &self.sql.due else { return Ok(None) };
        let row = self.session.first(sql, &[(&self.outbox, Type::TEXT)]).await?;
        let us = row.map(|row| row.try_get::<_, i64>(0)).transpose()?;
        Ok(us.map(|us| Duration::from_micros(u64::try_from(us).unwrap_or(0))))
    }
}

fn rank(row: &Row) -> Result<Rank, tokio_postgres::Error> {
    Ok(Rank { leads: row.try_get(scanned::LEADS)?, entry: row.try_get(scanned::ENTRY)? })
}
