//! What a cursor writes, always under the fence, which stands in the position's row: mostly one statement, which checks it and
//! writes; a transaction that begins with it where more is to be kept.

use mysql_async::{Params, params};
use postrider_core::cursor::{Draft, Exception, Write};
use postrider_core::source::SourceError;
use postrider_core::{limits, point};
use serde::Serialize;

use super::CursorSource;
use super::page::Page;
use crate::fault::Error;
use crate::session::Session;

impl CursorSource {
    /// Writes down what is in this holder's hands, so that operators leave it alone; says no when one of them was quicker,
    /// or the lease is gone.
    pub(super) async fn mark(&self, page: &Page) -> Result<bool, SourceError> {
        let mut session = self.writes.session().await?;
        self.memory.written_by(session.serial());
        let params = self.memory.with(|held| {
            params! {
                "outbox" => &self.outbox,
                "fence" => held.fence,
                "epoch" => held.loaded.epoch,
                "claimed" => held.loaded.claimed(held.position),
                "returned" => returned(held.loaded.returned.iter().copied()),
            }
        });
        let Some(params) = params else { return Ok(false) };
        let mut tries = 0;
        loop {
            match self.try_mark(&mut session, params.clone(), &page.again).await {
                Ok(is_marked) => return Ok(is_marked),
                Err(error) => {
                    session.again(error, &mut tries).await.map_err(|error| self.writes.failed(error))?
                }
            }
        }
    }

    async fn try_mark(&self, session: &mut Session, params: Params, again: &[i64]) -> Result<bool, Error> {
        let sql = &self.sql.write;
        if again.is_empty() {
            return Ok(session.execute(&sql.mark, params).await?.rows > 0);
        }
        session.begin().await?;
        let is_marked = session.execute(&sql.mark, params).await?.rows > 0;
        if is_marked {
            session.execute(&sql.claim, self.list(again)).await?;
        }
        session.commit().await?;
        Ok(is_marked)
    }

    /// Writes what has changed since the last write that succeeded; for a claim that is settled, whatever changed.
    pub(super) async fn persist(&self, session: &mut Session, settling: bool) -> Result<(), SourceError> {
        self.memory.written_by(session.serial());
        let Some(draft) = self.memory.with(|held| held.draft(settling)) else {
            return Err(SourceError::Fenced);
        };
        let Some(draft) = draft else { return Ok(()) };
        let mut tries = 0;
        let answer = loop {
            match self.send(session, &draft, settling).await {
                Ok(is_written) => break Ok(is_written),
                Err(error) => {
                    if let Err(error) = session.again(error, &mut tries).await {
                        break Err(error);
                    }
                }
            }
        };
        // Another lease has loaded everything anew since.
        let fence = draft.fence;
        let is_written = matches!(answer, Ok(true));
        self.memory.with(|held| {
            if held.fence == fence {
                held.answered(draft, is_written);
            }
        });
        match answer {
            Ok(true) => Ok(()),
            Ok(false) => {
                self.memory.forget();
                Err(SourceError::Fenced)
            }
            Err(error) => Err(self.writes.failed(error)),
        }
    }

    /// Says no when the lease is gone, and then nothing was written.
    async fn send(&self, session: &mut Session, draft: &Draft, settling: bool) -> Result<bool, Error> {
        let write = draft.write.as_ref();
        let gaps = write.and_then(|write| write.gaps.as_ref()).map(|gaps| {
            let pairs: Vec<(i64, i64)> = gaps.iter().map(|gap| (*gap.start(), *gap.end())).collect();
            json(&pairs)
        });
        let params = params! {
            "outbox" => &self.outbox,
            "fence" => draft.fence,
            "position" => draft.position,
            "claimed" => draft.claimed,
            "returned" => returned(draft.returned.iter().copied()),
            "gaps" => gaps,
        };
        // A test may want to stop in its middle.
        let is_one = draft.is_narrow() && draft.unclaimed.is_empty() && !(settling && point::armed());
        if is_one {
            return Ok(session.execute(&self.sql.write.advance, params).await?.rows > 0);
        }
        session.begin().await?;
        if session.execute(&self.sql.write.advance, params).await?.rows == 0 {
            session.commit().await?;
            return Ok(false);
        }
        if !draft.unclaimed.is_empty() {
            session.execute(&self.sql.write.unclaim, self.list(&draft.unclaimed)).await?;
        }
        if let Some(write) = write {
            self.keep(session, write).await?;
        }
        if settling {
            point::pass("mysql.settling");
        }
        session.commit().await?;
        Ok(true)
    }

    /// What is kept beside the position.
    async fn keep(&self, session: &mut Session, write: &Write) -> Result<(), Error> {
        let sql = &self.sql.write;
        let Write { closed, reopened, upserts, deletes, ranges, .. } = write;
        for (statement, ids) in [(&sql.forget, deletes), (&sql.reopen, reopened)] {
            if !ids.is_empty() {
                session.execute(statement, self.list(ids)).await?;
            }
        }
        if !upserts.is_empty() {
            let kept: Vec<Kept<'_>> = upserts.iter().map(Kept::of).collect();
            session.execute(&sql.keep, self.list(&kept)).await?;
        }
        if !closed.is_empty() {
            let closed = closed.iter().map(|closed| Closed {
                f: *closed.ids.start(),
                l: *closed.ids.end(),
                a: closed.at.as_microsecond(),
            });
            session.execute(&sql.give_up, self.list(&closed.collect::<Vec<_>>())).await?;
        }
        if let Some(ranges) = ranges {
            session.execute(&sql.unpark, params! { "outbox" => &self.outbox }).await?;
            let parked = ranges.iter().map(|range| Parked {
                t: &range.kind.event_type,
                a: &range.kind.aggregate_type,
                f: range.first,
            });
            session.execute(&sql.park, self.list(&parked.collect::<Vec<_>>())).await?;
        }
        Ok(())
    }

    fn list<T: Serialize + ?Sized>(&self, list: &T) -> Params {
        params! { "outbox" => &self.outbox, "list" => json(list) }
    }
}

fn json<T: Serialize + ?Sized>(list: &T) -> String {
    serde_json::to_string(list).unwrap_or_default()
}

/// None where nothing was given back, as it mostly is.
fn returned(ids: impl Iterator<Item = i64>) -> Option<String> {
    let ids: Vec<i64> = ids.collect();
    (!ids.is_empty()).then(|| json(&ids))
}

/// An exception as a list has it; what is none is NULL.
#[derive(Serialize)]
struct Kept<'w> {
    e: i64,
    s: Option<&'w str>,
    k: Option<&'w str>,
    h: &'static str,
    d: Option<i64>,
    r: u32,
    x: Option<String>,
}

impl<'w> Kept<'w> {
    fn of(exception: &'w Exception) -> Self {
        let shortened = |reason: &str| reason.chars().take(limits::REASON_CHARS_MAX).collect();
        Self {
            e: exception.id,
            s: exception.key.as_ref().map(|key| &*key.scope),
            k: exception.key.as_ref().map(|key| &*key.id),
            h: exception.shelf.word(),
            d: exception.shelf.due_us(),
            r: exception.retries.min(i32::MAX.unsigned_abs()),
            x: exception.reason.as_deref().map(shortened),
        }
    }
}

#[derive(Serialize)]
struct Parked<'w> {
    t: &'w str,
    a: &'w str,
    f: i64,
}

#[derive(Serialize)]
struct Closed {
    f: i64,
    l: i64,
    a: i64,
}
