//! The store: the same database seen by chores and operators.

mod depth;
mod desk;
mod jobs;
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
use tokio::sync::Mutex;

use crate::config::Config;
use crate::fault::{Error, classed, source_error};
use crate::migrate::require_side;
use crate::session::Session;
use crate::table::inspect;
use desk::{Desk, Verb};

/// Opens an outbox for chores and operators.
///
/// # Errors
/// When the database cannot be reached, the table does not fit its layout, or Postrider's own tables are missing.
pub async fn open_store(config: &Config) -> Result<MysqlStore, Fault> {
    config.validate()?;
    let config = Arc::new(config.clone());
    let desk = open(&config).await?;
    Ok(MysqlStore { config, desk: Mutex::new(desk) })
}

/// A MySQL or MariaDB outbox as chores and operators see it.
pub struct MysqlStore {
    config: Arc<Config>,
    /// One thing is done after the other: each is a transaction of its own on the one connection.
    desk: Mutex<Desk>,
}

async fn open(config: &Arc<Config>) -> Result<Desk, Fault> {
    let mut session = Session::open(config).await?;
    let table = inspect(&mut session, config).await?;
    require_side(&mut session, config).await?;
    Ok(Desk::new(config, session, &table))
}

/// Does something at the desk, on a connection that works. The table may be another one behind a new one: it is looked at
/// again. What somebody was in the way of is done once more.
macro_rules! at_the_desk {
    ($store:expr, |$desk:ident| $work:expr) => {
        Box::pin(async move {
            let mut $desk = $store.desk.lock().await;
            if !$desk.session.is_good() {
                *$desk = open(&$store.config).await.map_err(classed)?;
            }
            let mut tries = 0;
            loop {
                match $work.await {
                    Ok(answer) => return Ok(answer),
                    Err(error) => {
                        let again = $desk.session.again(error, &mut tries).await;
                        again.map_err(|error| $store.failed(error))?;
                    }
                }
            }
        })
    };
}

impl MysqlStore {
    fn failed(&self, error: Error) -> SourceError {
        source_error(&self.config.place(), error)
    }

    fn verb<'a>(
        &'a self,
        verb: Verb,
        filter: Filter,
        reason: &'a str,
        dry_run: bool,
    ) -> BoxFuture<'a, Result<u64, SourceError>> {
        at_the_desk!(self, |desk| desk.verb(verb, &filter, reason, dry_run))
    }
}

/// Entries that one `prune` deletes where its filter does not say.
const PRUNE_ENTRIES: u64 = limits::BATCH_ENTRIES_MAX as u64;

impl Store for MysqlStore {
    fn depth(&self) -> BoxFuture<'_, Result<Depth, SourceError>> {
        at_the_desk!(self, |desk| desk.depth())
    }

    fn list<'a>(&'a self, filter: &'a Filter) -> BoxFuture<'a, Result<Vec<Listed>, SourceError>> {
        at_the_desk!(self, |desk| desk.list(filter))
    }

    fn show<'a>(&'a self, id: &'a EntryId) -> BoxFuture<'a, Result<Option<Shown>, SourceError>> {
        at_the_desk!(self, |desk| desk.show(id))
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
        at_the_desk!(self, |desk| desk.prune(filter, &batch))
    }

    fn reap(&self) -> BoxFuture<'_, Result<u64, SourceError>> {
        at_the_desk!(self, |desk| desk.reap())
    }

    fn take_turn<'a>(
        &'a self,
        job: &'a str,
        at_most: Duration,
    ) -> BoxFuture<'a, Result<Option<Turn>, SourceError>> {
        at_the_desk!(self, |desk| desk.take_turn(job, at_most))
    }

    fn end_turn<'a>(&'a self, turn: Turn, next: Duration) -> BoxFuture<'a, Result<(), SourceError>> {
        at_the_desk!(self, |desk| desk.end_turn(&turn, next))
    }

    fn report<'a>(&'a self, report: &'a Report) -> BoxFuture<'a, Result<(), SourceError>> {
        at_the_desk!(self, |desk| desk.report(report))
    }

    fn reports(&self) -> BoxFuture<'_, Result<Vec<Reported>, SourceError>> {
        at_the_desk!(self, |desk| desk.reports())
    }
}
