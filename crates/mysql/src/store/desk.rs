//! Where chores and verbs are done: a connection and what was compiled for its table.

use std::sync::Arc;
use std::time::Duration;

use mysql_async::{Params, params};
use postrider_core::layout::{OnDead, Order, Way};
use postrider_core::report::{Report, Reported};
use postrider_core::store::{Depth, Filter, Listed, Shown, Turn};
use postrider_core::{EntryId, State, limits};

use super::depth::Counter;
use super::jobs::Jobs;
use super::reports::Reports;
use super::view::{View, microseconds};
use crate::config::Config;
use crate::fault::Error;
use crate::rows;
use crate::session::Session;
use crate::sql::depth::DepthSql;
use crate::sql::reap::ReapSql;
use crate::sql::verbs::{Statement, VerbSql};
use crate::sql::{Names, ids};
use crate::table::Table;

pub(super) struct Desk {
    pub(super) session: Session,
    jobs: Jobs,
    reports: Reports,
    config: Arc<Config>,
    pub(super) view: View,
    depth: DepthSql,
    pub(super) verbs: VerbSql,
    pub(super) reap: Arc<ReapSql>,
}

#[derive(Clone, Copy)]
pub(super) enum Verb {
    Revive,
    Bury,
    Prune,
}

impl Verb {
    /// The only state that it changes.
    fn of(self) -> State {
        match self {
            Self::Revive => State::Dead,
            Self::Bury => State::Pending,
            Self::Prune => State::Published,
        }
    }
}

impl Desk {
    pub(super) fn new(config: &Arc<Config>, session: Session, table: &Table) -> Self {
        let (names, outbox) = (Names::new(config), config.layout.table.as_str());
        Self {
            jobs: Jobs::new(&names, outbox, &config.holder),
            reports: Reports::new(&names, outbox),
            view: View::new(config, table),
            depth: DepthSql::new(config, table),
            verbs: VerbSql::new(config, table),
            reap: Arc::new(ReapSql::new(config, table)),
            config: Arc::clone(config),
            session,
        }
    }

    pub(super) fn outbox(&self) -> &str {
        &self.view.outbox
    }

    pub(super) async fn depth(&mut self) -> Result<Depth, Error> {
        self.look().await?;
        let layout = &self.config.layout;
        let standing = self.view.standing(&mut self.session).await?;
        let counter = Counter {
            view: &self.view,
            sql: &self.depth,
            standing: &standing,
            keeps_order: layout.order == Order::Key,
            holds_dead: layout.on_dead == OnDead::Hold,
        };
        let depth = counter.depth(&mut self.session).await?;
        self.session.roll_back().await?;
        Ok(depth)
    }

    /// One snapshot: what moves from state to state while it is counted is counted once. Where rows are held by their locks it is
    /// tried to lock them, which no snapshot does; whatever came of that is rolled back.
    async fn look(&mut self) -> Result<(), Error> {
        match self.config.layout.way {
            Way::Hold => self.session.begin().await,
            Way::Cursor | Way::Lease | Way::Log => self.session.begin_snapshot().await,
        }
    }

    pub(super) async fn list(&mut self, filter: &Filter) -> Result<Vec<Listed>, Error> {
        let mut found = Vec::new();
        self.look().await?;
        let standing = self.view.standing(&mut self.session).await?;
        self.view.each(&mut self.session, &standing, filter, |listed| found.push(listed)).await?;
        self.session.roll_back().await?;
        Ok(found)
    }

    pub(super) async fn show(&mut self, id: &EntryId) -> Result<Option<Shown>, Error> {
        self.look().await?;
        let standing = self.view.standing(&mut self.session).await?;
        let shown = self.view.show(&mut self.session, &standing, id).await?;
        self.session.roll_back().await?;
        Ok(shown)
    }

    /// Chooses by the same query that a list shows, then changes all of it, in one transaction.
    pub(super) async fn verb(
        &mut self,
        verb: Verb,
        filter: &Filter,
        reason: &str,
        dry_run: bool,
    ) -> Result<u64, Error> {
        let filters = filter.for_verb(verb.of());
        self.session.begin().await?;
        if !dry_run {
            self.hold_position().await?;
        }
        let mut chosen = self.choose(&filters).await?;
        if !dry_run && !chosen.is_empty() {
            if let Some(sql) = self.verbs.hold_rows.clone() {
                // A relay may have come first: what is chosen of those that nobody has any more is what counts.
                let held = self.hold(&sql, &chosen).await?;
                chosen = Vec::new();
                if !held.is_empty() {
                    let again = |filter| Filter { limit: None, ids: held.clone(), ..filter };
                    chosen = self.choose(&filters.into_iter().map(again).collect::<Vec<_>>()).await?;
                }
            }
            if !chosen.is_empty() {
                self.write(verb, &chosen, reason).await?;
            }
        }
        if dry_run {
            self.session.roll_back().await?
        } else {
            self.session.commit().await?
        }
        Ok(chosen.len() as u64)
    }

    /// Deletes one batch.
    pub(super) async fn prune(&mut self, filter: &Filter, batch: &Filter) -> Result<u64, Error> {
        let pruned = self.verb(Verb::Prune, batch, "", false).await?;
        if pruned == 0 {
            self.forget_keys(filter).await?;
        }
        Ok(pruned)
    }

    /// An idempotency key is of use as long as its event may be appended again: it goes with the events of its age. Whoever
    /// prunes some of them only leaves the keys alone.
    async fn forget_keys(&mut self, filter: &Filter) -> Result<(), Error> {
        let whole = Filter { older_than: filter.older_than, limit: filter.limit, ..Filter::default() };
        let Some(age) = filter.older_than.filter(|_| *filter == whole) else { return Ok(()) };
        let most = limits::BATCH_ENTRIES_MAX as u64;
        loop {
            let params = params! {
                "outbox" => &self.view.outbox,
                "age_us" => microseconds(age),
                "most" => most,
            };
            if self.session.execute(&self.verbs.forget_keys, params).await?.rows < most {
                return Ok(());
            }
        }
    }

    /// Keeps a cursor's relay from writing until the transaction has ended.
    pub(super) async fn hold_position(&mut self) -> Result<(), Error> {
        let Some(sql) = &self.verbs.hold_position else { return Ok(()) };
        self.session.query(sql, params! { "outbox" => &self.view.outbox }).await.map(drop)
    }

    async fn choose(&mut self, filters: &[Filter]) -> Result<Vec<EntryId>, Error> {
        let mut chosen = Vec::new();
        let standing = self.view.standing(&mut self.session).await?;
        for filter in filters {
            self.view.each(&mut self.session, &standing, filter, |listed| chosen.push(listed.id)).await?;
        }
        Ok(chosen)
    }

    async fn hold(&mut self, sql: &str, chosen: &[EntryId]) -> Result<Vec<EntryId>, Error> {
        let held = self.session.query(sql, params! { "list" => list(chosen) }).await?;
        Ok(held.iter().filter_map(|row| rows::id(row, 0)).collect())
    }

    async fn write(&mut self, verb: Verb, chosen: &[EntryId], reason: &str) -> Result<(), Error> {
        let reason: String = reason.chars().take(limits::REASON_CHARS_MAX).collect();
        let statements = match verb {
            Verb::Revive => &self.verbs.revive,
            Verb::Bury => &self.verbs.bury,
            Verb::Prune => &self.verbs.prune,
        };
        let (list, outbox) = (list(chosen), self.view.outbox.as_str());
        for statement in statements {
            let (sql, params): (&str, Params) = match statement {
                Statement::Rows { sql, has_reason: false } => (sql, params! { "list" => &list }),
                Statement::Rows { sql, has_reason: true } => {
                    (sql, params! { "list" => &list, "reason" => &reason })
                }
                Statement::Beside { sql, has_reason: false } => {
                    (sql, params! { "outbox" => outbox, "list" => &list })
                }
                Statement::Beside { sql, has_reason: true } => {
                    (sql, params! { "outbox" => outbox, "list" => &list, "reason" => &reason })
                }
            };
            self.session.execute(sql, params).await?;
        }
        if !matches!(verb, Verb::Prune) {
            self.session.execute(&self.verbs.bump_epoch, params! { "outbox" => outbox }).await?;
        }
        Ok(())
    }

    pub(super) async fn take_turn(&mut self, job: &str, at_most: Duration) -> Result<Option<Turn>, Error> {
        self.jobs.take(&mut self.session, job, at_most).await
    }

    pub(super) async fn end_turn(&mut self, turn: &Turn, next: Duration) -> Result<(), Error> {
        self.jobs.end(&mut self.session, turn, next).await
    }

    pub(super) async fn report(&mut self, report: &Report) -> Result<(), Error> {
        self.reports.put(&mut self.session, report).await
    }

    pub(super) async fn reports(&mut self) -> Result<Vec<Reported>, Error> {
        self.reports.read(&mut self.session).await
    }
}

fn list(chosen: &[EntryId]) -> String {
    let texts: Vec<String> = chosen.iter().map(EntryId::to_string).collect();
    ids(texts.iter().map(String::as_str))
}
