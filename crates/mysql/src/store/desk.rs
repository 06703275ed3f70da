//! Where chores and verbs are done: a connection and what was compiled for its table.

use std::sync::Arc;
use std::time::Duration;

use mysql_async::{Params, params};
use postrider_core::layout::{OnDead, Order};
use postrider_core::report::{Report, Reported};
use postrider_core::store::{Depth, Filter, Listed, Shown, Turn};
use postrider_core::{EntryId, State, limits};

use super::depth::Counter;
use super::jobs::Jobs;
use super::reports::Reports;
use super::view::View;
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
    view: View,
    depth: DepthSql,
    verbs: VerbSql,
    pub(super) reap: ReapSql,
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
            reap: ReapSql::new(config, table),
            config: Arc::clone(config),
            session,
        }
    }

    pub(super) fn outbox(&self) -> &str {
        &self.view.outbox
    }

    pub(super) async fn depth(&mut self) -> Result<Depth, Error> {
        // One snapshot: what moves from state to state while it is counted is counted once.
        self.session.begin_snapshot().await?;
        let layout = &self.config.layout;
        let counter = Counter {
            view: &self.view,
            sql: &self.depth,
            keeps_order: layout.order == Order::Key,
            holds_dead: layout.on_dead == OnDead::Hold,
        };
        let depth = counter.depth(&mut self.session).await?;
        self.session.commit().await?;
        Ok(depth)
    }

    pub(super) async fn list(&mut self, filter: &Filter) -> Result<Vec<Listed>, Error> {
        let mut found = Vec::new();
        self.session.begin_snapshot().await?;
        self.view.each(&mut self.session, filter, |listed| found.push(listed)).await?;
        self.session.commit().await?;
        Ok(found)
    }

    pub(super) async fn show(&mut self, id: &EntryId) -> Result<Option<Shown>, Error> {
        self.session.begin_snapshot().await?;
        let shown = self.view.show(&mut self.session, id).await?;
        self.session.commit().await?;
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
        let mut chosen = self.choose(&filters).await?;
        if !dry_run && !chosen.is_empty() {
            // A relay may have come first: what is chosen of those that nobody has any more is what counts.
            let held = self.hold(&chosen).await?;
            chosen = Vec::new();
            if !held.is_empty() {
                let again = |filter| Filter { limit: None, ids: held.clone(), ..filter };
                chosen = self.choose(&filters.into_iter().map(again).collect::<Vec<_>>()).await?;
            }
            if !chosen.is_empty() {
                self.write(verb, &chosen, reason).await?;
            }
        }
        self.session.commit().await?;
        Ok(chosen.len() as u64)
    }

    async fn choose(&mut self, filters: &[Filter]) -> Result<Vec<EntryId>, Error> {
        let mut chosen = Vec::new();
        for filter in filters {
            self.view.each(&mut self.session, filter, |listed| chosen.push(listed.id)).await?;
        }
        Ok(chosen)
    }

    async fn hold(&mut self, chosen: &[EntryId]) -> Result<Vec<EntryId>, Error> {
        let held = self.session.query(&self.verbs.hold_rows, params! { "list" => list(chosen) }).await?;
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
