//! The lease and the hold: rows are claimed by their status.

use std::collections::HashSet;

use jiff::Timestamp;
use postrider_core::source::{Ask, Claim, Claimed, Idle, SourceError};
use postrider_core::text::owned;
use postrider_core::{Entry, Key, Settlement, State};

use super::database::{Database, Row, RowLease, later};
use super::{Flaw, OutboxSettings, SimHold, SimSource, Way};

pub(super) fn claim(
    source: &SimSource,
    database: &mut Database,
    now: Timestamp,
    ask: &Ask,
) -> Result<Claimed<SimHold>, SourceError> {
    let settings = source.outbox.settings;
    let fence = if settings.ordered {
        match database.take_lease(source.session, now, settings.lease_ttl) {
            Some(fence) => fence,
            None => return Ok(Claimed::Standby),
        }
    } else {
        0
    };
    let token = database.number();
    let (mut entries, mut ids, mut bytes): (Vec<Entry>, Vec<i64>, usize) = (Vec::new(), Vec::new(), 0);
    let mut behind: HashSet<Key> = HashSet::new();
    let mut gate = ask.gate();
    let (mut more, mut due_in) = (false, None);
    for (id, row) in &database.rows {
        if !row.committed || row.status.state == State::Published {
            continue;
        }
        let free = is_free(row, source, fence, now, &settings);
        if row.status.state == State::Dead {
            behind.extend(settings.hold_dead.then(|| row.key.clone()));
            continue;
        }
        let due = row.status.not_before.is_none_or(|due| due <= now);
        if !due {
            let wait =
                row.status.not_before.map(|due| now.duration_until(due).try_into().unwrap_or_default());
            due_in = [due_in, wait].into_iter().flatten().min();
        }
        let mine = row.status.lease.is_some_and(|lease| lease.session == source.session);
        let held = settings.ordered && behind.contains(&row.key);
        if !free || !due || held {
            // What this holder has in hand holds nothing back: the relay decides what is in flight.
            let blocks = (!free && !mine) || (free && !due && settings.flaw != Some(Flaw::RetryOvertakes));
            behind.extend(blocks.then(|| row.key.clone()));
            continue;
        }
        let Some(entry) = database.entry(*id, settings.ordered) else { continue };
        if entries.len() >= ask.entries_max || (!entries.is_empty() && bytes + entry.bytes() > ask.bytes_max)
        {
            more = true;
            break;
        }
        if gate.pass(&entry).is_err() {
            behind.insert(row.key.clone());
            continue;
        }
        bytes += entry.bytes();
        ids.push(*id);
        entries.push(entry);
    }
    if entries.is_empty() {
        return Ok(Claimed::Nothing(Idle { due_in, ..Idle::default() }));
    }
    let expires = later(now, settings.lease_ttl);
    for id in &ids {
        database.hand(*id, source.session, now, settings.ordered);
        if let Some(row) = database.rows.get_mut(id) {
            row.status.state = State::Leased;
            row.status.lease = Some(RowLease { session: source.session, fence, token, expires });
        }
    }
    let hold = SimHold { fence, token, ids, uncommitted: Vec::new(), settled: HashSet::new() };
    Ok(Claimed::Batch(Claim { hold, entries, more }))
}

/// Whether nobody has a row: it was never leased, its lease ran out, or its holder was taken over.
fn is_free(row: &Row, source: &SimSource, fence: i64, now: Timestamp, settings: &OutboxSettings) -> bool {
    let Some(lease) = row.status.lease else { return true };
    if settings.flaw == Some(Flaw::ReleaseForgotten) {
        return false;
    }
    // A claim whose reply was lost: this holder does not know of it, and nobody else will ever settle it.
    let orphan = lease.session == source.session && !source.knows(lease.token);
    let taken_over = settings.ordered && lease.fence < fence;
    let expired = !settings.ordered && lease.expires <= now;
    orphan || taken_over || expired
}

pub(super) fn settle(
    source: &SimSource,
    database: &mut Database,
    now: Timestamp,
    hold: &mut SimHold,
    settlements: &[(usize, Settlement)],
) -> Result<(), SourceError> {
    let settings = source.outbox.settings;
    let stale = settings.ordered && !database.stands(hold.fence);
    if stale && settings.flaw != Some(Flaw::StaleSettle) {
        return Err(SourceError::Fenced);
    }
    let settled: Vec<_> =
        settlements.iter().map(|(index, settlement)| (hold.ids[*index], settlement.clone())).collect();
    if settings.way == Way::Hold {
        hold.uncommitted.extend(settled);
        return Ok(());
    }
    apply_all(database, source, hold, settled, now)
}

pub(super) fn release(
    source: &SimSource,
    database: &mut Database,
    now: Timestamp,
    hold: &mut SimHold,
) -> Result<(), SourceError> {
    let settings = source.outbox.settings;
    let stale = settings.ordered && !database.stands(hold.fence);
    if stale && settings.flaw != Some(Flaw::StaleSettle) {
        return Err(SourceError::Fenced);
    }
    let uncommitted = std::mem::take(&mut hold.uncommitted);
    apply_all(database, source, hold, uncommitted, now)?;
    for id in hold.ids.clone() {
        apply(database, source, hold.token, id, &Settlement::Released, now, settings.flaw);
    }
    Ok(())
}

/// Writes settlements, all or, if a row has gone to another claim, none.
fn apply_all(
    database: &mut Database,
    source: &SimSource,
    hold: &mut SimHold,
    settlements: Vec<(i64, Settlement)>,
    now: Timestamp,
) -> Result<(), SourceError> {
    let flaw = source.outbox.settings.flaw;
    let lost = |id: &i64| {
        let mine = |row: &Row| row.status.lease.is_some_and(|lease| lease.token == hold.token);
        !hold.settled.contains(id) && !database.rows.get(id).is_some_and(mine)
    };
    if settlements.iter().any(|(id, _)| lost(id)) && flaw != Some(Flaw::StaleSettle) {
        return Err(SourceError::Fenced);
    }
    if source.outbox.settings.ordered && !settlements.is_empty() {
        database.wrote(source.session, hold.fence);
    }
    for (id, settlement) in settlements {
        apply(database, source, hold.token, id, &settlement, now, flaw);
        hold.settled.insert(id);
    }
    Ok(())
}

/// Writes one settlement, if the row is still this claim's.
fn apply(
    database: &mut Database,
    source: &SimSource,
    token: u64,
    id: i64,
    settlement: &Settlement,
    now: Timestamp,
    flaw: Option<Flaw>,
) {
    let Some(row) = database.rows.get_mut(&id) else { return };
    let status = &mut row.status;
    let mine = status.lease.is_some_and(|lease| lease.token == token);
    if !mine && (flaw != Some(Flaw::StaleSettle) || *settlement == Settlement::Released) {
        return;
    }
    if *settlement == Settlement::Released && flaw == Some(Flaw::ReleaseForgotten) {
        return;
    }
    status.lease = None;
    status.state = State::Pending;
    match settlement {
        Settlement::Published => status.state = State::Published,
        Settlement::Released => {}
        Settlement::Postponed { after, reason } => {
            status.not_before = Some(later(now, *after));
            status.error = Some(owned(&reason.0));
        }
        Settlement::Retried { retries, after, reason } => {
            status.retries = *retries;
            status.not_before = Some(later(now, *after));
            status.error = Some(owned(&reason.0));
        }
        Settlement::Dead { retries, reason } => {
            status.state = State::Dead;
            status.retries = *retries;
            status.error = Some(owned(&reason.0));
        }
    }
    database.unhand(id, source.session);
}
