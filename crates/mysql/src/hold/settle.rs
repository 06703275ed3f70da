//! What became of rows, written in the claim's open transaction.

use mysql_async::params;
use postrider_core::Settlement;
use postrider_core::source::SourceError;
use postrider_core::status::{OpenRow, Settling};

use super::{HoldHold, HoldSource};
use crate::fault::Error;
use crate::rows::number;
use crate::session::Session;
use crate::sql::ids;
use crate::status::{Listed, REFUSED_WAIT, error_chars_max, listed, place, tell_of_refused, why_refused};

impl HoldSource {
    /// Whoever was in the way has cost the transaction, or may have: the rows are locked anew, if they are still as they were,
    /// and everything is written again.
    pub(super) async fn try_settle(
        &self,
        hold: &mut HoldHold,
        settlements: &[(usize, Settlement)],
    ) -> Result<(), SourceError> {
        let failed = |error| self.lost_or_failed(error);
        let mut session = hold.take().ok_or(SourceError::Fenced)?;
        let is_fresh = |(at, _): &&(usize, Settlement)| hold.rows().get(*at).is_some_and(|row| !row.settled);
        let fresh: Vec<(usize, Settlement)> = settlements.iter().filter(is_fresh).cloned().collect();
        let (mut tries, mut all) = (0, fresh.clone());
        while let Err(error) = self.write(&mut session, hold.rows(), &all).await {
            session.again(error, &mut tries).await.map_err(failed)?;
            while let Err(error) = session.begin().await {
                session.again(error, &mut tries).await.map_err(failed)?;
            }
            match self.lock_again(&mut session, hold.rows()).await {
                Ok(true) => {}
                Ok(false) => return Err(SourceError::Fenced),
                Err(error) => return Err(failed(error)),
            }
            all = hold.settled().iter().chain(&fresh).cloned().collect();
        }
        hold.put_back(session, fresh);
        Ok(())
    }

    /// With its connection a hold's transaction is gone, and its rows are anybody's.
    pub(super) fn lost_or_failed(&self, error: Error) -> SourceError {
        if error.code().is_none() { SourceError::Fenced } else { self.looks.failed(error) }
    }

    /// Says whether all of them could be had, as they were.
    async fn lock_again(&self, session: &mut Session, rows: &[OpenRow]) -> Result<bool, Error> {
        let list = ids(rows.iter().map(OpenRow::entry));
        let params = params! { "outbox" => &self.outbox, "list" => list };
        let locked = session.query(&self.sql.lock_again, params).await?;
        let is_same = |row| {
            let known = place(number(row, 0)).and_then(|at| rows.get(at));
            known.is_some_and(|known| Some(known.version) == number(row, 1))
        };
        Ok(locked.len() == rows.len() && locked.iter().all(is_same))
    }

    async fn write(
        &self,
        session: &mut Session,
        rows: &[OpenRow],
        settlements: &[(usize, Settlement)],
    ) -> Result<(), Error> {
        let chars_max = error_chars_max(&self.config.layout, &self.table);
        let sorted = settlements.iter().map(|(at, settlement)| (&rows[*at], settlement));
        let (published, returned) = Settling::sort(&self.config.layout, chars_max, sorted);
        for settling in [published, returned] {
            let mut parts = vec![Listed::all(&settling)];
            while let Some(part) = parts.pop().filter(|part| !part.is_empty()) {
                session.run("savepoint postrider_part").await?;
                let error = match self.write_part(session, &part, settling.is_published()).await {
                    Ok(()) => continue,
                    Err(error) if error.is_refused() => error,
                    Err(error) => return Err(error),
                };
                session.run("rollback to savepoint postrider_part").await?;
                // What the table refuses is found by halving and kept waiting beside it, the rest is settled.
                if part.len() > 1 {
                    let (first, second) = part.split_at(part.len() / 2);
                    parts.extend([second.to_vec(), first.to_vec()]);
                } else {
                    self.set_aside(session, &part, settling.is_published(), &error.to_string()).await?;
                }
            }
        }
        Ok(())
    }

    async fn write_part(
        &self,
        session: &mut Session,
        part: &[Listed<'_>],
        is_published: bool,
    ) -> Result<(), Error> {
        let list = listed(part);
        let with_outbox = || params! { "outbox" => &self.outbox, "list" => &list };
        if is_published {
            session.execute(&self.settle.published, params! { "list" => &list }).await?;
            return session.execute(&self.settle.forget, with_outbox()).await.map(drop);
        }
        let dead = self.settle.dead.as_ref().filter(|_| part.iter().any(|row| row.d > 0));
        for sql in [self.settle.returned.as_ref(), dead].into_iter().flatten() {
            session.execute(sql, params! { "list" => &list }).await?;
        }
        if let Some(sql) = &self.sql.make_room {
            session.execute(sql, with_outbox()).await?;
        }
        session.execute(&self.settle.kept, with_outbox()).await.map(drop)
    }

    /// Keeps a row beside the table that does not take what became of it. What is done with is not sent again: it is dead
    /// there, for a person. What goes back waits.
    async fn set_aside(
        &self,
        session: &mut Session,
        part: &[Listed<'_>],
        is_published: bool,
        what: &str,
    ) -> Result<(), Error> {
        let rows: Vec<Listed<'_>> =
            part.iter().map(|row| Listed { d: u8::from(is_published).max(row.d), ..row.clone() }).collect();
        let params = params! {
            "outbox" => &self.outbox,
            "list" => listed(&rows),
            "wait_us" => u64::try_from(REFUSED_WAIT.as_micros()).unwrap_or(u64::MAX),
            "why" => why_refused(is_published, what),
        };
        session.execute(&self.sql.set_aside, params).await?;
        tell_of_refused(&self.place, part, what);
        Ok(())
    }
}
