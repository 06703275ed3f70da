//! What is written of a claim: that it is still held, and what became of it.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mysql_async::{Params, params};
use postrider_core::source::SourceError;
use postrider_core::status::{Change, Changes, OpenRow};
use postrider_core::{Settlement, limits, point};
use serde::Serialize;

use super::take::place;
use super::{LeaseHold, LeaseSource};
use crate::fault::Error;
use crate::rows::number;
use crate::session::Session;
use crate::sql::ids;

/// How long a row waits that goes back, and whose table refuses that: somebody has to mend the table.
const REFUSED_WAIT: Duration = Duration::from_secs(300);

/// One row as a list has it; what is none is left out, and so is NULL.
#[derive(Clone, Serialize)]
struct Listed<'a> {
    e: &'a str,
    v: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    w: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    r: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    a: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    x: Option<&'a str>,
    h: u8,
    d: u8,
}

impl<'a> Listed<'a> {
    fn published((entry, version): &'a (String, i64)) -> Self {
        Self { e: entry, v: *version, w: None, r: None, a: None, x: None, h: 0, d: 0 }
    }

    fn returned(change: &'a Change) -> Self {
        Self {
            e: &change.entry,
            v: change.version,
            w: change.word.as_deref(),
            r: change.retries,
            a: change.after.map(|after| u64::try_from(after.as_micros()).unwrap_or(u64::MAX)),
            x: change.error.as_deref(),
            h: change.holds_key.into(),
            d: change.dead.into(),
        }
    }
}

fn list(rows: &[Listed<'_>]) -> String {
    serde_json::to_string(rows).unwrap_or_default()
}

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
        let entries = ids(left.iter().map(|row| row.entry.as_str()));
        let kept = session.execute(&self.sql.extend, self.of_claim(entries, claim)).await?;
        if let Some(sql) = &self.sql.mark_extended {
            let rows: Vec<(String, i64)> = left.iter().map(|row| (row.entry.clone(), row.version)).collect();
            let rows: Vec<Listed<'_>> = rows.iter().map(Listed::published).collect();
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
        let changes = Changes::sort(&self.config.layout, self.error_chars_max(), sorted);
        let (buries, returns) = (changes.buries(), !changes.returned.is_empty());
        let published = changes.published.iter().map(Listed::published).collect();
        let returned = changes.returned.iter().map(Listed::returned).collect();
        for (part, is_published) in [(published, true), (returned, false)] {
            if !self.write(hold, part, is_published).await? {
                return Err(SourceError::Fenced);
            }
            let written = fresh.iter().filter(|(_, to)| (*to == Settlement::Published) == is_published);
            hold.settled(written.map(|(at, _)| *at));
        }
        point::pass("mysql.settled");
        self.returned.fetch_or(returns, Ordering::SeqCst);
        self.buried.fetch_or(buries, Ordering::SeqCst);
        Ok(())
    }

    /// How much of an error its column takes.
    fn error_chars_max(&self) -> usize {
        let column = self.table.mapped(self.config.layout.columns.error.as_ref());
        let most = column.and_then(|live| live.characters_max).and_then(|most| usize::try_from(most).ok());
        most.unwrap_or(usize::MAX).min(limits::REASON_CHARS_MAX)
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
        let why = if is_published {
            format!(
                "it was published, and the table does not take that: {what}; mend the table and give the row its word by hand \
                 (reviving it publishes it again)"
            )
        } else {
            format!("the table does not take what became of this row: {what}")
        };
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
        tracing::warn!(
            place = self.place,
            entry = part.first().map_or("", |row| row.e),
            became = part.first().and_then(|row| row.w).unwrap_or("published"),
            "the table refuses what became of a row ({what}): it is kept in Postrider's own table, and not sent again before \
             somebody mends this. Let the constraint or trigger take the layout's words, or correct the layout"
        );
        Ok(())
    }
}
