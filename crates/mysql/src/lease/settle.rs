//! What is written of a claim: that it is still held, and what became of it.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use mysql_async::{Params, params};
use postrider_core::source::SourceError;
use postrider_core::status::{OpenRow, Settling};
use postrider_core::{Settlement, point};

use super::{LeaseHold, LeaseSource};
use crate::fault::Error;
use crate::rows::number;
use crate::session::Session;
use crate::sql::ids;
use crate::status::{
    Listed, REFUSED_WAIT, error_chars_max, listed as list, place, tell_of_refused, why_refused,
};

impl LeaseSource {
    /// Keeps what is left of a claim; says whether all of it is still held.
    pub(super) async fn renew(&self, claim: u64, fence: i64, left: &[OpenRow]) -> Result<bool, SourceError> {
        let mut session = self.renewals.session().await?;
        let mut tries = 0;
        loop {
            match self.try_renew(&mut session, claim, fence, left).await {
                Ok(kept) => return Ok(kept),
                Err(error) => {
                    session.again(error, &mut tries).await.map_err(|error| self.renewals.failed(error))?
                }
            }
        }
    }

    async fn try_renew(
        &self,
        session: &mut Session,
        claim: u64,
        fence: i64,
        left: &[OpenRow],
    ) -> Result<bool, Error> {
        if let Some(lease) = &self.fence
            && !lease.renew(session, fence).await?
        {
            return Ok(false);
        }
        let entries = ids(left.iter().map(OpenRow::entry));
        let kept = session.execute(&self.sql.extend, self.of_claim(entries, claim)).await?;
        if let Some(sql) = &self.sql.mark_extended {
            let rows: Vec<Listed<'_>> = left.iter().map(Listed::held).collect();
            let marked = session.execute(sql, params! { "list" => list(&rows) }).await;
            // The lease stands without it; who reads the column sees it with the next.
            marked.map(drop).or_else(|error| if error.code().is_some() { Ok(()) } else { Err(error) })?;
        }
        Ok(kept.rows == left.len() as u64)
    }

    pub(super) async fn try_settle(
        &self,
        hold: &mut LeaseHold,
        settlements: &[(usize, Settlement)],
    ) -> Result<(), SourceError> {
        let fresh = settlements.iter().filter(|(at, _)| hold.rows.get(*at).is_some_and(|row| !row.settled));
        let fresh: Vec<&(usize, Settlement)> = fresh.collect();
        let sorted = fresh.iter().map(|(at, settlement)| (&hold.rows[*at], settlement));
        let (published, returned) =
            Settling::sort(&self.config.layout, error_chars_max(&self.config.layout, &self.table), sorted);
        let buries = returned.buries();
        for part in [published, returned] {
            let is_published = part.is_published();
            if !self.write(hold, Listed::all(&part), is_published).await? {
                return Err(SourceError::Fenced);
            }
            let written = fresh.iter().filter(|(_, to)| (*to == Settlement::Published) == is_published);
            // Before anybody can take the next of their keys.
            self.buried.fetch_or(buries && !is_published, Ordering::SeqCst);
            hold.settled(written.map(|(at, _)| *at), !is_published);
        }
        point::pass("mysql.settled");
        Ok(())
    }

    /// Writes one kind of settlements; says whether all of them were in this claim's hands. What the table refuses is found by
    /// halving and kept waiting beside it, the rest is settled.
    async fn write(
        &self,
        hold: &mut LeaseHold,
        all: Vec<Listed<'_>>,
        is_published: bool,
    ) -> Result<bool, SourceError> {
        if all.is_empty() {
            return Ok(true);
        }
        let mut session = self.settlements.session().await?;
        let (mut parts, mut is_ours, mut tries) = (vec![all], true, 0);
        while let Some(part) = parts.pop() {
            let error = match self.attempt(&mut session, hold, &part, is_published).await {
                Ok(ours) => {
                    is_ours &= ours;
                    continue;
                }
                Err(error) => error,
            };
            let refused = error.is_refused().then(|| error.to_string());
            let again = session.again(error, &mut tries).await;
            match (again, refused) {
                (Ok(()), _) => parts.push(part),
                (Err(_), Some(_)) if part.len() > 1 => {
                    let (first, second) = part.split_at(part.len() / 2);
                    parts.extend([second.to_vec(), first.to_vec()]);
                }
                (Err(_), Some(what)) => {
                    let kept = self.keep_refused(&mut session, hold, &part, is_published, &what).await;
                    kept.map_err(|error| self.settlements.failed(error))?;
                }
                (Err(error), None) => {
                    hold.unsure = true;
                    return Err(self.settlements.failed(error));
                }
            }
        }
        Ok(is_ours)
    }

    /// One transaction. The table's rows are locked before Postrider's own, as whoever claims does it: else the two would wait
    /// for each other.
    async fn attempt(
        &self,
        session: &mut Session,
        hold: &LeaseHold,
        part: &[Listed<'_>],
        is_published: bool,
    ) -> Result<bool, Error> {
        session.begin().await?;
        if !self.is_guarded(session, hold.fence).await? {
            session.commit().await?;
            return self.was_written(session, hold, part, is_published).await;
        }
        let all = list(part);
        let locked = session.query(&self.settle.lock, params! { "list" => &all }).await?;
        let versions: HashMap<usize, i64> =
            locked.iter().filter_map(|row| Some((place(number(row, 0))?, number(row, 1)?))).collect();
        let rows = session.query(&self.settle.mine, self.of_claim(all, hold.claim)).await?;
        let mine = rows.iter().filter_map(|row| place(number(row, 0)));
        // A row whose version moved on is somebody else's (A7); one that somebody deleted is settled by that.
        let has_version = self.config.layout.columns.version.is_some();
        let unmoved =
            |at: &usize| !has_version || versions.get(at).is_none_or(|version| *version == part[*at].v);
        let mut mine: Vec<usize> = mine.filter(unmoved).collect();
        mine.sort_unstable();
        let lost: Vec<Listed<'_>> =
            (0..part.len()).filter(|at| mine.binary_search(at).is_err()).map(|at| part[at].clone()).collect();
        let mine: Vec<Listed<'_>> = mine.into_iter().map(|at| part[at].clone()).collect();
        if !mine.is_empty() {
            let rows = list(&mine);
            let with_outbox = || params! { "outbox" => &self.outbox, "list" => &rows };
            if is_published {
                session.execute(&self.settle.published, params! { "list" => &rows }).await?;
                session.execute(&self.settle.forget, with_outbox()).await?;
            } else {
                let dead = self.settle.dead.as_ref().filter(|_| mine.iter().any(|row| row.d > 0));
                for sql in [self.settle.returned.as_ref(), dead].into_iter().flatten() {
                    session.execute(sql, params! { "list" => &rows }).await?;
                }
                session.execute(&self.settle.kept, with_outbox()).await?;
            }
        }
        point::pass("mysql.settling");
        session.commit().await?;
        if lost.is_empty() { Ok(true) } else { self.was_written(session, hold, &lost, is_published).await }
    }

    /// After a call without an answer, what it wrote is found written.
    async fn was_written(
        &self,
        session: &mut Session,
        hold: &LeaseHold,
        part: &[Listed<'_>],
        is_published: bool,
    ) -> Result<bool, Error> {
        if !hold.unsure {
            return Ok(false);
        }
        let rows = list(part);
        let row = if is_published {
            session.first(&self.settle.was_published, params! { "list" => rows }).await?
        } else {
            let params = params! { "outbox" => &self.outbox, "list" => rows };
            session.first(&self.settle.was_returned, params).await?
        };
        Ok(row.and_then(|row| number(&row, 0)) == i64::try_from(part.len()).ok())
    }

    /// Keeps a row beside the table that does not take what became of it. What is done with is not sent again: it is dead
    /// there, for a person. What goes back waits.
    async fn keep_refused(
        &self,
        session: &mut Session,
        hold: &LeaseHold,
        part: &[Listed<'_>],
        is_published: bool,
        what: &str,
    ) -> Result<(), Error> {
        let why = why_refused(is_published, what);
        let rows: Vec<Listed<'_>> =
            part.iter().map(|row| Listed { d: u8::from(is_published).max(row.d), ..row.clone() }).collect();
        let params: Params = params! {
            "outbox" => &self.outbox,
            "list" => list(&rows),
            "owner" => &self.config.holder,
            "claim" => hold.claim,
            "wait_us" => u64::try_from(REFUSED_WAIT.as_micros()).unwrap_or(u64::MAX),
            "why" => &why,
        };
        session.execute(&self.settle.set_aside, params).await?;
        tell_of_refused(&self.place, part, what);
        Ok(())
    }
}
