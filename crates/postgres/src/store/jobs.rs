//! Turns at jobs: one holder at a time, and never for longer than it said, by the database's clock (B9).

use std::time::Duration;

use postrider_core::store::Turn;
use tokio_postgres::types::Type;

use super::view::microseconds;
use crate::fault::Error;
use crate::session::Session;
use crate::sql::Names;
use crate::sql::time::interval;

/// $1 is the outbox.
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
                "insert into {jobs} as j (outbox, name, owner, fence, until, due) \
                 values ($1, $2, $3, 1, clock_timestamp() + {at_most}, '-infinity') \
                 on conflict (outbox, name) do update \
                 set owner = excluded.owner, fence = j.fence + 1, until = clock_timestamp() + {at_most} \
                 where j.due <= clock_timestamp() and (j.until is null or j.until <= clock_timestamp()) returning j.fence",
                at_most = interval("$4")
            ),
            end: format!(
                "update {jobs} set owner = null, until = null, due = clock_timestamp() + {} \
                 where outbox = $1 and name = $2 and fence = $3 and until is not null",
                interval("$4")
            ),
        }
    }

    pub(crate) async fn take(
        &self,
        session: &Session,
        job: &str,
        at_most: Duration,
    ) -> Result<Option<Turn>, Error> {
        let params = [
            (&self.outbox as _, Type::TEXT),
            (&job as _, Type::TEXT),
            (&self.owner as _, Type::TEXT),
            (&microseconds(at_most) as _, Type::INT8),
        ];
        let taken = session.first(&self.take, &params).await?;
        Ok(taken.map(|row| Turn { job: job.to_owned(), fence: row.get(0) }))
    }

    pub(crate) async fn end(&self, session: &Session, turn: &Turn, next: Duration) -> Result<(), Error> {
        let params = [
            (&self.outbox as _, Type::TEXT),
            (&turn.job as _, Type::TEXT),
            (&turn.fence as _, Type::INT8),
            (&microseconds(next) as _, Type::INT8),
        ];
        session.execute(&self.end, &params).await.map(drop)
    }
}
