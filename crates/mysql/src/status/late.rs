//! Rows that came to be before the mark, and who may still write there.

use mysql_async::{Row, params};
use postrider_core::status::{Late, Rank, Watch, Written};

use super::owners::{LIST, Listing, last, list};
use super::{Owners, Scanner};
use crate::fault::Error;
use crate::rows::text;
use crate::session::Session;

/// The columns of a question for late rows.
const LEAD: usize = 0;
const ENTRY: usize = 1;

impl Scanner {
    /// What came to be at or before a row that was looked at.
    pub(crate) async fn late(
        &self,
        session: &mut Session,
        watch: &mut Watch,
        owners: Owners,
        up_to: &Rank,
        server_us: i64,
    ) -> Result<Late, Error> {
        if !watch.asks_for(up_to) {
            return Ok(Late::Nothing);
        }
        let sealing = if owners == Owners::Listed && watch.asks_who(server_us) {
            self.sealing(session, watch).await?
        } else {
            None
        };
        let found = self.found(session, watch, up_to).await?;
        if found == Late::Nothing {
            watch.seal(sealing);
        }
        Ok(found)
    }

    /// The id up to which nobody can write any more: what is read after this shows all of it. It may be one that nobody has
    /// looked at yet.
    async fn sealing(&self, session: &mut Session, watch: &mut Watch) -> Result<Option<i64>, Error> {
        // In this order: whoever has drawn an id below the last one is listed later than that was asked for.
        let Some((last, at_us)) = last(session, &self.sql.last).await? else { return Ok(None) };
        let Listing::Alive(owners) = list(session).await? else { return Ok(None) };
        Ok(watch.note(last, owners, at_us, &LIST))
    }

    async fn found(&self, session: &mut Session, watch: &mut Watch, up_to: &Rank) -> Result<Late, Error> {
        let (id, rows_max) = (self.id(up_to), Watch::ROWS_MAX);
        let lead = up_to.leads.first().cloned().flatten();
        let rows = match (watch.sealed(), self.sql.has_lead) {
            (Some(sealed), false) => {
                let params = params! { "id" => id, "rows" => rows_max, "sealed" => sealed };
                session.query(&self.sql.late_behind, params).await?
            }
            (_, false) => session.query(&self.sql.late, params! { "id" => id, "rows" => rows_max }).await?,
            (_, true) => {
                let params = params! { "id" => id, "rows" => rows_max, "lead" => lead };
                session.query(&self.sql.late, params).await?
            }
        };
        let written = rows.iter().filter_map(|row: &Row| {
            let leads = || Ok(if self.sql.has_lead { vec![text(row, LEAD)] } else { Vec::new() });
            Some(Ok(Written { entry: text(row, ENTRY)?, written_by: 0, leads }))
        });
        watch.sift(None, written, &self.hands)
    }
}
