//! What a cursor writes, always under the fence: in one statement, which is a transaction of its own.

use postrider_core::cursor::{Exception, Shelf, Write};
use postrider_core::{limits, point};
use tokio_postgres::types::{ToSql, Type};

use super::CursorSource;
use super::memory::Held;
use crate::fault::Error;
use crate::session::{Durable, Param, Session};

impl CursorSource {
    /// Writes down what is in this holder's hands, so that operators leave it alone; says no when one of them was quicker,
    /// or the lease is gone.
    pub(super) async fn mark(&self, session: &Session, held: &Held, again: &[i64]) -> Result<bool, Error> {
        let claimed = held.loaded.claimed(held.position);
        let returned: Vec<i64> = held.loaded.returned.iter().copied().collect();
        let params = [
            (&self.fence.outbox as _, Type::TEXT),
            (&self.fence.owner as _, Type::TEXT),
            (&held.fence as _, Type::INT8),
            (&claimed as _, Type::INT8),
            (&returned as _, Type::INT8_ARRAY),
            (&held.loaded.epoch as _, Type::INT8),
            (&again as _, Type::INT8_ARRAY),
        ];
        Ok(session.first(&self.sql.mark, &params).await?.is_some())
    }

    /// Writes what has changed since the last write that succeeded; for a claim, whatever changed. Says no when the lease
    /// is gone, and then nothing was written.
    pub(super) async fn write(
        &self,
        session: &Session,
        held: &mut Held,
        settling: bool,
    ) -> Result<bool, Error> {
        let write = held.loaded.cursor.write();
        if write.is_none() && !settling {
            return Ok(true);
        }
        let position = write.as_ref().map_or(held.position, |write| write.position);
        held.loaded.returned = held.loaded.returned.split_off(&position.saturating_add(1));
        let claimed = held.loaded.claimed(position);
        let returned: Vec<i64> = held.loaded.returned.iter().copied().collect();
        let gone = held.loaded.no_longer_again();
        let unclaimed: Vec<i64> = gone.iter().copied().collect();
        let beside = Beside::of(write.as_ref());
        let mut params: Vec<Param<'_>> = vec![
            (&self.fence.outbox as _, Type::TEXT),
            (&self.fence.owner as _, Type::TEXT),
            (&held.fence as _, Type::INT8),
            (&position as _, Type::INT8),
            (&claimed as _, Type::INT8),
            (&returned as _, Type::INT8_ARRAY),
            (&unclaimed as _, Type::INT8_ARRAY),
        ];
        let sql = match &beside {
            Some(beside) => {
                params.extend(beside.params());
                &self.sql.write
            }
            None => &self.sql.advance,
        };
        if !self.run(session, sql, &params, write.as_ref(), settling).await? {
            return Ok(false);
        }
        held.position = position;
        held.loaded.again.retain(|id| !gone.contains(id));
        if let Some(write) = write {
            held.loaded.cursor.applied(write);
        }
        Ok(true)
    }

    /// One statement, one round trip; a transaction where it is to be durable, where the team's table is written too, or
    /// where a test wants to stop in its middle.
    async fn run(
        &self,
        session: &Session,
        sql: &str,
        params: &[Param<'_>],
        write: Option<&Write>,
        settling: bool,
    ) -> Result<bool, Error> {
        let durable = if write.is_some_and(buries) { Durable::Now } else { Durable::Soon };
        let write = write.filter(|write| self.concerns_failed(write));
        let stops = settling && point::armed();
        if durable == Durable::Soon && write.is_none() && !session.is_pooled() && !stops {
            return Ok(session.execute(sql, params).await? == 1);
        }
        let transaction = session.begin(durable).await?;
        match self.run_within(&transaction, sql, params, write).await {
            Ok(true) => {
                if settling {
                    point::pass("postgres.settling");
                }
                transaction.commit().await?;
                Ok(true)
            }
            Ok(false) => {
                transaction.rollback().await?;
                Ok(false)
            }
            Err(error) => {
                transaction.rollback().await?;
                Err(error)
            }
        }
    }

    async fn run_within(
        &self,
        session: &Session,
        sql: &str,
        params: &[Param<'_>],
        write: Option<&Write>,
    ) -> Result<bool, Error> {
        if let Some(write) = write {
            self.drop_failed(session, write).await?;
        }
        if session.execute(sql, params).await? != 1 {
            return Ok(false);
        }
        if let Some(write) = write {
            self.keep_failed(session, write).await?;
        }
        Ok(true)
    }
}

/// Whether something is given up, which is to be durable.
fn buries(write: &Write) -> bool {
    write.upserts.iter().any(|exception| exception.shelf == Shelf::Dead)
}

/// What is kept beside the position, column by column.
struct Beside<'w> {
    gap_first: Option<Vec<i64>>,
    gap_last: Option<Vec<i64>>,
    entries: Vec<i64>,
    scopes: Vec<Option<&'w str>>,
    keys: Vec<Option<&'w str>>,
    shelves: Vec<&'static str>,
    due: Vec<Option<i64>>,
    retries: Vec<i32>,
    errors: Vec<Option<String>>,
    deletes: &'w [i64],
    types: Option<Vec<&'w str>>,
    aggregates: Option<Vec<&'w str>>,
    first: Option<Vec<i64>>,
}

impl<'w> Beside<'w> {
    /// None where only the position has moved.
    fn of(write: Option<&'w Write>) -> Option<Self> {
        let write = write?;
        let Write { gaps, upserts, deletes, ranges, .. } = write;
        if gaps.is_none() && upserts.is_empty() && deletes.is_empty() && ranges.is_none() {
            return None;
        }
        let key = |exception: &'w Exception| exception.key.as_ref();
        Some(Self {
            gap_first: gaps.as_ref().map(|gaps| gaps.iter().map(|gap| *gap.start()).collect()),
            gap_last: gaps.as_ref().map(|gaps| gaps.iter().map(|gap| *gap.end()).collect()),
            entries: upserts.iter().map(|exception| exception.id).collect(),
            scopes: upserts.iter().map(|exception| key(exception).map(|key| &*key.scope)).collect(),
            keys: upserts.iter().map(|exception| key(exception).map(|key| &*key.id)).collect(),
            shelves: upserts.iter().map(|exception| word(exception.shelf)).collect(),
            due: upserts.iter().map(|exception| due(exception.shelf)).collect(),
            retries: upserts
                .iter()
                .map(|exception| i32::try_from(exception.retries).unwrap_or(i32::MAX))
                .collect(),
            errors: upserts.iter().map(|exception| exception.reason.as_deref().map(shortened)).collect(),
            deletes,
            types: ranges.as_ref().map(|ranges| ranges.iter().map(|range| &*range.kind.event_type).collect()),
            aggregates: ranges
                .as_ref()
                .map(|ranges| ranges.iter().map(|range| &*range.kind.aggregate_type).collect()),
            first: ranges.as_ref().map(|ranges| ranges.iter().map(|range| range.first).collect()),
        })
    }

    fn params(&self) -> [(&(dyn ToSql + Sync), Type); 13] {
        [
            (&self.gap_first, Type::INT8_ARRAY),
            (&self.gap_last, Type::INT8_ARRAY),
            (&self.entries, Type::INT8_ARRAY),
            (&self.scopes, Type::TEXT_ARRAY),
            (&self.keys, Type::TEXT_ARRAY),
            (&self.shelves, Type::TEXT_ARRAY),
            (&self.due, Type::INT8_ARRAY),
            (&self.retries, Type::INT4_ARRAY),
            (&self.errors, Type::TEXT_ARRAY),
            (&self.deletes, Type::INT8_ARRAY),
            (&self.types, Type::TEXT_ARRAY),
            (&self.aggregates, Type::TEXT_ARRAY),
            (&self.first, Type::INT8_ARRAY),
        ]
    }
}

fn word(shelf: Shelf) -> &'static str {
    match shelf {
        Shelf::Parked => "parked",
        Shelf::Waiting { .. } => "waiting",
        Shelf::Dead => "dead",
    }
}

fn due(shelf: Shelf) -> Option<i64> {
    match shelf {
        Shelf::Waiting { due } => Some(due.as_microsecond()),
        Shelf::Parked | Shelf::Dead => None,
    }
}

/// What is written of a reason; no text of PostgreSQL's holds a NUL.
pub(super) fn shortened(reason: &str) -> String {
    reason.chars().filter(|c| *c != '\0').take(limits::REASON_CHARS_MAX).collect()
}
