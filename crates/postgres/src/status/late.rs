//! Rows that came to be before the mark, and who may still write there.

use std::collections::BTreeSet;

use postrider_core::status::{Census, Late, Rank, Watch, Written};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::Scanner;
use crate::fault::Error;
use crate::fitness::Sequence;
use crate::sql::cursor::OWNERS;
use crate::sql::status::late;

/// An insert locks the table before its id is drawn, until its end is visible (MEASUREMENTS). After a restart a prepared
/// transaction goes by another name.
const LOCKS: Census = Census { grace_us: 0, is_renamed: |name| name.starts_with("-1/"), alias: |_| None };

/// The table and the sequence whose ids its rows get, one by one.
#[derive(Debug)]
pub(crate) struct Drawn {
    pub(crate) table: u32,
    /// Its last value, null where that must not be read.
    last: String,
}

impl Drawn {
    pub(crate) fn new(table: u32, sequence: &Sequence) -> Option<Self> {
        let counts = sequence.cache == 1 && sequence.increment > 0 && !sequence.cycles;
        let name = sequence.name.replace('\'', "''");
        let last = format!(
            "select last_value from pg_sequences where format('%I.%I', schemaname, sequencename) = '{name}'"
        );
        counts.then_some(Self { table, last })
    }
}

impl Scanner<'_> {
    /// What came to be at or before a row that was looked at.
    pub(crate) async fn late(
        &self,
        watch: &mut Watch,
        drawn: Option<&Drawn>,
        up_to: &Rank,
        now_us: i64,
    ) -> Result<Late, Error> {
        if !watch.asks_for(up_to) {
            return Ok(Late::Nothing);
        }
        let sealing = match drawn {
            Some(drawn) if watch.asks_who(now_us) => self.sealing(watch, drawn, up_to, now_us).await?,
            _ => None,
        };
        let found = self.found(watch, up_to).await?;
        if found == Late::Nothing {
            watch.seal(sealing);
        }
        Ok(found)
    }

    /// The id up to which nobody can write any more: what is read after this shows all of it.
    async fn sealing(
        &self,
        watch: &mut Watch,
        drawn: &Drawn,
        up_to: &Rank,
        now_us: i64,
    ) -> Result<Option<i64>, Error> {
        // In this order: whoever draws an id in between is among the owners. Ids above all that was drawn are somebody's own.
        let last = self.session.first(&drawn.last, &[]).await?;
        let last: Option<i64> = last.map(|row| row.try_get(0)).transpose()?.flatten();
        let rows = self.session.query(OWNERS, &[(&drawn.table, Type::OID)]).await?;
        let owners: BTreeSet<String> = rows.iter().map(|row| row.get(0)).collect();
        let Ok(id) = up_to.entry.parse::<i64>() else { return Ok(None) };
        Ok(watch.note(last.map_or(id, |last| id.min(last)), owners, now_us, &LOCKS))
    }

    async fn found(&self, watch: &mut Watch, up_to: &Rank) -> Result<Late, Error> {
        let (limit, since) = (i64::try_from(Watch::ROWS_MAX).unwrap_or(i64::MAX), watch.since());
        let above = watch.sealed().map(|sealed| sealed.to_string());
        let mut params = vec![
            (&self.outbox as _, Type::TEXT),
            (&up_to.leads as _, Type::TEXT_ARRAY),
            (&up_to.entry as _, Type::TEXT),
            (&limit as _, Type::INT8),
            (&since as _, Type::INT8),
        ];
        let mut sql = &self.sql.late;
        if above.is_some() {
            params.push((&above as _, Type::TEXT));
            sql = &self.sql.late_behind;
        }
        let rows = self.session.query(sql, &params).await?;
        let oldest = rows.first().map(|row| row.try_get(late::OLDEST)).transpose()?;
        let read = |row: &'_ Row| -> Result<Option<(String, i64)>, Error> {
            let Some(entry) = row.try_get::<_, Option<String>>(late::ENTRY)? else { return Ok(None) };
            Ok(Some((entry, row.try_get(late::WRITTEN_BY)?)))
        };
        let written = rows.iter().filter_map(|row| {
            let leads = || Ok(row.try_get(late::LEADS)?);
            let found = read(row).transpose()?;
            Some(found.map(|(entry, written_by)| Written { entry, written_by, leads }))
        });
        watch.sift(oldest, written, self.hands)
    }
}
