//! Row by row, in id order: what is handed out, what is set aside.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::{Cursor, Exception, Origin, Out, OutKey, Reading, Shelf};
use crate::route::{Gate, Kind};
use crate::text::owned;
use crate::{Entry, Key};

/// One pass over the rows of a [`Reading`].
#[derive(Debug)]
pub struct Scan<'c, 'g, 'h> {
    cursor: &'c mut Cursor,
    gate: &'g mut Gate<'h>,
    reading: Reading,
    claim: u64,
    last: i64,
    handed: usize,
    /// Rows up to `reading.after` that were offered.
    offered: Vec<i64>,
    /// Kinds of which a row was left in its range: no later one may go out before it.
    stuck: HashSet<Kind>,
    /// Keys of which a row was left where it was, for want of room.
    blocked: HashSet<Key>,
    /// Keys whose exceptions below an id are all in somebody's hands: with very many of one key, they are looked at once.
    clear: HashMap<Key, i64>,
}

/// What a scan has to know of a row; the rest of it may be decoded later.
pub trait Row {
    /// What it stays in order with.
    fn key(&self) -> Option<&Key>;
    /// The same, for when it may be needed later.
    fn key_later(&self) -> OutKey {
        OutKey::Known(self.key().cloned())
    }
    /// What it is routed by.
    fn kind(&self) -> Kind;
    /// Retries scheduled so far, by the row itself.
    fn retries(&self) -> u32;
}

impl Row for Entry {
    fn key(&self) -> Option<&Key> {
        self.key.as_ref()
    }

    fn kind(&self) -> Kind {
        Kind::of(&self.envelope)
    }

    fn retries(&self) -> u32 {
        self.retries
    }
}

/// What becomes of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// Hand it out, with this many retries scheduled so far.
    Take {
        /// Retries scheduled so far.
        retries: u32,
    },
    /// Not now.
    Pass,
    /// A limit on what is parked is reached, or nothing is to be read further for now: finish, incomplete.
    Stop,
}

/// What a scan brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scanned {
    /// Rows handed out.
    pub handed: usize,
    /// Whether a limit on what is parked stopped it.
    pub full: bool,
    /// Entries that were set aside and whose rows are gone.
    pub vanished: usize,
}

/// Where a row goes that is not handed out.
enum Bar {
    Key,
    Route,
    /// It stays where it is, unread.
    Trial,
}

impl Cursor {
    /// The number of a new claim; several scans may fill one.
    pub fn open_claim(&mut self) -> u64 {
        self.claims += 1;
        self.claims
    }

    /// Starts offering the rows of a reading. Whatever is taken belongs to `claim` until it is settled.
    pub fn scan<'c, 'g, 'h>(
        &'c mut self,
        claim: u64,
        reading: Reading,
        gate: &'g mut Gate<'h>,
    ) -> Scan<'c, 'g, 'h> {
        debug_assert_eq!(reading.after, self.read, "claims overlap, readings do not");
        self.full = false;
        Scan {
            cursor: self,
            gate,
            reading,
            claim,
            last: i64::MIN,
            handed: 0,
            offered: Vec::new(),
            stuck: HashSet::new(),
            blocked: HashSet::new(),
            clear: HashMap::new(),
        }
    }
}

impl Scan<'_, '_, '_> {
    /// Offers the next row. A row that came twice is passed.
    pub fn offer(&mut self, id: i64, row: &impl Row) -> Offer {
        if id <= self.last {
            return Offer::Pass;
        }
        let has_room = self.has_room_to_pass(id);
        let offer = if has_room { self.weigh(id, row) } else { Offer::Stop };
        self.cursor.full |= !has_room;
        match offer {
            Offer::Stop => self.last = id.saturating_sub(1),
            _ => self.pass(id),
        }
        offer
    }

    /// Ends the pass. `complete` says that every row of the reading was offered; otherwise nothing above the last one
    /// counts as read.
    pub fn finish(self, complete: bool) -> Scanned {
        let through = if complete { i64::MAX } else { self.last };
        let Self { cursor, reading, offered, stuck, handed, .. } = self;
        let mut vanished = 0;
        for id in reading.ids.iter().take_while(|id| **id <= through) {
            // Somebody deleted the row: there is nothing left to publish, and nothing to hold its key for.
            if offered.binary_search(id).is_err() && !cursor.out.contains(*id) {
                cursor.returned.remove(id);
                vanished += usize::from(cursor.drop_exception(*id));
            }
        }
        for kind in reading.opened.iter().filter(|kind| !stuck.contains(&***kind)) {
            if let Some(next) = cursor.lanes.get_mut(kind) {
                *next = (*next).max(cursor.read.min(through).saturating_add(1));
            }
        }
        cursor.merge_lanes();
        let open = cursor.ledger.ids_open();
        if let Some(check) = reading.check {
            cursor.ledger.conclude(check, &offered, through, reading.now);
        }
        cursor.ledger.looked_again(reading.now, through);
        if cursor.ledger.ids_open() != open {
            cursor.ink.gaps_changed();
        }
        Scanned { handed, full: cursor.full, vanished }
    }

    fn has_room_to_pass(&self, id: i64) -> bool {
        let skips = id > self.cursor.read.saturating_add(1);
        let full = self.cursor.ledger.len() >= self.cursor.settings.gaps_max;
        !(skips && full && self.cursor.settings.gaps)
    }

    fn pass(&mut self, id: i64) {
        self.last = id;
        if id <= self.reading.after {
            self.offered.push(id);
        }
        let read = self.cursor.read;
        if id > read {
            if self.cursor.settings.gaps && id.saturating_sub(1) > read {
                self.cursor.ledger.note(read + 1..=id - 1);
                self.cursor.ink.gaps_changed();
            }
            self.cursor.read = id;
        }
    }

    fn weigh(&mut self, id: i64, row: &impl Row) -> Offer {
        if self.cursor.out.contains(id) {
            return Offer::Pass;
        }
        if self.cursor.exceptions.contains(id) {
            self.answered_by_exception(id);
        }
        let kind = (!self.cursor.lanes.is_empty()).then(|| row.kind());
        let Some(origin) = self.origin(id, kind.as_ref()) else { return Offer::Pass };
        match self.bar(id, row, kind.as_ref()) {
            None => self.hand_out(id, row, origin, kind.as_ref()),
            Some(Bar::Key) => self.park(id, row, &origin, kind.as_ref()),
            Some(Bar::Route) => self.set_aside(id, row, &origin),
            Some(Bar::Trial) if id > self.cursor.read => Offer::Stop,
            Some(Bar::Trial) => self.set_aside(id, row, &origin),
        }
    }

    fn origin(&self, id: i64, kind: Option<&Kind>) -> Option<Origin> {
        let cursor = &*self.cursor;
        if cursor.exceptions.contains(id) {
            return cursor.exceptions.is_ready(id).then_some(Origin::Exception);
        }
        if let Some(origin) = cursor.returned.get(&id) {
            return Some(origin.clone());
        }
        if id > cursor.read {
            return Some(Origin::New);
        }
        if cursor.settings.gaps && cursor.ledger.watches(id) {
            return Some(Origin::Gap);
        }
        let (kind, next) = cursor.lanes.get_key_value(kind?)?;
        (*next <= id).then(|| Origin::Range(Arc::clone(kind)))
    }

    fn bar(&mut self, id: i64, row: &impl Row, kind: Option<&Kind>) -> Option<Bar> {
        let cursor = &*self.cursor;
        // First of all: the range of its kind is read from its start, and this row is not at its turn.
        if kind.is_some_and(|kind| cursor.covers(kind, id) && !self.is_drained(kind)) {
            return Some(Bar::Route);
        }
        // Mostly nothing stands before any key, and then nobody has to know it.
        let free = cursor.exceptions.len() == 0 && self.blocked.is_empty() && !self.gate.holds_keys();
        if let Some(key) = (!free).then(|| row.key()).flatten()
            && (is_behind(cursor, &mut self.clear, key, id)
                || self.blocked.contains(key)
                || self.gate.holds_key(key))
        {
            return Some(self.bar_behind(row, key));
        }
        self.gate.pass_by(None, || row.kind()).err().map(|_| Bar::Route)
    }

    /// Where a row goes that is behind its key. What an outage left stands before nearly every key, and any number of rows comes
    /// behind: where they could not go now they wait as a range, or unread, and not one by one. Behind one that is not about
    /// to go itself, what could be tried would wait with them.
    fn bar_behind(&self, row: &impl Row, key: &Key) -> Bar {
        let (cursor, kind) = (&*self.cursor, row.kind());
        if !self.gate.open(&kind) {
            return Bar::Route;
        }
        let in_hand = |id| cursor.out.contains(id);
        if !cursor.exceptions.is_about_to_go(key, self.reading.now, self.gate, in_hand) {
            return Bar::Key;
        }
        match self.gate.tries_all() {
            true => Bar::Trial,
            false if self.gate.tries(&kind) => Bar::Route,
            false => Bar::Key,
        }
    }

    /// Whether every row of the kind below the one at hand has been dealt with: rows come in id order.
    fn is_drained(&self, kind: &Kind) -> bool {
        !self.stuck.contains(kind) && self.reading.opened.iter().any(|opened| **opened == *kind)
    }

    fn hand_out(&mut self, id: i64, row: &impl Row, origin: Origin, kind: Option<&Kind>) -> Offer {
        self.leave(id, &origin, kind);
        let retries = self.cursor.exceptions.retries(id).unwrap_or_else(|| row.retries());
        let out = Out { claim: self.claim, origin, key: row.key_later(), retries };
        self.cursor.out.insert(id, out);
        self.handed += 1;
        Offer::Take { retries }
    }

    /// Held behind its key: becomes an exception, if it is none yet.
    fn park(&mut self, id: i64, row: &impl Row, origin: &Origin, kind: Option<&Kind>) -> Offer {
        if *origin == Origin::Exception {
            return Offer::Pass;
        }
        if self.cursor.exceptions.len() >= self.cursor.settings.exceptions_max {
            return self.leave_where_it_is(id, row, origin);
        }
        self.leave(id, origin, kind);
        self.cursor.put_exception(Exception {
            id,
            key: row.key().map(Key::owned),
            shelf: Shelf::Parked,
            retries: row.retries(),
            reason: None,
        });
        Offer::Pass
    }

    /// Held by its route: joins the range of its kind where that covers it.
    fn set_aside(&mut self, id: i64, row: &impl Row, origin: &Origin) -> Offer {
        let kind = owned_kind(&row.kind());
        let came_back = self.cursor.returned.contains_key(&id);
        match origin {
            Origin::Exception => self.cursor.exceptions.held(id, kind),
            Origin::Range(_) if came_back => {}
            _ if self.cursor.covers(&kind, id) => {
                self.leave(id, origin, None);
                self.stuck.insert(kind);
            }
            Origin::New if !came_back => return self.open_lane(id, kind),
            // Later ones of its kind may have been published since: a range from here would repeat them.
            _ => return self.park_held(id, row, origin, kind),
        }
        Offer::Pass
    }

    fn open_lane(&mut self, id: i64, kind: Kind) -> Offer {
        let known = self.cursor.lanes.contains_key(&kind);
        if !known && self.cursor.lanes.len() >= self.cursor.settings.ranges_max {
            self.cursor.full = true;
            return Offer::Stop;
        }
        self.stuck.insert(kind.clone());
        self.cursor.lanes.insert(Arc::new(kind), id);
        Offer::Pass
    }

    fn park_held(&mut self, id: i64, row: &impl Row, origin: &Origin, kind: Kind) -> Offer {
        let offer = self.park(id, row, origin, None);
        self.cursor.exceptions.held(id, kind);
        offer
    }

    /// There is no room to park it: it stays where it is, and its key behind it.
    fn leave_where_it_is(&mut self, id: i64, row: &impl Row, origin: &Origin) -> Offer {
        self.cursor.full = true;
        if id > self.cursor.read {
            return Offer::Stop;
        }
        if let Origin::Range(kind) = origin {
            self.stuck.insert(Kind::clone(kind));
        }
        self.blocked.extend(row.key().cloned());
        Offer::Pass
    }

    /// An operator's verb made an exception of a row that something else answered for.
    fn answered_by_exception(&mut self, id: i64) {
        let came_back = self.cursor.returned.remove(&id) == Some(Origin::Gap);
        if self.cursor.ledger.seen(id) || came_back {
            self.cursor.ink.gaps_changed();
        }
    }

    /// Something else answers for the row from now on than what did so far.
    fn leave(&mut self, id: i64, origin: &Origin, kind: Option<&Kind>) {
        self.cursor.returned.remove(&id);
        if *origin == Origin::Gap {
            self.cursor.ledger.seen(id);
            self.cursor.ink.gaps_changed();
        }
        if let Some(next) = kind.and_then(|kind| self.cursor.lanes.get_mut(kind)) {
            *next = if *next <= id { id.saturating_add(1) } else { *next };
        }
    }
}

/// Whether an earlier exception of the key is still here and in nobody's hands. Rows come in the order of their ids.
fn is_behind(cursor: &Cursor, clear: &mut HashMap<Key, i64>, key: &Key, id: i64) -> bool {
    if !cursor.exceptions.has(key) {
        return false;
    }
    let from = clear.get(key).copied().unwrap_or(i64::MIN);
    let behind = cursor.exceptions.blocks(key, from..id.max(from), |id| cursor.out.contains(id));
    if !behind {
        clear.insert(key.clone(), id);
    }
    behind
}

fn owned_kind(kind: &Kind) -> Kind {
    Kind { event_type: owned(&kind.event_type), aggregate_type: owned(&kind.aggregate_type) }
}
