//! What a cursor keeps in the database, as rows.

use std::ops::RangeInclusive;

use jiff::Timestamp;
use mysql_async::{Row, params};
use postrider_core::cursor::{Exception, Loaded, ParkedRange, Saved, Shelf};
use postrider_core::gaps::ClosedGap;
use postrider_core::route::Kind;
use postrider_core::rows::Value;
use postrider_core::source::SourceError;
use postrider_core::{Fault, Key, Text};

use super::CursorSource;
use super::memory::Held;
use crate::fault::Error;
use crate::fence::Standing;
use crate::rows::{count, holds, number, text, value};
use crate::session::Session;

enum Taken {
    Mine(Box<Held>),
    Others,
    /// There is no position.
    Unknown,
}

impl CursorSource {
    /// Takes the lease where it is free, and loads what was kept; says whether it was. `reader` is the session that rows are
    /// read on.
    pub(super) async fn take_over(&self, reader: u64) -> Result<bool, SourceError> {
        let mut session = self.writes.session().await?;
        let mut tries = 0;
        loop {
            match self.try_take_over(&mut session, reader).await {
                Ok(Taken::Others) => return Ok(false),
                Ok(Taken::Unknown) => return Err(self.no_position()),
                Ok(Taken::Mine(held)) => {
                    self.memory.hold(*held);
                    return Ok(true);
                }
                Err(error) => {
                    session.again(error, &mut tries).await.map_err(|error| self.writes.failed(error))?
                }
            }
        }
    }

    async fn try_take_over(&self, session: &mut Session, reader: u64) -> Result<Taken, Error> {
        let outbox = || params! { "outbox" => &self.outbox };
        // Those who stand by ask often, and write nothing.
        let asked = params! { "outbox" => &self.outbox, "owner" => &self.config.holder };
        let free = session.first(&self.sql.is_free, asked).await?;
        if !free.is_some_and(|row| holds(&row, 0)) {
            return Ok(Taken::Others);
        }
        session.begin().await?;
        let Standing::Mine(fence) = self.fence.take(session, None).await? else {
            session.commit().await?;
            return Ok(Taken::Others);
        };
        // At a takeover nothing is in anybody's hands; who held it before writes nothing any more.
        let over = params! { "outbox" => &self.outbox, "fence" => fence };
        session.execute(&self.sql.start_over, over).await?;
        session.execute(&self.sql.unclaim_all, outbox()).await?;
        let Some(row) = session.first(&self.sql.position, outbox()).await? else {
            session.commit().await?;
            return Ok(Taken::Unknown);
        };
        let (position, epoch) = (number(&row, 0).unwrap_or(0), number(&row, 1).unwrap_or(0));
        let ranges = session.query(&self.sql.ranges, outbox()).await?;
        let closed = session.query(&self.sql.closed, outbox()).await?;
        let saved = Saved {
            position,
            gaps: gaps(&row, 2),
            closed: closed.iter().map(closed_gap).collect(),
            exceptions: self.exceptions(session).await?,
            ranges: ranges.iter().map(range).collect(),
        };
        session.commit().await?;
        let loaded = Loaded::new(saved, self.settings, epoch);
        Ok(Taken::Mine(Box::new(Held::new((reader, session.serial()), fence, loaded, position))))
    }

    /// What did not go straight through.
    pub(super) async fn exceptions(&self, session: &mut Session) -> Result<Vec<Exception>, Error> {
        let rows = session.query(&self.sql.exceptions, params! { "outbox" => &self.outbox }).await?;
        let mut before: Option<Key> = None;
        let exception = |row: &Row| {
            let key = text(row, 2).map(|id| {
                let scope = text(row, 1).unwrap_or_default();
                // Neighbours are mostly of one key, and share it.
                let same = before.take().filter(|key| *key.scope == *scope && *key.id == *id);
                same.unwrap_or_else(|| Key::new(scope, id))
            });
            before.clone_from(&key);
            Exception {
                id: number(row, 0).unwrap_or(0),
                key,
                shelf: Shelf::of(&text(row, 3).unwrap_or_default(), || time(row, 4)),
                retries: count(row, 5).unwrap_or(0),
                reason: text(row, 6).map(Text::from),
            }
        };
        Ok(rows.iter().map(exception).collect())
    }

    pub(super) fn no_position(&self) -> SourceError {
        SourceError::Broken(Fault::new(
            &*self.place,
            "how far it was read is not known any more: its row in Postrider's table of positions is gone",
            "Somebody deleted it. Set start = \"beginning\", \"now\" or an id, and start the relay again.",
        ))
    }
}

fn range(row: &Row) -> ParkedRange {
    let part = |at| Text::from(text(row, at).unwrap_or_default());
    ParkedRange {
        kind: Kind { event_type: part(0), aggregate_type: part(1) },
        first: number(row, 2).unwrap_or(0),
    }
}

fn closed_gap(row: &Row) -> ClosedGap {
    ClosedGap { ids: number(row, 0).unwrap_or(0)..=number(row, 1).unwrap_or(0), at: time(row, 2) }
}

/// Ranges as they are kept: `[[first, last], ...]`.
pub(crate) fn gaps(row: &Row, at: usize) -> Vec<RangeInclusive<i64>> {
    let kept: Vec<(i64, i64)> =
        text(row, at).and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    kept.into_iter().map(|(first, last)| first..=last).collect()
}

/// A moment; the beginning of all time where there is none, so that what waits for it is due.
pub(super) fn time(row: &Row, at: usize) -> Timestamp {
    match value(row, at) {
        Value::Time(us) | Value::Local(us) if us > 0 => {
            Timestamp::from_microsecond(us).unwrap_or(Timestamp::MAX)
        }
        _ => Timestamp::default(),
    }
}
