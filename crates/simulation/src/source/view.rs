//! An entry's state, from wherever its way of claiming keeps it.

use std::collections::{BTreeMap, HashMap, HashSet};

use jiff::Timestamp;
use postrider_core::cursor::{Exception, Shelf};
use postrider_core::route::{Kind, matches};
use postrider_core::store::{Depth, Filter};
use postrider_core::{Key, State, Text};

use super::database::{Database, Row, later};
use super::{OutboxSettings, Way};

/// What an operator sees of one entry.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) id: i64,
    pub(super) key: Option<Key>,
    pub(super) state: State,
    pub(super) retries: u32,
    /// Set while it waits.
    pub(super) not_before: Option<Timestamp>,
    pub(super) error: Option<Text>,
    pub(super) holder: Option<Text>,
    /// Whether its route is held.
    pub(super) parked: bool,
}

/// Every committed entry, oldest first.
pub(super) fn views(database: &Database, settings: &OutboxSettings, now: Timestamp) -> Vec<View> {
    let exceptions: HashMap<i64, &Exception> =
        database.saved.exceptions.iter().map(|exception| (exception.id, exception)).collect();
    let numbers = database.numbers_of(settings.way);
    let committed = database.rows.iter().filter(|(_, row)| row.committed);
    committed
        .map(|(id, row)| {
            let key = settings.ordered.then(|| row.key.clone());
            let view = match numbers.get(id) {
                Some(number) => followed(database, *number, row, exceptions.get(number).copied()),
                None => claimed(database, *id, row, settings, now),
            };
            let not_before = view.not_before.filter(|due| *due > now);
            View { id: *id, key, not_before, ..view }
        })
        .collect()
}

/// Those that a filter chooses.
pub(super) fn chosen(
    database: &Database,
    settings: &OutboxSettings,
    now: Timestamp,
    filter: &Filter,
) -> Vec<View> {
    let most = filter.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let all = views(database, settings, now).into_iter();
    all.filter(|view| fits(view, &database.rows[&view.id], now, filter)).take(most).collect()
}

fn fits(view: &View, row: &Row, now: Timestamp, filter: &Filter) -> bool {
    let time = row.envelope.time;
    (filter.ids.is_empty() || filter.ids.contains(&view.id.into()))
        && filter.event_type.as_ref().is_none_or(|pattern| matches(pattern, &row.envelope.event_type))
        && filter.is_of_key(Some(&row.key))
        && filter.state.is_none_or(|state| view.state == state)
        && filter.older_than.is_none_or(|span| later(time, span) < now)
        && filter.newer_than.is_none_or(|span| later(time, span) > now)
}

/// How much there is in each state.
pub(super) fn depth(database: &Database, settings: &OutboxSettings, now: Timestamp) -> Depth {
    let mut depth = Depth::default();
    let mut held: HashSet<Key> = HashSet::new();
    let mut behind: BTreeMap<Key, u64> = BTreeMap::new();
    for view in views(database, settings, now) {
        let blocked = view.key.as_ref().filter(|key| held.contains(key));
        let time = database.rows[&view.id].envelope.time;
        if view.state != State::Published {
            depth.oldest = Some(depth.oldest.map_or(time, |oldest| oldest.min(time)));
        }
        match view.state {
            State::Published => depth.published += 1,
            State::Leased => depth.leased += 1,
            State::Dead => depth.dead += 1,
            State::Unknown => depth.unknown += 1,
            State::Pending if view.not_before.is_some() => depth.waiting += 1,
            State::Pending if view.parked || blocked.is_some() => depth.parked += 1,
            State::Pending => depth.pending += 1,
        }
        if let Some(key) = blocked.filter(|_| view.state != State::Published) {
            *behind.entry(key.clone()).or_default() += 1;
        }
        if view.not_before.is_some() || (view.state == State::Dead && settings.hold_dead) {
            held.extend(view.key);
        }
    }
    let is_committed = |id: &i64| database.rows.get(id).is_some_and(|row| row.committed);
    let gaps = database.saved.gaps.iter().cloned().flatten();
    depth.gaps_open = gaps.filter(|id| !is_committed(id)).count() as u64;
    depth.holder = database.holder(now);
    depth.culprit = behind.into_iter().max_by_key(|(_, count)| *count);
    depth
}

/// By position, from what is kept beside it.
fn followed(database: &Database, number: i64, row: &Row, exception: Option<&Exception>) -> View {
    let saved = &database.saved;
    let kind = Kind::of(&row.envelope);
    let parked = saved.ranges.iter().any(|range| range.kind == kind && range.first <= number);
    let in_gap = saved.gaps.iter().any(|gap| gap.contains(&number));
    let untouched = number > saved.position || in_gap || parked;
    let (state, not_before) = match exception.map(|exception| exception.shelf) {
        Some(Shelf::Dead) => (State::Dead, None),
        Some(Shelf::Waiting { due }) => (State::Pending, Some(due)),
        Some(Shelf::Parked) => (State::Pending, None),
        None if untouched => (State::Pending, None),
        None => (State::Published, None),
    };
    View {
        id: number,
        key: None,
        state,
        retries: exception.map_or(row.status.retries, |exception| exception.retries),
        not_before,
        error: exception.and_then(|exception| exception.reason.clone()),
        holder: None,
        parked: parked && exception.is_none(),
    }
}

/// By its status columns.
fn claimed(database: &Database, id: i64, row: &Row, settings: &OutboxSettings, now: Timestamp) -> View {
    let status = &row.status;
    let abandoned = database.is_abandoned(row, settings.ordered, now);
    let state = if abandoned { State::Pending } else { status.state };
    let holder = status.lease.filter(|_| !abandoned).and_then(|lease| database.name(lease.session));
    View {
        id,
        key: None,
        state,
        retries: status.retries,
        not_before: status.not_before.filter(|_| status.state == State::Pending),
        error: status.error.clone(),
        holder: holder.map(Text::from),
        parked: false,
    }
}

impl Database {
    /// The number that a way follows each row by; empty where it goes by status.
    fn numbers_of(&self, way: Way) -> HashMap<i64, i64> {
        match way {
            Way::Cursor => self.rows.keys().map(|id| (*id, *id)).collect(),
            Way::Log => self.log.iter().copied().zip(1..).collect(),
            Way::Lease | Way::Hold => HashMap::new(),
        }
    }

    /// The number that a way follows a row by.
    pub(super) fn number_of(&self, id: i64, way: Way) -> i64 {
        self.numbers_of(way).get(&id).copied().unwrap_or(id)
    }
}
