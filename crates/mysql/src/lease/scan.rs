//! Looking for rows.

use std::collections::HashMap;
use std::time::Duration;

use mysql_async::{Params, Row, params};
use postrider_core::Key;
use postrider_core::rows::Batch;
use postrider_core::source::Ask;
use postrider_core::status::{Looked, Page, Pass, Rank, Sorter};

use super::{LeaseSource, State};
use crate::fault::Error;
use crate::rows::{holds, number, text, values};
use crate::session::Session;
use crate::sql::status::scanned;

/// Rows that are read at once, at least and at most.
const PAGE_ROWS_MIN: usize = 200;
const PAGE_ROWS_MAX: usize = 4_000;

impl LeaseSource {
    /// Looks at the next rows behind the pass's mark. Keys that have to wait are added to the pass.
    pub(super) async fn page(
        &self,
        session: &mut Session,
        state: &State,
        ask: &Ask,
        pass: &mut Pass,
    ) -> Result<Page, Error> {
        let rows_max = ask.entries_max.saturating_mul(2).clamp(PAGE_ROWS_MIN, PAGE_ROWS_MAX);
        let rows = match &pass.mark {
            None => {
                let params = params! { "outbox" => &self.outbox, "rows" => rows_max };
                session.query(&self.scan.first, params).await?
            }
            Some(mark) => session.query(&self.scan.on, self.behind(mark, rows_max)).await?,
        };
        let sorter = Sorter {
            decoder: &self.decoder,
            keeps_order: self.config.keeps_order(),
            holders: &state.holders,
            hands: &self.hands,
        };
        let looked = rows.iter().map(|row| self.looked(row)).collect();
        Ok(sorter.page(looked, rows_max, ask, pass))
    }

    fn behind(&self, mark: &Rank, rows_max: usize) -> Params {
        // An id that counts is compared as a number: a text would be compared with every id of the table.
        let id: mysql_async::Value = match mark.entry.parse::<i64>() {
            Ok(number) if self.table.id_counts(&self.config.layout) => number.into(),
            _ => mark.entry.as_str().into(),
        };
        if !self.scan.has_lead {
            return params! { "outbox" => &self.outbox, "rows" => rows_max, "id" => id };
        }
        let lead = mark.leads.first().cloned().flatten();
        params! { "outbox" => &self.outbox, "rows" => rows_max, "id" => id, "lead" => lead }
    }

    fn looked(&self, row: &Row) -> Looked {
        let mut batch = Batch::new(&self.decoder);
        let Ok(()) = batch.read(0, None, values(row));
        let count = |at| number(row, at).and_then(|number| u64::try_from(number).ok()).unwrap_or(0);
        let payload_bytes = usize::try_from(count(scanned::BYTES)).unwrap_or(usize::MAX);
        Looked {
            rank: self.rank(row),
            bytes: batch.bytes().saturating_add(payload_bytes),
            row: batch.seal(),
            wait: Duration::from_micros(count(scanned::WAIT_US)),
            held: holds(row, scanned::HELD),
        }
    }

    fn rank(&self, row: &Row) -> Rank {
        let leads = if self.scan.has_lead { vec![text(row, scanned::LEAD)] } else { Vec::new() };
        Rank { leads, entry: text(row, scanned::ENTRY).unwrap_or_default() }
    }

    /// The first dead row of each key that it holds. Keys are found by the decoder: a row may be dead because its key is none.
    pub(super) async fn holders(&self, session: &mut Session) -> Result<HashMap<Key, Rank>, Error> {
        let mut first: HashMap<Key, Rank> = HashMap::new();
        for row in session.query(&self.scan.holders, params! { "outbox" => &self.outbox }).await? {
            let looked = self.looked(&row);
            let key = looked.row.get(0).and_then(|raw| self.decoder.begin().key(raw));
            let Some(key) = key else { continue };
            if first.get(&key).is_none_or(|known| looked.rank.is_before(known)) {
                first.insert(key.owned(), looked.rank);
            }
        }
        Ok(first)
    }

    /// Whatever operators' verbs have changed, this is another number; and one that no other claim has.
    pub(super) async fn epoch(&self, session: &mut Session) -> Result<(i64, u64), Error> {
        let row = session.first(&self.scan.epoch, params! { "outbox" => &self.outbox }).await?;
        let number = row.as_ref().and_then(|row| row.get::<u64, _>(1)).unwrap_or(0);
        Ok((row.as_ref().and_then(|row| crate::rows::number(row, 0)).unwrap_or(0), number))
    }
}
