//! Turns at jobs: one holder at a time, and never for longer than it said.

use std::time::Duration;

use jiff::Timestamp;
use postrider_core::store::Turn;
use rusqlite::Connection;

use crate::run::{execute, first};
use crate::sql::Names;

/// ?1 is the outbox.
#[derive(Debug)]
pub(crate) struct Jobs {
    outbox: String,
    owner: String,
    take: String,
    end: String,
}

impl Jobs {
    pub(crate) fn new(names: &Names, outbox: &str, owner: &str) -> Self {
        let jobs = &names.jobs;
        Self {
            outbox: outbox.to_owned(),
            owner: owner.to_owned(),
            take: format!(
                "insert into {jobs} (outbox, name, owner, fence, until, due) values (?1, ?2, ?3, 1, ?5, 0) \
                 on conflict (outbox, name) do update \
                 set owner = excluded.owner, fence = fence + 1, until = excluded.until \
                 where due <= ?4 and (until is null or until <= ?4) returning fence"
            ),
            end: format!(
                "update {jobs} set owner = null, until = null, due = ?4 where outbox = ?1 and name = ?2 and fence = ?3 \
                 and until is not null"
            ),
        }
    }

    pub(crate) fn take(
        &self,
        connection: &Connection,
        now: Timestamp,
        job: &str,
        at_most: Duration,
    ) -> rusqlite::Result<Option<Turn>> {
        let (now_us, until) = (now.as_microsecond(), after(now, at_most));
        let fence =
            first(connection, &self.take, &[&self.outbox, &job, &self.owner, &now_us, &until], |row| {
                row.get(0)
            })?;
        Ok(fence.map(|fence| Turn { job: job.to_owned(), fence }))
    }

    pub(crate) fn end(
        &self,
        connection: &Connection,
        now: Timestamp,
        turn: &Turn,
        next: Duration,
    ) -> rusqlite::Result<()> {
        execute(connection, &self.end, &[&self.outbox, &turn.job, &turn.fence, &after(now, next)]).map(drop)
    }
}

fn after(now: Timestamp, span: Duration) -> i64 {
    now.saturating_add(span).unwrap_or(Timestamp::MAX).as_microsecond()
}
