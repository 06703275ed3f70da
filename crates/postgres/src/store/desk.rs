//! Where chores and verbs are done: a connection and what was compiled for its table.

use std::sync::Arc;

use postrider_core::layout::{OnDead, Order, Way};
use postrider_core::store::{Depth, Filter, Listed, Shown};
use postrider_core::{EntryId, State, limits};
use tokio_postgres::types::Type;

use super::depth::Counter;
use super::ids::Ids;
use super::jobs::Jobs;
use super::partitions::Partitions;
use super::reap::Reaper;
use super::reports::Reports;
use super::view::{View, microseconds};
use crate::config::Config;
use crate::fault::Error;
use crate::rows;
use crate::session::{Durable, Session, Transaction};
use crate::sql::Names;
use crate::sql::depth::DepthSql;
use crate::sql::reap::ReapSql;
use crate::table::Table;

pub(super) struct Desk {
    pub(super) session: Session,
    pub(super) jobs: Jobs,
    pub(super) reports: Reports,
    config: Arc<Config>,
    view: View,
    depth: DepthSql,
    reap: ReapSql,
    partitions: Option<Partitions>,
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

/// These statements are rare and their tables of any size: each is planned for what it asks.
const PLANNED: &str = "set local plan_cache_mode = force_custom_plan";
/// One snapshot: what moves from state to state while it is counted is counted once.
const SNAPSHOT: &str = "set transaction isolation level repeatable read, read only; \
                        set local plan_cache_mode = force_custom_plan";

impl Desk {
    pub(super) async fn new(config: &Arc<Config>, session: Session, table: &Table) -> Result<Self, Error> {
        let (layout, names) = (&config.layout, Names::new(&config.layout));
        let (outbox, ttl_us) = (layout.table.as_str(), config.ttl_us());
        Ok(Self {
            jobs: Jobs::new(&names, outbox, &config.holder),
            reports: Reports::new(&names, outbox),
            view: View::new(layout, &names, table, ttl_us),
            depth: DepthSql::new(layout, &names, table, ttl_us),
            reap: ReapSql::new(layout, &names, table, ttl_us),
            partitions: Partitions::of(&session, layout, table).await?,
            config: Arc::clone(config),
            session,
        })
    }

    pub(super) async fn depth(&self) -> Result<Depth, Error> {
        let transaction = self.snapshot().await?;
        let standing = self.view.standing(&transaction).await?;
        let (layout, names) = (&self.config.layout, Names::new(&self.config.layout));
        let counter = Counter {
            session: &transaction,
            view: &self.view,
            sql: &self.depth,
            standing: &standing,
            words: layout.status.as_ref(),
            table: &names.table,
            is_cursor: layout.way == Way::Cursor,
            keeps_order: layout.order == Order::Key,
            holds_dead: layout.on_dead == OnDead::Hold,
        };
        let depth = counter.depth().await?;
        transaction.commit().await?;
        Ok(depth)
    }

    pub(super) async fn list(&self, filter: &Filter) -> Result<Vec<Listed>, Error> {
        let mut found = Vec::new();
        let transaction = self.snapshot().await?;
        let standing = self.view.standing(&transaction).await?;
        self.view.each(&transaction, &standing, filter, |listed| found.push(listed)).await?;
        transaction.commit().await?;
        Ok(found)
    }

    pub(super) async fn show(&self, id: &EntryId) -> Result<Option<Shown>, Error> {
        let transaction = self.snapshot().await?;
        let standing = self.view.standing(&transaction).await?;
        let shown = self.view.show(&transaction, &standing, id).await?;
        transaction.commit().await?;
        Ok(shown)
    }

    /// Chooses by the same query that a list shows, then changes all of it, in one transaction.
    pub(super) async fn verb(
        &self,
        verb: Verb,
        filter: &Filter,
        reason: &str,
        dry_run: bool,
    ) -> Result<u64, Error> {
        self.verb_above(verb, filter, None, reason, dry_run).await
    }

    /// Deletes one batch. What goes with its whole partition before long is left to that.
    pub(super) async fn prune(&self, filter: &Filter, batch: &Filter) -> Result<u64, Error> {
        let mut above = None;
        if let Some(partitions) = &self.partitions {
            let swept = partitions.sweep(&self.session, filter).await?;
            if swept.entries > 0 {
                return Ok(swept.entries);
            }
            above = swept.left_up_to;
        }
        let pruned = self.verb_above(Verb::Prune, batch, above, "", false).await?;
        if pruned == 0 {
            self.forget_keys(filter).await?;
        }
        Ok(pruned)
    }

    /// An idempotency key is of use as long as its event may be appended again: it goes with the events of its age. Whoever
    /// prunes some of them only leaves the keys alone.
    async fn forget_keys(&self, filter: &Filter) -> Result<(), Error> {
        let whole = Filter { older_than: filter.older_than, limit: filter.limit, ..Filter::default() };
        let Some(age) = filter.older_than.filter(|_| *filter == whole) else { return Ok(()) };
        let (age, most) = (microseconds(age), i64::try_from(limits::BATCH_ENTRIES_MAX).unwrap_or(i64::MAX));
        let params =
            [(&self.view.outbox as _, Type::TEXT), (&age as _, Type::INT8), (&most as _, Type::INT8)];
        let sql = &self.view.sql.verbs.forget_keys;
        while self.session.execute(sql, &params).await? >= most.unsigned_abs() {}
        Ok(())
    }

    async fn verb_above(
        &self,
        verb: Verb,
        filter: &Filter,
        above: Option<i64>,
        reason: &str,
        dry_run: bool,
    ) -> Result<u64, Error> {
        let filters = filter.for_verb(verb.of());
        if dry_run {
            let mut count = 0;
            for filter in &filters {
                count += self.count(filter).await?;
            }
            return Ok(count);
        }
        let transaction = self.writing().await?;
        let verbs = &self.view.sql.verbs;
        if let Some(sql) = &verbs.hold_position {
            transaction.query(sql, &[(&self.view.outbox, Type::TEXT)]).await?;
        }
        let mut chosen = self.choose(&transaction, &filters, above).await?;
        if let Some(sql) = &verbs.hold_rows
            && !chosen.is_empty()
        {
            // A relay may have come first: what is chosen of those that nobody has any more is what counts.
            let ids = self.held(&transaction, sql, &chosen).await?;
            chosen = Vec::new();
            if !ids.is_empty() {
                let again = |filter| Filter { limit: None, ids: ids.clone(), ..filter };
                let filters: Vec<Filter> = filters.into_iter().map(again).collect();
                chosen = self.choose(&transaction, &filters, above).await?;
            }
        }
        if !chosen.is_empty() {
            self.write(&transaction, verb, &chosen, reason).await?;
        }
        transaction.commit().await?;
        Ok(chosen.len() as u64)
    }

    pub(super) async fn reap(&self) -> Result<u64, Error> {
        let transaction = self.writing().await?;
        let reaper = Reaper { session: &transaction, view: &self.view, config: &self.config };
        let reaped = reaper.reap(&self.reap).await?;
        transaction.commit().await?;
        Ok(reaped)
    }

    /// Creates partitions before they are needed.
    pub(super) async fn create_partitions(&self) -> Result<(), Error> {
        match &self.partitions {
            Some(partitions) => partitions.create_ahead(&self.session).await,
            None => Ok(()),
        }
    }

    async fn count(&self, filter: &Filter) -> Result<u64, Error> {
        let transaction = self.snapshot().await?;
        let standing = self.view.standing(&transaction).await?;
        let mut count = 0;
        self.view.each(&transaction, &standing, filter, |_| count += 1).await?;
        transaction.commit().await?;
        Ok(count)
    }

    async fn choose(
        &self,
        session: &Session,
        filters: &[Filter],
        above: Option<i64>,
    ) -> Result<Vec<EntryId>, Error> {
        let standing = self.view.standing(session).await?;
        let mut chosen = Vec::new();
        for filter in filters {
            self.view.each_above(session, &standing, filter, above, |listed| chosen.push(listed.id)).await?;
        }
        Ok(chosen)
    }

    async fn held(&self, session: &Session, sql: &str, ids: &[EntryId]) -> Result<Vec<EntryId>, Error> {
        let ids = Ids::new(self.view.id_kind, ids);
        let held = session.query(sql, &[(&self.view.outbox, Type::TEXT), ids.param()]).await?;
        let mut found = Vec::with_capacity(held.len());
        for row in &held {
            found.extend(rows::id(row, 0)?);
        }
        Ok(found)
    }

    async fn write(&self, session: &Session, verb: Verb, ids: &[EntryId], reason: &str) -> Result<(), Error> {
        let (ids, verbs) = (Ids::new(self.view.id_kind, ids), &self.view.sql.verbs);
        let reason: String = reason.chars().filter(|c| *c != '\0').take(limits::REASON_CHARS_MAX).collect();
        let statements = match verb {
            Verb::Revive => &verbs.revive,
            Verb::Bury => &verbs.bury,
            Verb::Prune => &verbs.prune,
        };
        for sql in statements {
            let params = [(&self.view.outbox as _, Type::TEXT), ids.param(), (&reason as _, Type::TEXT)];
            session.execute(sql, &params).await?;
        }
        if !matches!(verb, Verb::Prune) {
            session.execute(&verbs.bump_epoch, &[(&self.view.outbox, Type::TEXT)]).await?;
        }
        Ok(())
    }

    async fn snapshot(&self) -> Result<Transaction<'_>, Error> {
        let transaction = self.session.begin(Durable::Now).await?;
        transaction.run(SNAPSHOT).await?;
        Ok(transaction)
    }

    async fn writing(&self) -> Result<Transaction<'_>, Error> {
        let transaction = self.session.begin(Durable::Now).await?;
        transaction.run(PLANNED).await?;
        Ok(transaction)
    }
}
