//! The cursor and the log: rows are followed by a number, and what did not go straight through is kept beside it.

use std::collections::HashSet;
use std::sync::PoisonError;

use jiff::Timestamp;
use postrider_core::cursor::{Cursor, Offer, Settings};
use postrider_core::gaps::Owner;
use postrider_core::source::{Ask, Claim, Claimed, Idle, SourceError};
use postrider_core::{Entry, Settlement};

use super::database::Database;
use super::{Flaw, OutboxSettings, SimHold, SimSource, Way};

/// What a holder remembers, for as long as its fence stands.
#[derive(Debug)]
pub(super) struct Follower {
    fence: i64,
    cursor: Cursor,
    epoch: u64,
    /// A claim whose reply has not arrived: if it never does, nobody will settle it.
    unconfirmed: Option<u64>,
}

impl Follower {
    /// Looks at what an operator's verb has changed since.
    fn look_at_verbs(&mut self, database: &Database) {
        if self.epoch != database.epoch {
            self.epoch = database.epoch;
            self.cursor.reload(database.saved.exceptions.clone());
        }
    }

    /// The last claim's reply has arrived.
    pub(super) fn confirm(&mut self) {
        self.unconfirmed = None;
    }
}

/// Rows that one scan looks at; small, so that several are needed.
const PAGE_ROWS: usize = 16;

pub(super) fn claim(
    source: &SimSource,
    database: &mut Database,
    now: Timestamp,
    ask: &Ask,
) -> Result<Claimed<SimHold>, SourceError> {
    let settings = source.outbox.settings;
    let Some(fence) = database.take_lease(source.session, now, settings.lease_ttl) else {
        return Ok(Claimed::Standby);
    };
    let mut memory = source.follower.lock().unwrap_or_else(PoisonError::into_inner);
    if memory.as_ref().is_none_or(|follower| follower.fence != fence) {
        *memory = Some(Follower {
            fence,
            cursor: Cursor::load(database.saved.clone(), cursor_settings(&settings)),
            epoch: database.epoch,
            unconfirmed: None,
        });
    }
    let Some(follower) = memory.as_mut() else { return Ok(Claimed::Standby) };
    follower.look_at_verbs(database);
    let Follower { cursor, unconfirmed, .. } = follower;
    if let Some(lost) = unconfirmed.take() {
        cursor.release(lost);
    }
    let token = cursor.open_claim();
    *unconfirmed = Some(token);
    let check = cursor.look().map(|look| cursor.check(look, owners(database, &settings)));
    let mut gate = ask.gate();
    let reading = cursor.reading(now, PAGE_ROWS, &gate, check);
    let rows = read(database, &settings, &reading);
    let complete_page = rows.len() < PAGE_ROWS;
    let (mut entries, mut ids, mut bytes): (Vec<Entry>, Vec<i64>, usize) = (Vec::new(), Vec::new(), 0);
    let mut scan = cursor.scan(token, reading, &mut gate);
    let (mut stopped, mut unread) = (false, false);
    for (number, entry) in rows {
        let full = entries.len() >= ask.entries_max
            || (!entries.is_empty() && bytes + entry.bytes() > ask.bytes_max);
        if full {
            stopped = true;
            break;
        }
        match scan.offer(number, &entry) {
            Offer::Take { retries } => {
                bytes += entry.bytes();
                ids.push(number);
                entries.push(Entry { retries, ..entry });
            }
            Offer::Pass => {}
            Offer::Stop => {
                unread = true;
                break;
            }
        }
    }
    let scanned = scan.finish(complete_page && !stopped && !unread);
    let more = !scanned.full && !unread && (stopped || !complete_page);
    if entries.is_empty() {
        // Rows that were parked while nothing was handed out.
        persist(cursor, database, &settings);
        return Ok(Claimed::Nothing(Idle { more, ..cursor.idle(now) }));
    }
    for id in &ids {
        database.hand(*id, source.session, now, true);
    }
    let hold = SimHold { fence, token, ids, uncommitted: Vec::new(), settled: HashSet::new() };
    Ok(Claimed::Batch(Claim { hold, entries, more }))
}

pub(super) fn settle(
    source: &SimSource,
    database: &mut Database,
    now: Timestamp,
    hold: &SimHold,
    settlements: &[(usize, Settlement)],
) -> Result<(), SourceError> {
    let settings = source.outbox.settings;
    if !database.stands(hold.fence) && settings.flaw != Some(Flaw::StaleSettle) {
        return Err(SourceError::Fenced);
    }
    let mut memory = source.follower.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(follower) = memory.as_mut().filter(|follower| follower.fence == hold.fence) else {
        return Err(SourceError::Fenced);
    };
    follower.look_at_verbs(database);
    database.wrote(source.session, hold.fence);
    let settled = settlements.iter().map(|(index, settlement)| (hold.ids[*index], settlement));
    follower.cursor.settle(hold.token, now, settled);
    persist(&mut follower.cursor, database, &settings);
    for (index, _) in settlements {
        database.unhand(hold.ids[*index], source.session);
    }
    Ok(())
}

pub(super) fn release(
    source: &SimSource,
    database: &mut Database,
    _: Timestamp,
    hold: &mut SimHold,
) -> Result<(), SourceError> {
    let settings = source.outbox.settings;
    let mut memory = source.follower.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(follower) = memory.as_mut().filter(|follower| follower.fence == hold.fence) else {
        return Ok(());
    };
    if settings.flaw != Some(Flaw::ReleaseForgotten) {
        follower.cursor.release(hold.token);
    }
    for id in &hold.ids {
        database.unhand(*id, source.session);
    }
    Ok(())
}

fn cursor_settings(settings: &OutboxSettings) -> Settings {
    let gaps = settings.way == Way::Cursor && settings.flaw != Some(Flaw::GapsForgotten);
    let retry_runs = settings.retry_runs;
    Settings { hold_dead: settings.hold_dead, gaps, retry_runs, ..Settings::default() }
}

fn owners(database: &Database, settings: &OutboxSettings) -> Vec<Owner> {
    if settings.flaw == Some(Flaw::GapsClosedTooEarly) {
        return Vec::new();
    }
    let owner = |transaction: &u64| Owner { name: "transaction".into(), epoch: *transaction };
    database.transactions.iter().map(owner).collect()
}

/// One statement: the union of all parts of a reading, in order, each row once.
fn read(
    database: &Database,
    settings: &OutboxSettings,
    reading: &postrider_core::cursor::Reading,
) -> Vec<(i64, Entry)> {
    let wanted = |number: i64, entry: &Entry| {
        number > reading.after
            || reading.ids.contains(&number)
            || reading.gaps.iter().any(|gap| gap.contains(&number))
            || reading.ranges.iter().any(|range| {
                (range.first..=range.last).contains(&number)
                    && range.kind == postrider_core::route::Kind::of(&entry.envelope)
            })
    };
    let numbered: Vec<(i64, i64)> = match settings.way {
        Way::Log => (1..).zip(database.log.iter().copied()).collect(),
        _ => database.rows.keys().map(|id| (*id, *id)).collect(),
    };
    numbered
        .into_iter()
        .filter_map(|(number, id)| Some((number, database.entry(id, settings.ordered)?)))
        .filter(|(number, entry)| wanted(*number, entry))
        .take(reading.limit)
        .collect()
}

fn persist(cursor: &mut Cursor, database: &mut Database, settings: &OutboxSettings) {
    let Some(mut write) = cursor.write() else { return };
    if settings.flaw == Some(Flaw::RetryOvertakes) {
        write.upserts.iter_mut().for_each(|exception| exception.key = None);
    }
    write.apply(&mut database.saved);
    if settings.flaw == Some(Flaw::GapsNotPersisted) {
        database.saved.gaps.clear();
    }
    cursor.applied(write);
}
