//! Looking for rows.

use std::collections::HashMap;
use std::convert::Infallible;

use mysql_async::{Params, Row, params};
use postrider_core::Key;
use postrider_core::rows::{Batch, Decoder};
use postrider_core::source::Ask;
use postrider_core::status::{
    Candidates, Hands, Looked, Page, Pass, Place, Rank, Sorter, Swell, Taken, Taking, page_rows,
};

use crate::config::Config;
use crate::fault::Error;
use crate::rows::{count, holds, number, text, values};
use crate::session::Session;
use crate::sql::status::{From, Parts, ScanSql, pulse, scanned, taken};
use crate::table::{Kind, Table};

/// Ids that are gone through one by one, whatever became of their rows. What is farther apart is found by its status.
const WALK_IDS_MAX: i64 = 20_000;

/// What a scan goes by.
pub(crate) struct Scanner {
    outbox: String,
    pub(super) sql: ScanSql,
    pub(crate) decoder: Decoder,
    keeps_order: bool,
    /// Whether an id is a number.
    counts: bool,
    /// Whether ranks compare on this side.
    pub(crate) comparable: bool,
    /// What this relay has in its hands.
    pub(crate) hands: Hands,
    pub(crate) swell: Swell,
}

/// What the database says before anything is looked at.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pulse {
    /// Whatever operators' verbs have changed, this is another number.
    pub(crate) epoch: i64,
    /// One that no other claim has.
    pub(crate) number: u64,
    /// The database's clock, in microseconds.
    pub(crate) now_us: i64,
    /// The same as rows are ordered by it, where they are.
    pub(crate) now_lead: Option<String>,
    /// The server's own, whatever the configuration says.
    pub(crate) server_us: i64,
}

impl Scanner {
    pub(crate) fn new(config: &Config, table: &Table, parts: &Parts<'_>) -> Self {
        let counts = table.id_counts(&config.layout);
        Self {
            outbox: config.layout.table.as_str().to_owned(),
            sql: ScanSql::new(parts),
            decoder: Decoder::new(&config.layout),
            keeps_order: config.keeps_order(),
            counts,
            // Texts are compared by rules of their own.
            comparable: table.id(&config.layout).is_some_and(|id| id.kind == Kind::Integer)
                && parts.lead_compares(),
            hands: Hands::default(),
            swell: Swell::default(),
        }
    }

    /// Looks at the next rows of the pass. Those that have to wait are left to it.
    pub(crate) async fn page(
        &self,
        session: &mut Session,
        ask: &Ask,
        pass: &mut Pass,
        holders: &HashMap<Key, Rank>,
        in_vain: u32,
    ) -> Result<Page, Error> {
        let rows_max = page_rows(ask, in_vain);
        let from = self.from(pass);
        let (sql, params) = match pass.place() {
            Place::Head => (&from.first, params! { "outbox" => &self.outbox, "rows" => rows_max }),
            Place::At(rank) => (&from.at, self.standing(rank, rows_max)),
            Place::Behind(rank) => (&from.on, self.standing(rank, rows_max)),
        };
        let rows = session.query(sql, params).await?;
        if pass.is_looking() {
            pass.clock(self.pulse(session).await?.now_us);
        }
        let sorter =
            Sorter { decoder: &self.decoder, keeps_order: self.keeps_order, holders, hands: &self.hands };
        let looked = rows.iter().map(|row| Ok::<_, Infallible>(self.looked(row)));
        let Ok(page) = sorter.page(looked, rows_max, ask, pass);
        Ok(page)
    }

    /// What nobody has looked at yet stands close together. What was looked at may be far apart by now: most of it is published.
    fn from(&self, pass: &Pass) -> &From {
        let id = |rank: &Rank| rank.entry.parse::<i64>().ok();
        let place = match pass.place() {
            Place::Head => None,
            Place::At(rank) | Place::Behind(rank) => id(rank),
        };
        let is_near = match (place, pass.top().and_then(id)) {
            (Some(place), Some(top)) => top.saturating_sub(place) <= WALK_IDS_MAX,
            _ => false,
        };
        self.sql.walk.as_ref().filter(|_| is_near).unwrap_or(&self.sql.gather)
    }

    /// Where a row stands, as parameters.
    fn standing(&self, rank: &Rank, rows_max: usize) -> Params {
        let id = self.id(rank);
        if !self.sql.has_lead {
            return params! { "outbox" => &self.outbox, "rows" => rows_max, "id" => id };
        }
        let lead = rank.leads.first().cloned().flatten();
        params! { "outbox" => &self.outbox, "rows" => rows_max, "id" => id, "lead" => lead }
    }

    /// An id that counts is compared as a number: a text would be compared with every id of the table.
    pub(super) fn id(&self, rank: &Rank) -> mysql_async::Value {
        match rank.entry.parse::<i64>() {
            Ok(number) if self.counts => number.into(),
            _ => rank.entry.as_str().into(),
        }
    }

    fn looked(&self, row: &Row) -> Looked {
        let mut batch = Batch::new(&self.decoder);
        let Ok(()) = batch.read(0, None, values(row));
        let payload_bytes =
            number(row, scanned::BYTES).and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(0);
        Looked {
            rank: self.rank(row, scanned::LEAD, scanned::ENTRY),
            bytes: batch.bytes().saturating_add(self.swell.bytes(payload_bytes)),
            row: batch.seal(),
            wait_us: number(row, scanned::WAIT_US).unwrap_or(0),
            held: holds(row, scanned::HELD),
            dead: holds(row, scanned::DEAD),
            written_by: 0,
        }
    }

    fn rank(&self, row: &Row, lead: usize, entry: usize) -> Rank {
        let leads = if self.sql.has_lead { vec![text(row, lead)] } else { Vec::new() };
        Rank { leads, entry: text(row, entry).unwrap_or_default() }
    }

    /// The first dead row of each key that it holds.
    pub(crate) async fn holders(&self, session: &mut Session) -> Result<HashMap<Key, Rank>, Error> {
        let rows = session.query(&self.sql.holders, params! { "outbox" => &self.outbox }).await?;
        let read = |row: &Row| {
            let mut batch = Batch::new(&self.decoder);
            let Ok(()) = batch.read(0, None, values(row));
            Ok::<_, Infallible>((self.rank(row, scanned::LEAD, scanned::ENTRY), batch.seal()))
        };
        let Ok(holders) = Sorter::holders(&self.decoder, rows.iter().map(read));
        Ok(holders)
    }

    /// What is asked at the beginning of each claim.
    pub(crate) async fn pulse(&self, session: &mut Session) -> Result<Pulse, Error> {
        let row = session.first(&self.sql.pulse, params! { "outbox" => &self.outbox }).await?;
        let Some(row) = row else { return Ok(Pulse::default()) };
        let counted = |at| number(&row, at).unwrap_or(0);
        Ok(Pulse {
            epoch: counted(pulse::EPOCH),
            number: row.get::<u64, _>(pulse::NUMBER).unwrap_or(0),
            now_us: counted(pulse::NOW_US),
            server_us: counted(pulse::SERVER_US),
            now_lead: text(&row, pulse::NOW_LEAD),
        })
    }

    /// Rows of a statement that has locked them; none where they do not fit into the claim.
    pub(crate) fn taken(&self, rows: &[Row], candidates: &Candidates, ask: &Ask) -> Option<Taken> {
        let mut taking = Taking::new(&self.decoder, candidates, ask);
        for row in rows {
            let place = place(number(row, taken::PLACE));
            let Some(rank) = place.and_then(|at| candidates.ranks.get(at)) else { continue };
            if !taking.has_room() {
                break;
            }
            let retries = (count(row, taken::RETRIES), count(row, taken::RETRIES_MAX));
            let version = number(row, taken::VERSION).unwrap_or(0);
            let Ok(()) = taking.read(rank.entry.clone(), retries, version, values(row));
        }
        taking.finish(&self.swell)
    }
}

/// A place in a list, which the database counts from one.
pub(crate) fn place(ordinal: Option<i64>) -> Option<usize> {
    usize::try_from(ordinal?.checked_sub(1)?).ok()
}
