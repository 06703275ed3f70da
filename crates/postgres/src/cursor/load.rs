//! What a cursor keeps in the database, as rows.

use jiff::Timestamp;
use postrider_core::cursor::{Exception, Loaded, ParkedRange, Saved, Shelf};
use postrider_core::gaps::ClosedGap;
use postrider_core::route::Kind;
use postrider_core::rows::Value;
use postrider_core::source::SourceError;
use postrider_core::{Fault, Key, Text};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::CursorSource;
use super::memory::{Held, Memory};
use crate::fault::Error;
use crate::fence::Standing;
use crate::rows::{lenient, value};
use crate::session::{Durable, Session};

impl CursorSource {
    /// Takes the lease where it is free, and loads what was kept; says whether it was.
    pub(super) async fn take_over(
        &self,
        memory: &mut Memory,
        session: &Session,
    ) -> Result<bool, SourceError> {
        match self.try_take_over(session).await.map_err(|error| self.link.failed(error))? {
            Taken::Others => Ok(false),
            Taken::Unknown => Err(self.no_position()),
            Taken::Mine(held) => {
                memory.held = Some(*held);
                Ok(true)
            }
        }
    }

    async fn try_take_over(&self, session: &Session) -> Result<Taken, Error> {
        let outbox = (&self.fence.outbox as _, Type::TEXT);
        // Those who stand by ask often, and write nothing.
        let free =
            session.first(&self.sql.is_free, &[outbox.clone(), (&self.fence.owner, Type::TEXT)]).await?;
        if !free.is_some_and(|row| row.get(0)) {
            return Ok(Taken::Others);
        }
        let transaction = session.begin(Durable::Now).await?;
        let Standing::Mine(fence) = self.fence.take(&transaction, None).await? else {
            transaction.rollback().await?;
            return Ok(Taken::Others);
        };
        // At a takeover nothing is in anybody's hands.
        transaction.execute(&self.sql.start_over, std::slice::from_ref(&outbox)).await?;
        transaction.execute(&self.sql.unclaim_all, std::slice::from_ref(&outbox)).await?;
        let Some(row) = transaction.first(&self.sql.position, std::slice::from_ref(&outbox)).await? else {
            transaction.rollback().await?;
            return Ok(Taken::Unknown);
        };
        let (position, epoch): (i64, i64) = (row.get(0), row.get(1));
        let (first, last): (Vec<i64>, Vec<i64>) = (row.get(2), row.get(3));
        let ranges = transaction.query(&self.sql.ranges, std::slice::from_ref(&outbox)).await?;
        let closed = transaction.query(&self.sql.closed, &[outbox]).await?;
        let saved = Saved {
            position,
            gaps: first.into_iter().zip(last).map(|(first, last)| first..=last).collect(),
            closed: closed.iter().map(closed_gap).collect::<Result<_, _>>()?,
            exceptions: self.exceptions(&transaction).await?,
            ranges: ranges.iter().map(range).collect::<Result<_, _>>()?,
        };
        transaction.commit().await?;
        Ok(Taken::Mine(Box::new(Held {
            fence,
            loaded: Loaded::new(saved, self.settings, epoch),
            position,
            now: Timestamp::default(),
            drawn: i64::MAX,
            read_at: None,
            idle: 0,
            looked_at: None,
            heeded_at: None,
            strangers_at: None,
            survivors: Default::default(),
            late_told: 0,
            row_bytes: 0,
        })))
    }

    /// What did not go straight through.
    pub(super) async fn exceptions(&self, session: &Session) -> Result<Vec<Exception>, Error> {
        let rows = session.query(&self.sql.exceptions, &[(&self.fence.outbox, Type::TEXT)]).await?;
        let mut before: Option<Key> = None;
        let exceptions = rows.iter().map(|row| {
            let key = match lenient(row, 2)? {
                Some(id) => {
                    let scope = lenient(row, 1)?.unwrap_or_default();
                    // Neighbours are mostly of one key, and share it.
                    let same = before.take().filter(|key| *key.scope == *scope && *key.id == *id);
                    Some(same.unwrap_or_else(|| Key::new(scope, id)))
                }
                None => None,
            };
            before.clone_from(&key);
            Ok(Exception {
                id: row.try_get(0)?,
                key,
                shelf: shelf(row)?,
                retries: u32::try_from(row.try_get::<_, i32>(5)?).unwrap_or_default(),
                reason: lenient(row, 6)?.map(Text::from),
            })
        });
        exceptions.collect()
    }

    pub(super) fn no_position(&self) -> SourceError {
        SourceError::Broken(Fault::new(
            &*self.place,
            "how far it was read is not known any more: its row in Postrider's table of positions is gone",
            "Somebody deleted it. Set start = \"beginning\", \"now\" or an id, and start the relay again.",
        ))
    }
}

enum Taken {
    Mine(Box<Held>),
    Others,
    /// There is no position.
    Unknown,
}

fn range(row: &Row) -> Result<ParkedRange, tokio_postgres::Error> {
    let text = |at| Ok::<_, tokio_postgres::Error>(Text::from(lenient(row, at)?.unwrap_or_default()));
    Ok(ParkedRange { kind: Kind { event_type: text(0)?, aggregate_type: text(1)? }, first: row.try_get(2)? })
}

fn closed_gap(row: &Row) -> Result<ClosedGap, tokio_postgres::Error> {
    Ok(ClosedGap { ids: row.try_get(0)?..=row.try_get(1)?, at: time(row, 2)? })
}

fn shelf(row: &Row) -> Result<Shelf, tokio_postgres::Error> {
    let due = time(row, 4)?;
    Ok(Shelf::of(row.try_get(3)?, || due))
}

/// A moment; the beginning of all time where there is none, so that what waits for it is due.
pub(super) fn time(row: &Row, at: usize) -> Result<Timestamp, tokio_postgres::Error> {
    Ok(match value(row, at)? {
        Value::Time(us) if us > 0 => Timestamp::from_microsecond(us).unwrap_or(Timestamp::MAX),
        _ => Timestamp::default(),
    })
}
