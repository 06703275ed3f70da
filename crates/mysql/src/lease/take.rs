//! Taking rows, in one short transaction.

use std::collections::{HashMap, HashSet};

use mysql_async::{Params, params};
use postrider_core::Entry;
use postrider_core::rows::Batch;
use postrider_core::status::{OpenRow, Page};

use super::{LeaseSource, State};
use crate::fault::Error;
use crate::rows::{count, number, text, values};
use crate::session::Session;
use crate::sql::ids;
use crate::sql::status::taken;

/// What came of taking rows.
pub(super) enum Took {
    Rows(Taken),
    /// The outbox's lease was lost.
    Fenced,
}

/// Rows that were taken, in order.
#[derive(Default)]
pub(super) struct Taken {
    pub(super) rows: Vec<OpenRow>,
    pub(super) entries: Vec<Entry>,
}

/// Rows that are locked, by their places among the candidates.
type Locked = Vec<(usize, OpenRow, Entry)>;

impl LeaseSource {
    pub(super) async fn take(
        &self,
        session: &mut Session,
        state: &State,
        page: &Page,
        claim: u64,
    ) -> Result<Took, Error> {
        session.begin().await?;
        if !self.is_guarded(session, state.fence.unwrap_or(0)).await? {
            session.commit().await?;
            return Ok(Took::Fenced);
        }
        let mut locked = self.lock(session, page).await?;
        if self.fence.is_some() && locked.len() < page.candidates.ranks.len() {
            self.pass_by(session, page, &mut locked).await?;
        }
        if !locked.is_empty() {
            self.hold(session, &mut locked, claim).await?;
        }
        session.commit().await?;
        let mut taken = Taken::default();
        for (_, row, entry) in locked {
            taken.rows.push(row);
            taken.entries.push(entry);
        }
        Ok(Took::Rows(taken))
    }

    /// Where order is kept: whether the outbox's lease is held, which nobody takes before the transaction has ended.
    pub(super) async fn is_guarded(&self, session: &mut Session, fence: i64) -> Result<bool, Error> {
        if self.fence.is_none() {
            return Ok(true);
        }
        let params = params! { "outbox" => &self.outbox, "owner" => &self.config.holder, "fence" => fence };
        Ok(session.first(&self.sql.guard, params).await?.is_some())
    }

    async fn lock(&self, session: &mut Session, page: &Page) -> Result<Locked, Error> {
        let ranks = &page.candidates.ranks;
        let list = ids(ranks.iter().map(|rank| rank.entry.as_str()));
        let params = params! { "outbox" => &self.outbox, "list" => list, "rows" => page.candidates.most };
        let rows = session.query(&self.sql.lock, params).await?;
        let (mut batch, mut open) = (Batch::new(&self.decoder), Vec::with_capacity(rows.len()));
        for row in &rows {
            let place = place(number(row, taken::PLACE));
            let Some(rank) = place.and_then(|at| ranks.get(at)) else { continue };
            let before = batch.len();
            let retries = count(row, taken::RETRIES).unwrap_or(0);
            let Ok(()) = batch.read(retries, count(row, taken::RETRIES_MAX), values(row));
            if batch.len() > before {
                let version = number(row, taken::VERSION).unwrap_or(0);
                let row = OpenRow { entry: rank.entry.clone(), retries, version, settled: false };
                open.push((place.unwrap_or(usize::MAX), row));
            }
        }
        let entries = batch.finish();
        let mut locked: Locked =
            open.into_iter().zip(entries).map(|((place, row), entry)| (place, row, entry)).collect();
        locked.sort_by_key(|(place, ..)| *place);
        Ok(locked)
    }

    /// A row that somebody has locked is passed by, and so are those of its key that come after it.
    async fn pass_by(&self, session: &mut Session, page: &Page, locked: &mut Locked) -> Result<(), Error> {
        let candidates = &page.candidates;
        let list = ids(candidates.ranks.iter().map(|rank| rank.entry.as_str()));
        let rows = session.query(&self.sql.available, self.of_outbox(&list)).await?;
        let mine: HashSet<usize> = locked.iter().map(|(place, ..)| *place).collect();
        let mut first_stuck = HashMap::new();
        for at in rows.iter().filter_map(|row| place(number(row, 0))).filter(|at| !mine.contains(at)) {
            if let Some(Some(key)) = candidates.keys.get(at) {
                let first = first_stuck.entry(key).or_insert(at);
                *first = at.min(*first);
            }
        }
        locked.retain(|(place, _, entry)| {
            let stuck = entry.key.as_ref().and_then(|key| first_stuck.get(key));
            stuck.is_none_or(|first| place < first)
        });
        Ok(())
    }

    /// The row's lock keeps out whoever claims or settles it; whoever has claimed it since it was looked at, and still holds
    /// it, is found out here.
    async fn hold(&self, session: &mut Session, locked: &mut Locked, claim: u64) -> Result<(), Error> {
        let offered = ids(locked.iter().map(|(_, row, _)| row.entry.as_str()));
        session.execute(&self.sql.hold, self.of_claim(offered.clone(), claim)).await?;
        let held = session.query(&self.sql.held, self.of_claim(offered, claim)).await?;
        let held: HashMap<usize, Option<u32>> =
            held.iter().filter_map(|row| Some((place(number(row, 0))?, count(row, 1)))).collect();
        let mut at = 0;
        let own_retries = self.config.layout.columns.retries.is_some();
        locked.retain_mut(|(_, row, entry)| {
            let kept = held.get(&at);
            at += 1;
            if let Some(Some(retries)) = kept.filter(|_| !own_retries) {
                (row.retries, entry.retries) = (*retries, *retries);
            }
            kept.is_some()
        });
        let Some(sql) = self.sql.mark.as_ref().filter(|_| !locked.is_empty()) else { return Ok(()) };
        let list = ids(locked.iter().map(|(_, row, _)| row.entry.as_str()));
        session.execute(sql, params! { "list" => list, "owner" => &self.config.holder }).await?;
        if self.config.layout.columns.version.is_some() {
            let most = crate::sql::status::version_max(&self.config.layout, &self.table);
            locked.iter_mut().for_each(|(_, row, _)| row.version = row.version % most + 1);
        }
        Ok(())
    }

    /// Gives back rows that a statement lists.
    pub(super) async fn give_back(&self, session: &mut Session, which: &str) -> Result<(), Error> {
        let params = params! { "outbox" => &self.outbox, "owner" => &self.config.holder };
        let held = session.query(which, params).await?;
        if held.is_empty() {
            return Ok(());
        }
        let entries: Vec<String> = held.iter().filter_map(|row| text(row, 0)).collect();
        let list = ids(entries.iter().map(String::as_str));
        session.begin().await?;
        session.query(&self.sql.wait_for, params! { "list" => &list }).await?;
        if let Some(sql) = &self.sql.give_back {
            session.execute(sql, params! { "list" => &list }).await?;
        }
        session.execute(&self.sql.let_go, self.of_outbox(&list)).await?;
        session.commit().await
    }

    fn of_outbox(&self, list: &str) -> Params {
        params! { "outbox" => &self.outbox, "list" => list }
    }

    pub(super) fn of_claim(&self, list: String, claim: u64) -> Params {
        params! {
            "outbox" => &self.outbox,
            "list" => list,
            "owner" => &self.config.holder,
            "claim" => claim,
        }
    }
}

/// A place in a list, which the database counts from one.
pub(super) fn place(ordinal: Option<i64>) -> Option<usize> {
    usize::try_from(ordinal?.checked_sub(1)?).ok()
}
