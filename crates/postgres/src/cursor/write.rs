//! What a cursor writes, always under the fence: in one statement, which is a transaction of its own.

use postrider_core::cursor::{Draft, Exception, Write};
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
    /// is gone, and then nothing was written. Who calls this has the turn to write.
    pub(super) async fn write(
        &self,
        session: &Session,
        held: &mut Held,
        settling: bool,
    ) -> Result<bool, Error> {
        let Some(draft) = held.draft(settling) else { return Ok(true) };
        let answer = self.send(session, &draft, settling).await;
        held.answered(draft, matches!(answer, Ok(true)));
        answer
    }

    /// Whether a draft is one statement that goes out with the first poll, so that others may follow it before it is
    /// answered.
    pub(super) fn goes_at_once(&self, session: &Session, draft: &Draft) -> bool {
        self.is_one_statement(session, draft) && !point::armed() && session.knows(self.statement(draft))
    }

    fn is_one_statement(&self, session: &Session, draft: &Draft) -> bool {
        durable(draft) == Durable::Soon && self.beside_team(draft).is_none() && !session.is_pooled()
    }

    fn beside_team<'d>(&self, draft: &'d Draft) -> Option<&'d Write> {
        draft.write.as_ref().filter(|write| self.concerns_failed(write))
    }

    fn statement(&self, draft: &Draft) -> &str {
        if draft.is_move() { &self.sql.advance } else { &self.sql.write }
    }

    /// One statement, one round trip; a transaction where it is to be durable, where the team's table is written too, or
    /// where a test wants to stop in its middle.
    pub(super) async fn send(&self, session: &Session, draft: &Draft, settling: bool) -> Result<bool, Error> {
        let sql = self.statement(draft);
        let beside = Beside::of(draft);
        let mut params: Vec<Param<'_>> = vec![
            (&self.fence.outbox as _, Type::TEXT),
            (&self.fence.owner as _, Type::TEXT),
            (&draft.fence as _, Type::INT8),
            (&draft.position as _, Type::INT8),
            (&draft.claimed as _, Type::INT8),
            (&draft.returned as _, Type::INT8_ARRAY),
            (&draft.unclaimed as _, Type::INT8_ARRAY),
        ];
        params.extend(beside.iter().flat_map(Beside::params));
        let stops = settling && point::armed();
        if self.is_one_statement(session, draft) && !stops {
            return Ok(session.execute(sql, &params).await? == 1);
        }
        let transaction = session.begin(durable(draft)).await?;
        match self.run_within(&transaction, sql, &params, self.beside_team(draft)).await {
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

/// What is given up is to be durable.
fn durable(draft: &Draft) -> Durable {
    if draft.buries() { Durable::Now } else { Durable::Soon }
}

impl Held {
    /// What is to be written; for a claim, whatever changed.
    pub(super) fn draft(&mut self, settling: bool) -> Option<Draft> {
        self.loaded.draft(self.fence, self.position, settling)
    }

    /// A write was answered.
    pub(super) fn answered(&mut self, draft: Draft, is_written: bool) {
        let position = self.loaded.answered(draft, is_written);
        self.position = self.position.max(position.unwrap_or(self.position));
    }
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
    closed_first: Vec<i64>,
    closed_last: Vec<i64>,
    closed_at: Vec<i64>,
    reopened: &'w [i64],
}

impl<'w> Beside<'w> {
    /// None where only the position has moved.
    fn of(draft: &'w Draft) -> Option<Self> {
        let Write { gaps, closed, reopened, upserts, deletes, ranges, .. } =
            draft.write.as_ref().filter(|_| !draft.is_move())?;
        let key = |exception: &'w Exception| exception.key.as_ref();
        Some(Self {
            gap_first: gaps.as_ref().map(|gaps| gaps.iter().map(|gap| *gap.start()).collect()),
            gap_last: gaps.as_ref().map(|gaps| gaps.iter().map(|gap| *gap.end()).collect()),
            entries: upserts.iter().map(|exception| exception.id).collect(),
            scopes: upserts.iter().map(|exception| key(exception).map(|key| &*key.scope)).collect(),
            keys: upserts.iter().map(|exception| key(exception).map(|key| &*key.id)).collect(),
            shelves: upserts.iter().map(|exception| exception.shelf.word()).collect(),
            due: upserts.iter().map(|exception| exception.shelf.due_us()).collect(),
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
            closed_first: closed.iter().map(|closed| *closed.ids.start()).collect(),
            closed_last: closed.iter().map(|closed| *closed.ids.end()).collect(),
            closed_at: closed.iter().map(|closed| closed.at.as_microsecond()).collect(),
            reopened,
        })
    }

    fn params(&self) -> [(&(dyn ToSql + Sync), Type); 17] {
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
            (&self.closed_first, Type::INT8_ARRAY),
            (&self.closed_last, Type::INT8_ARRAY),
            (&self.closed_at, Type::INT8_ARRAY),
            (&self.reopened, Type::INT8_ARRAY),
        ]
    }
}

/// What is written of a reason; no text of PostgreSQL's holds a NUL.
pub(super) fn shortened(reason: &str) -> String {
    reason.chars().filter(|c| *c != '\0').take(limits::REASON_CHARS_MAX).collect()
}
