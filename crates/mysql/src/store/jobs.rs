//! Turns at jobs: one holder at a time, and never for longer than it said, by the database's clock (B9).

use std::time::Duration;

use mysql_async::params;
use postrider_core::store::Turn;

use super::view::microseconds;
use crate::fault::Error;
use crate::session::Session;
use crate::sql::Names;

#[derive(Debug)]
pub(super) struct Jobs {
    outbox: String,
    owner: String,
    create: String,
    /// Says the turn's fence by `last_insert_id`.
    take: String,
    end: String,
}

impl Jobs {
    pub(super) fn new(names: &Names, outbox: &str, owner: &str) -> Self {
        let (jobs, now) = (&names.jobs, &names.now);
        Self {
            outbox: outbox.to_owned(),
            owner: owner.to_owned(),
            create: format!(
                "insert ignore into {jobs} (outbox, name, fence, due) values (:outbox, :job, 0, '1970-01-01')"
            ),
            take: format!(
                "update {jobs} set owner = :owner, fence = last_insert_id(fence + 1), until = {} \
                 where outbox = :outbox and name = :job and due <= {now} and (until is null or until <= {now})",
                names.after(":at_most_us")
            ),
            end: format!(
                "update {jobs} set owner = null, until = null, due = {} \
                 where outbox = :outbox and name = :job and fence = :fence and until is not null",
                names.after(":next_us")
            ),
        }
    }

    pub(super) async fn take(
        &self,
        session: &mut Session,
        job: &str,
        at_most: Duration,
    ) -> Result<Option<Turn>, Error> {
        session.execute(&self.create, params! { "outbox" => &self.outbox, "job" => job }).await?;
        let params = params! {
            "outbox" => &self.outbox,
            "job" => job,
            "owner" => &self.owner,
            "at_most_us" => microseconds(at_most),
        };
        let done = session.execute(&self.take, params).await?;
        let fence = i64::try_from(done.said).unwrap_or(i64::MAX);
        Ok((done.rows > 0).then(|| Turn { job: job.to_owned(), fence }))
    }

    pub(super) async fn end(&self, session: &mut Session, turn: &Turn, next: Duration) -> Result<(), Error> {
        let params = params! {
            "outbox" => &self.outbox,
            "job" => &turn.job,
            "fence" => turn.fence,
            "next_us" => microseconds(next),
        };
        session.execute(&self.end, params).await.map(drop)
    }
}
