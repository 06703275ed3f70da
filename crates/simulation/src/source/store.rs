//! The same database seen by chores and operators.

use std::time::Duration;

use jiff::Timestamp;
use postrider_core::clock::BoxFuture;
use postrider_core::cursor::{Exception, Shelf};
use postrider_core::limits::REPORT_KEPT;
use postrider_core::report::{Report, Reported};
use postrider_core::source::SourceError;
use postrider_core::store::{Depth, Filter, Listed, Shown, Store, Turn};
use postrider_core::{EntryId, State, Text};

use super::database::{Database, later};
use super::view::{View, chosen, views};
use super::{Outbox, OutboxSettings, Way};

/// Rows that one prune deletes when it is not told how many.
const PRUNE_ROWS: u64 = 1_000;

/// An operator's view of an [`Outbox`].
#[derive(Clone)]
pub struct SimStore {
    outbox: Outbox,
}

impl SimStore {
    pub(super) fn new(outbox: &Outbox) -> Self {
        Self { outbox: outbox.clone() }
    }

    fn ask<'a, T: Send + 'a>(
        &'a self,
        work: impl FnOnce(&mut Database, Timestamp, &OutboxSettings) -> T + Send + 'a,
    ) -> BoxFuture<'a, Result<T, SourceError>> {
        let settings = self.outbox.settings;
        Box::pin(async move { self.outbox.call(|database, now| Ok(work(database, now, &settings))).await })
    }

    /// Does something to the entries in a state that match, or only counts them.
    fn verb<'a>(
        &'a self,
        filter: Filter,
        dry_run: bool,
        work: impl Fn(&mut Database, i64, &OutboxSettings) + Send + 'a,
    ) -> BoxFuture<'a, Result<u64, SourceError>> {
        self.ask(move |database, now, settings| {
            let ids: Vec<i64> = chosen(database, settings, now, &filter).iter().map(|view| view.id).collect();
            if !dry_run {
                ids.iter().for_each(|id| work(database, *id, settings));
                database.epoch += 1;
            }
            ids.len() as u64
        })
    }
}

impl Store for SimStore {
    fn depth(&self) -> BoxFuture<'_, Result<Depth, SourceError>> {
        self.ask(|database, now, settings| super::view::depth(database, settings, now))
    }

    fn list<'a>(&'a self, filter: &'a Filter) -> BoxFuture<'a, Result<Vec<Listed>, SourceError>> {
        self.ask(|database, now, settings| {
            chosen(database, settings, now, filter).iter().map(|view| listed(database, view)).collect()
        })
    }

    fn show<'a>(&'a self, id: &'a EntryId) -> BoxFuture<'a, Result<Option<Shown>, SourceError>> {
        self.ask(|database, now, settings| {
            let mut views = views(database, settings, now);
            let by_id = views.iter().position(|view| Some(view.id) == id.int());
            let named = |view: &View| *database.rows[&view.id].envelope.id == *id.to_string();
            let view = views.swap_remove(by_id.or_else(|| views.iter().position(named))?);
            let entry = database.entry(view.id, settings.ordered)?;
            let (listed, holder) = (listed(database, &view), view.holder);
            Some(Shown { listed, entry, holder, published_at: None })
        })
    }

    fn revive<'a>(&'a self, filter: &'a Filter, dry_run: bool) -> BoxFuture<'a, Result<u64, SourceError>> {
        let dead = Filter { state: Some(State::Dead), ..filter.clone() };
        if filter.state.is_some_and(|state| state != State::Dead) {
            return none();
        }
        self.verb(dead, dry_run, |database, id, settings| put(database, id, settings, Shelf::Parked, None))
    }

    fn bury<'a>(
        &'a self,
        filter: &'a Filter,
        reason: &'a str,
        dry_run: bool,
    ) -> BoxFuture<'a, Result<u64, SourceError>> {
        let pending = Filter { state: Some(State::Pending), ..filter.clone() };
        if filter.state.is_some_and(|state| state != State::Pending) {
            return none();
        }
        self.verb(pending, dry_run, move |database, id, settings| {
            put(database, id, settings, Shelf::Dead, Some(Text::from(reason)));
        })
    }

    fn prune<'a>(&'a self, filter: &'a Filter, dry_run: bool) -> BoxFuture<'a, Result<u64, SourceError>> {
        let limit = if dry_run { filter.limit } else { Some(filter.limit.unwrap_or(PRUNE_ROWS)) };
        let published = Filter { state: Some(State::Published), limit, ..filter.clone() };
        if filter.state.is_some_and(|state| state != State::Published) {
            return none();
        }
        self.verb(published, dry_run, |database, id, _| drop(database.rows.remove(&id)))
    }

    fn reap(&self) -> BoxFuture<'_, Result<u64, SourceError>> {
        self.ask(|database, now, settings| {
            let left: Vec<i64> = database.abandoned(settings.ordered, now).collect();
            for id in &left {
                let Some(row) = database.rows.get_mut(id) else { continue };
                row.status.state = State::Pending;
                row.status.lease = None;
            }
            left.len() as u64
        })
    }

    fn take_turn<'a>(
        &'a self,
        job: &'a str,
        at_most: Duration,
    ) -> BoxFuture<'a, Result<Option<Turn>, SourceError>> {
        self.ask(move |database, now, _| {
            let (fence, free_at) = database.turns.entry(job.to_owned()).or_insert((0, now));
            if *free_at > now {
                return None;
            }
            *fence += 1;
            *free_at = later(now, at_most);
            Some(Turn { job: job.to_owned(), fence: *fence })
        })
    }

    fn end_turn<'a>(&'a self, turn: Turn, next: Duration) -> BoxFuture<'a, Result<(), SourceError>> {
        self.ask(move |database, now, _| {
            if let Some((fence, free_at)) = database.turns.get_mut(&turn.job)
                && *fence == turn.fence
            {
                *free_at = later(now, next);
            }
        })
    }

    fn report<'a>(&'a self, report: &'a Report) -> BoxFuture<'a, Result<(), SourceError>> {
        self.ask(move |database, now, _| {
            database.reports.insert(report.holder.clone(), (now, report.clone()));
            database.reports.retain(|_, (at, _)| later(*at, REPORT_KEPT) >= now);
        })
    }

    fn reports(&self) -> BoxFuture<'_, Result<Vec<Reported>, SourceError>> {
        self.ask(|database, now, _| {
            let age = |at: &Timestamp| Duration::try_from(now.duration_since(*at)).unwrap_or_default();
            let reports = database.reports.values();
            let mut found: Vec<Reported> =
                reports.map(|(at, report)| Reported { report: report.clone(), age: age(at) }).collect();
            found.retain(|reported| reported.age <= REPORT_KEPT);
            found.sort_by_key(|reported| reported.age);
            found
        })
    }
}

fn none<'a>() -> BoxFuture<'a, Result<u64, SourceError>> {
    Box::pin(std::future::ready(Ok(0)))
}

/// Makes an entry dead, or pending with no retries counted.
fn put(database: &mut Database, id: i64, settings: &OutboxSettings, shelf: Shelf, reason: Option<Text>) {
    let revived = shelf != Shelf::Dead;
    if matches!(settings.way, Way::Lease | Way::Hold) {
        let Some(row) = database.rows.get_mut(&id) else { return };
        row.status.state = if revived { State::Pending } else { State::Dead };
        row.status.retries = if revived { 0 } else { row.status.retries };
        row.status.not_before = None;
        row.status.error = reason;
        return;
    }
    let number = database.number_of(id, settings.way);
    let key = database.rows.get(&id).filter(|_| settings.ordered).map(|row| row.key.clone());
    let exceptions = &mut database.saved.exceptions;
    let before = exceptions.iter().position(|exception| exception.id == number);
    let before = before.map(|at| exceptions.remove(at));
    let retries = before.filter(|_| !revived).map_or(0, |exception| exception.retries);
    exceptions.push(Exception { id: number, key, shelf, retries, reason });
}

fn listed(database: &Database, view: &View) -> Listed {
    let row = &database.rows[&view.id];
    Listed {
        id: EntryId::Int(view.id),
        event_id: row.envelope.id.clone(),
        event_type: row.envelope.event_type.clone(),
        key: view.key.clone(),
        state: view.state,
        retries: view.retries,
        time: row.envelope.known_time(),
        not_before: view.not_before,
        error: view.error.clone(),
    }
}
