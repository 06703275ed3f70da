//! The store: the same database seen by chores and operators.

mod depth;
mod desk;
mod ids;
mod jobs;
mod partitions;
mod reap;
mod reports;
mod view;

use std::sync::Arc;
use std::time::Duration;

use postrider_core::clock::BoxFuture;
use postrider_core::report::{Report, Reported};
use postrider_core::source::SourceError;
use postrider_core::store::{Depth, Filter, Listed, Shown, Store, Turn};
use postrider_core::{EntryId, Fault, limits};
use tokio::sync::{Mutex, MutexGuard};
use tokio_postgres::error::SqlState;

use crate::check;
use crate::config::Config;
use crate::fault::{Error, fault, source_error};
use crate::migrate::require_side;
use crate::session::{Durable, Session};
use crate::sql::Names;
use crate::table::inspect;
use desk::{Desk, Verb};

/// Opens an outbox for chores and operators.
///
/// # Errors
/// When the database cannot be reached, the table does not fit its layout, or Postrider's own tables are missing.
pub async fn open_store(config: &Config) -> Result<PostgresStore, Fault> {
    config.validate()?;
    let config = Arc::new(config.clone());
    let desk = open(&config).await?;
    Ok(PostgresStore { config, desk: Mutex::new(desk) })
}

/// A PostgreSQL outbox as chores and operators see it.
pub struct PostgresStore {
    config: Arc<Config>,
    /// One thing is done after the other: each is a transaction of its own on the one connection.
    desk: Mutex<Desk>,
}

async fn open(config: &Arc<Config>) -> Result<Desk, Fault> {
    let session = Session::open(config, Durable::Now).await?;
    let table = inspect(&session, config).await?;
    require_side(&session, config).await?;
    Desk::new(config, session, &table).await.map_err(|error| fault(&config.place(), error))
}

impl PostgresStore {
    /// The desk, on a connection that works. The table may be another one behind a new one: it is looked at again.
    async fn desk(&self) -> Result<MutexGuard<'_, Desk>, SourceError> {
        let mut desk = self.desk.lock().await;
        if !desk.session.is_good() {
            *desk = open(&self.config).await.map_err(SourceError::Unreachable)?;
        }
        Ok(desk)
    }

    fn answer<T>(&self, answer: Result<T, Error>) -> Result<T, SourceError> {
        answer.map_err(|error| source_error(&self.config.place(), error))
    }

    /// A relay can do without this right, so that `check` does not always name it.
    async fn may_not_delete(&self, error: Error) -> Fault {
        let asked = async { check::user(&Session::open(&self.config, Durable::Now).await.ok()?).await.ok() };
        let user = asked.await.unwrap_or_default();
        let table = Names::new(&self.config.layout).table;
        Fault::new(
            self.config.place(),
            format!("user {user} may not delete from {table}"),
            format!("grant delete on {table} to {user};"),
        )
        .caused_by(error)
    }

    fn verb<'a>(
        &'a self,
        verb: Verb,
        filter: Filter,
        reason: &'a str,
        dry_run: bool,
    ) -> BoxFuture<'a, Result<u64, SourceError>> {
        Box::pin(async move { self.answer(self.desk().await?.verb(verb, &filter, reason, dry_run).await) })
    }
}

/// Entries that one `prune` deletes where its filter does not say.
const PRUNE_ENTRIES: u64 = limits::BATCH_ENTRIES_MAX as u64;

impl Store for PostgresStore {
    fn depth(&self) -> BoxFuture<'_, Result<Depth, SourceError>> {
        Box::pin(async move { self.answer(self.desk().await?.depth().await) })
    }

    fn list<'a>(&'a self, filter: &'a Filter) -> BoxFuture<'a, Result<Vec<Listed>, SourceError>> {
        Box::pin(async move { self.answer(self.desk().await?.list(filter).await) })
    }

    fn show<'a>(&'a self, id: &'a EntryId) -> BoxFuture<'a, Result<Option<Shown>, SourceError>> {
        Box::pin(async move { self.answer(self.desk().await?.show(id).await) })
    }

    fn revive<'a>(&'a self, filter: &'a Filter, dry_run: bool) -> BoxFuture<'a, Result<u64, SourceError>> {
        self.verb(Verb::Revive, filter.clone(), "", dry_run)
    }

    fn bury<'a>(
        &'a self,
        filter: &'a Filter,
        reason: &'a str,
        dry_run: bool,
    ) -> BoxFuture<'a, Result<u64, SourceError>> {
        self.verb(Verb::Bury, filter.clone(), reason, dry_run)
    }

    fn prune<'a>(&'a self, filter: &'a Filter, dry_run: bool) -> BoxFuture<'a, Result<u64, SourceError>> {
        if dry_run {
            return self.verb(Verb::Prune, filter.clone(), "", true);
        }
        let limit = Some(filter.limit.unwrap_or(PRUNE_ENTRIES).min(PRUNE_ENTRIES));
        let batch = Filter { limit, ..filter.clone() };
        Box::pin(async move {
            let desk = self.desk().await?;
            match desk.prune(filter, &batch).await {
                Err(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {
                    Err(SourceError::Unfit(self.may_not_delete(error).await))
                }
                answer => self.answer(answer),
            }
        })
    }

    fn reap(&self) -> BoxFuture<'_, Result<u64, SourceError>> {
        Box::pin(async move {
            let desk = self.desk().await?;
            self.answer(desk.create_partitions().await)?;
            self.answer(desk.reap().await)
        })
    }

    fn take_turn<'a>(
        &'a self,
        job: &'a str,
        at_most: Duration,
    ) -> BoxFuture<'a, Result<Option<Turn>, SourceError>> {
        Box::pin(async move {
            let desk = self.desk().await?;
            self.answer(desk.jobs.take(&desk.session, job, at_most).await)
        })
    }

    fn end_turn<'a>(&'a self, turn: Turn, next: Duration) -> BoxFuture<'a, Result<(), SourceError>> {
        Box::pin(async move {
            let desk = self.desk().await?;
            self.answer(desk.jobs.end(&desk.session, &turn, next).await)
        })
    }

    fn report<'a>(&'a self, report: &'a Report) -> BoxFuture<'a, Result<(), SourceError>> {
        Box::pin(async move {
            let desk = self.desk().await?;
            self.answer(desk.reports.put(&desk.session, report).await)
        })
    }

    fn reports(&self) -> BoxFuture<'_, Result<Vec<Reported>, SourceError>> {
        Box::pin(async move {
            let desk = self.desk().await?;
            self.answer(desk.reports.read(&desk.session).await)
        })
    }
}
