//! The tables, and who holds what in them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use jiff::Timestamp;
use postrider_core::cursor::Saved;
use postrider_core::entry::Flaw;
use postrider_core::report::Report;
use postrider_core::{Entry, EntryId, Envelope, Key, State, Text};

use super::Trouble;

#[derive(Debug, Default)]
pub(super) struct Database {
    pub(super) rows: BTreeMap<i64, Row>,
    /// Ids in the order in which they were committed: the log.
    pub(super) log: Vec<i64>,
    /// Transactions that may have drawn ids.
    pub(super) transactions: BTreeSet<u64>,
    /// What the cursor and the log keep; a log's ids are places in it, from one.
    pub(super) saved: Saved,
    pub(super) lease: Option<Lease>,
    pub(super) fence: i64,
    pub(super) trouble: Trouble,
    pub(super) overlaps: Vec<String>,
    /// Counts operators' verbs: a holder that sees another number looks at what they changed.
    pub(super) epoch: u64,
    /// Per job: the last turn's fence, and when the next may begin.
    pub(super) turns: BTreeMap<String, (i64, Timestamp)>,
    /// Per holder: when it last reported, and what.
    pub(super) reports: BTreeMap<String, (Timestamp, Report)>,
    /// The next reply is lost, its work is done.
    pub(super) reply_lost_next: bool,
    sessions: HashMap<u64, String>,
    /// Until when each holder was last granted the lease, for the checker only.
    granted: HashMap<u64, Timestamp>,
    /// Who was given an entry and has not settled it, for the checker only.
    hands: HashMap<i64, u64>,
    numbers: u64,
    last_id: i64,
}

/// The one lease on all keys.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lease {
    pub(super) session: u64,
    pub(super) fence: i64,
    pub(super) expires: Timestamp,
}

#[derive(Debug)]
pub(super) struct Row {
    pub(super) envelope: Envelope,
    pub(super) key: Key,
    pub(super) committed: bool,
    pub(super) flaw: Option<Flaw>,
    pub(super) status: RowState,
}

/// What the status columns say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowState {
    /// The state.
    pub state: State,
    /// Retries scheduled so far.
    pub retries: u32,
    /// Not before this.
    pub not_before: Option<Timestamp>,
    /// What was last wrong.
    pub error: Option<Text>,
    pub(super) lease: Option<RowLease>,
}

/// Who holds a row, and until when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RowLease {
    pub(super) session: u64,
    pub(super) fence: i64,
    /// The claim it belongs to.
    pub(super) token: u64,
    pub(super) expires: Timestamp,
}

/// A committed row, as a checker sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// The event's id.
    pub event: Text,
    /// Its key.
    pub key: Key,
    /// Its state, whichever way it is kept.
    pub state: State,
    /// Retries scheduled so far.
    pub retries: u32,
}

impl Database {
    pub(super) fn connect(&mut self, holder: &str) -> u64 {
        let session = self.number();
        self.sessions.insert(session, holder.to_string());
        session
    }

    /// A connection is gone. Whatever was bound to it goes with it; a lease runs out by itself.
    pub(super) fn disconnect(&mut self, session: u64, session_bound: bool) {
        if session_bound {
            self.retire(session);
            for row in self.rows.values_mut() {
                if row.status.lease.take_if(|lease| lease.session == session).is_some() {
                    row.status.state = State::Pending;
                }
            }
        }
        self.granted.remove(&session);
        self.hands.retain(|_, holder| *holder != session);
        self.sessions.remove(&session);
    }

    /// A holder gives up its lease: it sends nothing any more, whatever it could not give back.
    pub(super) fn retire(&mut self, session: u64) {
        self.hands.retain(|_, holder| *holder != session);
        self.lease.take_if(|lease| lease.session == session);
        self.granted.remove(&session);
    }

    /// Takes or renews the lease; `None` when another has it. A new holder has a higher fence.
    pub(super) fn take_lease(&mut self, session: u64, now: Timestamp, ttl: Duration) -> Option<i64> {
        let expires = later(now, ttl);
        if self.lease.is_none_or(|lease| lease.session == session || lease.expires <= now) {
            self.granted.insert(session, expires);
        }
        match &mut self.lease {
            Some(lease) if lease.session == session && lease.expires > now => {
                lease.expires = expires;
                Some(lease.fence)
            }
            Some(lease) if lease.expires > now => None,
            lease => {
                // Taken over while it was expired: should the clock go back, it is still over.
                if let Some(before) = lease.filter(|lease| lease.session != session) {
                    self.granted.remove(&before.session);
                }
                self.fence += 1;
                *lease = Some(Lease { session, fence: self.fence, expires });
                Some(self.fence)
            }
        }
    }

    /// Renews the lease for whoever has it, expired or not: nobody took over.
    pub(super) fn renew_lease(&mut self, now: Timestamp, ttl: Duration) {
        if let Some(lease) = &mut self.lease {
            lease.expires = later(now, ttl);
            self.granted.insert(lease.session, lease.expires);
        }
    }

    /// Whether a fence still stands. Expired is not lost: as long as nobody took over, its writes are good.
    pub(super) fn stands(&self, fence: i64) -> bool {
        self.fence == fence && self.lease.is_some_and(|lease| lease.fence == fence)
    }

    /// Who holds the lease.
    pub(super) fn holder(&self, now: Timestamp) -> Option<String> {
        let lease = self.lease.filter(|lease| lease.expires > now)?;
        self.name(lease.session)
    }

    pub(super) fn name(&self, session: u64) -> Option<String> {
        self.sessions.get(&session).cloned()
    }

    /// Whether a row is leased by nobody who could still settle it.
    pub(super) fn is_abandoned(&self, row: &Row, ordered: bool, now: Timestamp) -> bool {
        let Some(lease) = row.status.lease else { return row.status.state == State::Leased };
        let relay_lost = !self.lease.is_some_and(|held| held.fence == lease.fence && held.expires > now);
        if ordered { relay_lost } else { lease.expires <= now }
    }

    /// Rows that dead holders left.
    pub(super) fn abandoned(&self, ordered: bool, now: Timestamp) -> impl Iterator<Item = i64> {
        let rows = self.rows.iter().filter(move |(_, row)| row.status.state == State::Leased);
        rows.filter(move |(_, row)| self.is_abandoned(row, ordered, now)).map(|(id, _)| *id)
    }

    pub(super) fn begin(&mut self) -> u64 {
        let transaction = self.number();
        self.transactions.insert(transaction);
        transaction
    }

    pub(super) fn insert(&mut self, envelope: Envelope, key: Key) -> i64 {
        self.last_id += 1;
        let status =
            RowState { state: State::Pending, retries: 0, not_before: None, error: None, lease: None };
        self.rows.insert(self.last_id, Row { envelope, key, committed: false, flaw: None, status });
        self.last_id
    }

    pub(super) fn commit(&mut self, ids: &[i64]) {
        for id in ids {
            if let Some(row) = self.rows.get_mut(id) {
                row.committed = true;
                self.log.push(*id);
            }
        }
    }

    /// A transaction is over; what it did not commit is gone.
    pub(super) fn end(&mut self, transaction: u64, left: &[i64]) {
        self.transactions.remove(&transaction);
        for id in left {
            self.rows.remove(id);
        }
    }

    pub(super) fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    pub(super) fn entry(&self, id: i64, ordered: bool) -> Option<Entry> {
        let row = self.rows.get(&id).filter(|row| row.committed)?;
        Some(Entry {
            id: EntryId::Int(id),
            envelope: row.envelope.clone(),
            key: ordered.then(|| row.key.clone()),
            retries: row.status.retries,
            retries_max: None,
            flaw: row.flaw.clone(),
        })
    }

    /// Notes, for the checker, that an entry is given to somebody; it must not be in other living hands.
    pub(super) fn hand(&mut self, id: i64, session: u64, now: Timestamp, ordered: bool) {
        let Some(other) = self.hands.insert(id, session).filter(|other| *other != session) else { return };
        let lease = self.rows.get(&id).and_then(|row| row.status.lease);
        // Where there is one lease for all keys, it alone decides.
        let held = if ordered {
            self.granted.get(&other).is_some_and(|expires| *expires > now)
        } else {
            lease.is_some_and(|lease| lease.session == other && lease.expires > now)
        };
        if held {
            let name = |session| self.name(session).unwrap_or_else(|| "nobody".into());
            self.overlaps.push(format!("entry {id} went to {} while {} held it", name(session), name(other)));
        }
    }

    /// Notes, for the checker, a write by somebody whose lease another has taken.
    pub(super) fn wrote(&mut self, session: u64, fence: i64) {
        if self.fence > fence {
            let name = self.sessions.get(&session).map_or("nobody", String::as_str);
            self.overlaps.push(format!("{name} settled under fence {fence} while {} stood", self.fence));
        }
    }

    pub(super) fn unhand(&mut self, id: i64, session: u64) {
        if self.hands.get(&id) == Some(&session) {
            self.hands.remove(&id);
        }
    }
}

pub(super) fn later(now: Timestamp, span: Duration) -> Timestamp {
    now.saturating_add(span).unwrap_or(Timestamp::MAX)
}
