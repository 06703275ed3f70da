//! The store: the same database seen by chores and operators.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use postrider_core::clock::{BoxFuture, Clock};
use postrider_core::layout::{OnDead, TimeForm, Way};
use postrider_core::report::{Report, Reported};
use postrider_core::source::SourceError;
use postrider_core::store::{Depth, Filter, Listed, Shown, Store, Turn};
use postrider_core::{EntryId, Fault, State, limits};
use rusqlite::{Connection, TransactionBehavior};

use crate::config::Config;
use crate::connection::{Worker, open};
use crate::depth::Counter;
use crate::fault::source_error;
use crate::file::{OpenFile, not_yet};
use crate::ids;
use crate::jobs::Jobs;
use crate::reap::Reaper;
use crate::reports::Reports;
use crate::run::{all, execute, value};
use crate::settling::shortened;
use crate::sql::{DepthSql, LeaseSql, Names, form};
use crate::table::inspect;
use crate::view::View;

/// Opens an outbox for chores and operators.
///
/// # Errors
/// When the file is not there or is no database, or the table does not fit its layout.
pub fn open_store(config: &Config, clock: Arc<dyn Clock>) -> Result<SqliteStore, Fault> {
    config.validate()?;
    let desk = Desk::open(config, clock.now())?;
    Ok(SqliteStore { worker: Worker::start("postrider-store", config.place(), desk)?, clock })
}

/// A SQLite outbox as chores and operators see it.
pub struct SqliteStore {
    worker: Worker<Desk>,
    clock: Arc<dyn Clock>,
}

struct Desk {
    file: OpenFile,
    connection: Connection,
    config: Config,
    view: View,
    depth: DepthSql,
    jobs: Jobs,
    reports: Reports,
    by_time: bool,
    /// Only status tables keep leases by the entry.
    leases: Option<LeaseSql>,
    /// Gives back what a cursor's dead holder had claimed.
    unclaim: [String; 2],
}

/// Entries that one `prune` deletes where its filter does not say.
const PRUNE_ENTRIES: u64 = limits::BATCH_ENTRIES_MAX as u64;

impl SqliteStore {
    fn run<'a, R: Send + 'static>(
        &'a self,
        job: impl FnOnce(&mut Desk, Timestamp) -> rusqlite::Result<R> + Send + 'static,
    ) -> BoxFuture<'a, Result<R, SourceError>> {
        let clock = Arc::clone(&self.clock);
        Box::pin(self.worker.run(move |desk| {
            let now = clock.now();
            // One that cannot be opened leaves the old desk, whose file is looked at again.
            if desk.file.is_replaced(now) {
                let path = desk.config.path.clone();
                *desk = Desk::open(&desk.config, now).map_err(|fault| not_yet(&path, fault))?;
            }
            job(desk, now).map_err(|error| source_error(&desk.config.place(), error))
        }))
    }
}

impl Store for SqliteStore {
    fn depth(&self) -> BoxFuture<'_, Result<Depth, SourceError>> {
        self.run(Desk::depth)
    }

    fn list<'a>(&'a self, filter: &'a Filter) -> BoxFuture<'a, Result<Vec<Listed>, SourceError>> {
        let filter = filter.clone();
        self.run(move |desk, now| desk.list(now, &filter))
    }

    fn show<'a>(&'a self, id: &'a EntryId) -> BoxFuture<'a, Result<Option<Shown>, SourceError>> {
        let id = id.clone();
        self.run(move |desk, now| {
            desk.view.show(&desk.connection, &desk.view.standing(&desk.connection, now)?, &id)
        })
    }

    fn revive<'a>(&'a self, filter: &'a Filter, dry_run: bool) -> BoxFuture<'a, Result<u64, SourceError>> {
        let filter = filter.clone();
        self.run(move |desk, now| desk.verb(now, Verb::Revive, &filter, "", dry_run))
    }

    fn bury<'a>(
        &'a self,
        filter: &'a Filter,
        reason: &'a str,
        dry_run: bool,
    ) -> BoxFuture<'a, Result<u64, SourceError>> {
        let (filter, reason) = (filter.clone(), shortened(reason));
        self.run(move |desk, now| desk.verb(now, Verb::Bury, &filter, &reason, dry_run))
    }

    fn prune<'a>(&'a self, filter: &'a Filter, dry_run: bool) -> BoxFuture<'a, Result<u64, SourceError>> {
        let batch = filter.limit.unwrap_or(PRUNE_ENTRIES).min(PRUNE_ENTRIES);
        let limit = if dry_run { filter.limit } else { Some(batch) };
        let filter = Filter { limit, ..filter.clone() };
        self.run(move |desk, now| desk.verb(now, Verb::Prune, &filter, "", dry_run))
    }

    fn reap(&self) -> BoxFuture<'_, Result<u64, SourceError>> {
        self.run(Desk::reap)
    }

    fn take_turn<'a>(
        &'a self,
        job: &'a str,
        at_most: Duration,
    ) -> BoxFuture<'a, Result<Option<Turn>, SourceError>> {
        let job = job.to_owned();
        self.run(move |desk, now| desk.jobs.take(&desk.connection, now, &job, at_most))
    }

    fn end_turn<'a>(&'a self, turn: Turn, next: Duration) -> BoxFuture<'a, Result<(), SourceError>> {
        self.run(move |desk, now| desk.jobs.end(&desk.connection, now, &turn, next))
    }

    fn report<'a>(&'a self, report: &'a Report) -> BoxFuture<'a, Result<(), SourceError>> {
        let report = report.clone();
        self.run(move |desk, now| desk.reports.put(&mut desk.connection, now, &report))
    }

    fn reports(&self) -> BoxFuture<'_, Result<Vec<Reported>, SourceError>> {
        self.run(|desk, now| desk.reports.read(&desk.connection, now))
    }
}

#[derive(Clone, Copy)]
enum Verb {
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
    fn open(config: &Config, now: Timestamp) -> Result<Self, Fault> {
        let file = OpenFile::new(&config.path, now);
        let connection = open(config)?;
        let table = inspect(&connection, config)?;
        Ok(Self::new(file, connection, config, table.id_counts(&config.layout)))
    }

    fn new(file: OpenFile, connection: Connection, config: &Config, id_counts: bool) -> Self {
        let (layout, names) = (&config.layout, Names::new(&config.layout));
        let words = layout.status.as_ref().filter(|_| layout.way != Way::Cursor);
        Self {
            file,
            connection,
            view: View::new(layout, &names, id_counts),
            depth: DepthSql::new(layout, &names, id_counts),
            by_time: !id_counts && layout.columns.time.as_ref().is_some_and(|time| time.name().is_some()),
            jobs: Jobs::new(&names, layout.table.as_str(), &config.holder),
            reports: Reports::new(&names, layout.table.as_str()),
            leases: words.map(|words| LeaseSql::new(layout, &names, words, id_counts)),
            unclaim: [
                format!("delete from {} where outbox = ?1", names.claims),
                format!(
                    "update {} set claimed = position, returned = '[]' where outbox = ?1 and claimed > position",
                    names.position
                ),
            ],
            config: config.clone(),
        }
    }

    fn depth(&mut self, now: Timestamp) -> rusqlite::Result<Depth> {
        // One snapshot: what moves from state to state while it is counted is counted once.
        let transaction = self.connection.transaction()?;
        let standing = self.view.standing(&transaction, now)?;
        let layout = &self.config.layout;
        let counter = Counter {
            connection: &transaction,
            view: &self.view,
            sql: &self.depth,
            standing: &standing,
            is_cursor: layout.way == Way::Cursor,
            keeps_order: self.config.keeps_order(),
            holds_dead: layout.on_dead == OnDead::Hold,
            by_time: self.by_time,
            leases: self.leases.as_ref(),
        };
        counter.depth()
    }

    fn list(&self, now: Timestamp, filter: &Filter) -> rusqlite::Result<Vec<Listed>> {
        let mut found = Vec::new();
        let standing = self.view.standing(&self.connection, now)?;
        self.view.each(&self.connection, &standing, filter, |listed| found.push(listed))?;
        Ok(found)
    }

    /// Chooses by the same query that a list shows, then changes all of it, in one transaction.
    fn verb(
        &mut self,
        now: Timestamp,
        verb: Verb,
        filter: &Filter,
        reason: &str,
        dry_run: bool,
    ) -> rusqlite::Result<u64> {
        let behavior = if dry_run { TransactionBehavior::Deferred } else { TransactionBehavior::Immediate };
        let transaction = self.connection.transaction_with_behavior(behavior)?;
        let standing = self.view.standing(&transaction, now)?;
        let (mut chosen, mut count) = (Vec::new(), 0);
        for filter in filter.for_verb(verb.of()) {
            self.view.each(&transaction, &standing, &filter, |listed| {
                count += 1;
                // A dry run may count more than there is room for.
                if !dry_run {
                    chosen.push(listed.id);
                }
            })?;
        }
        if chosen.is_empty() {
            return Ok(count);
        }
        let (ids, verbs) = (ids::json(&chosen), &self.view.sql.verbs);
        let statements = match verb {
            Verb::Revive => &verbs.revive,
            Verb::Bury => &verbs.bury,
            Verb::Prune => &verbs.prune,
        };
        for sql in statements {
            execute(&transaction, sql, &[&self.view.outbox, &ids, &reason])?;
        }
        if !matches!(verb, Verb::Prune) {
            execute(&transaction, &verbs.bump_epoch, &[&self.view.outbox])?;
        }
        transaction.commit()?;
        Ok(count)
    }

    fn reap(&mut self, now: Timestamp) -> rusqlite::Result<u64> {
        let Some(sql) = &self.leases else { return self.reap_cursor(now) };
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let reaper = Reaper { connection: &transaction, outbox: &self.view.outbox, sql };
        let mut dead = reaper.expired(now)?;
        if let Some(foreign) = &sql.foreign {
            let leased_at = self.config.layout.columns.leased_at.as_ref().map_or(TimeForm::Text, form);
            let rows = all(&transaction, foreign, &[&self.view.outbox], |row| {
                Ok((ids::id(row.get_ref(0)?), self.view.decoder.time(value(row, 1)?, leased_at)))
            })?;
            let over = |since: Option<Timestamp>| {
                since.is_none_or(|since| {
                    since.saturating_add(self.config.lease_ttl).is_ok_and(|until| until <= now)
                })
            };
            dead.extend(rows.into_iter().filter(|(_, since)| over(*since)).filter_map(|(id, _)| id));
        }
        let reaped = reaper.give_back(&dead)?;
        transaction.commit()?;
        Ok(reaped as u64)
    }

    /// One lease covers all that a cursor's holder has: when it has run out, nothing of it is held.
    fn reap_cursor(&mut self, now: Timestamp) -> rusqlite::Result<u64> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut standing = self.view.standing(&transaction, now)?;
        if standing.holder.is_some() {
            return Ok(0);
        }
        standing.holder = Some(String::new());
        let held = Filter { state: Some(State::Leased), ..Filter::default() };
        let mut reaped = 0;
        self.view.each(&transaction, &standing, &held, |_| reaped += 1)?;
        for sql in &self.unclaim {
            execute(&transaction, sql, &[&self.view.outbox])?;
        }
        transaction.commit()?;
        Ok(reaped)
    }
}
