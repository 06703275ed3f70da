//! A naive database and what must hold between it and a cursor.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use jiff::Timestamp;

use super::ops::{Claim, Op};
use super::{KEYS, KINDS, entry, kind_name};
use crate::cursor::{Cursor, Exception, Offer, ParkedRange, Reading, Saved, Settings, Shelf};
use crate::gaps::Owner;
use crate::route::{Destination, Gate, Holds, Kind, Router};
use crate::verdict::Reason;
use crate::{Entry, Key, Settlement, Text};

/// A naive database, a relay's memory, and what must hold between them.
pub(super) struct World {
    cursor: Cursor,
    settings: Settings,
    saved: Saved,
    router: Router,
    now: Timestamp,
    reachable: bool,
    next: i64,
    transactions: u64,
    open: Vec<(u64, i64, Entry)>,
    rows: BTreeMap<i64, Entry>,
    published: BTreeSet<i64>,
    /// Published, but a crash made the cursor forget it.
    again: BTreeSet<i64>,
    claims: Vec<(u64, Vec<i64>)>,
    one_kind_per_key: bool,
}

impl World {
    pub(super) fn new(settings: Settings, one_kind_per_key: bool) -> Self {
        Self {
            cursor: Cursor::load(Saved::default(), settings),
            settings,
            saved: Saved::default(),
            router: Router::new(vec![], "sink", "{type}"),
            now: Timestamp::UNIX_EPOCH,
            reachable: true,
            next: 1,
            transactions: 0,
            open: Vec::new(),
            rows: BTreeMap::new(),
            published: BTreeSet::new(),
            again: BTreeSet::new(),
            claims: Vec::new(),
            one_kind_per_key,
        }
    }

    pub(super) fn step(&mut self, op: Op) {
        match op {
            Op::Append(key, kind, open) => {
                let (id, entry) = (self.next, entry(self.next, key, kind));
                self.next += 1;
                self.transactions += 1;
                match open && self.settings.gaps {
                    true => self.open.push((self.transactions, id, entry)),
                    false => drop(self.rows.insert(id, entry)),
                }
            }
            Op::Commit(nth) => {
                if nth < self.open.len() {
                    let (_, id, entry) = self.open.remove(nth);
                    self.rows.insert(id, entry);
                }
            }
            Op::RollBack(nth) => {
                if nth < self.open.len() {
                    self.open.remove(nth);
                }
            }
            Op::Claim(claim) => self.claim(&claim),
            Op::Settle(nth, which, how) => self.settle(nth, which, how),
            Op::Release(nth) => {
                if nth < self.claims.len() {
                    let (claim, _) = self.claims.remove(nth);
                    self.cursor.release(claim);
                    self.write();
                }
            }
            Op::Database(reachable) => self.reachable = reachable,
            Op::Crash => self.crash(),
            Op::Pass(seconds) => self.now += Duration::from_secs(seconds.into()),
            Op::Bury(nth) => self.bury(nth),
            Op::Revive(nth) => self.revive(nth),
        }
    }

    fn claim(&mut self, claim: &Claim) {
        let check = self.cursor.look().filter(|_| claim.check).map(|look| {
            let name = Text::from_static("tx");
            let alive = self.open.iter().map(|(epoch, ..)| Owner { name: name.clone(), epoch: *epoch });
            self.cursor.check(look, alive)
        });
        let holds = self.holds(claim);
        let router = self.router.clone();
        let mut gate = Gate::new(&holds, &router);
        let reading = self.cursor.reading(self.now, claim.limit, &gate, check);
        let rows = self.read(&reading);
        let number = self.cursor.open_claim();
        let (out, published) = (self.out(), self.published.clone());
        let mut taken = Vec::new();
        let mut complete = rows.len() < claim.limit;
        let mut scan = self.cursor.scan(number, reading, &mut gate);
        for (looked, id) in rows.iter().enumerate() {
            if looked == claim.stop {
                complete = false;
                break;
            }
            match scan.offer(*id, &self.rows[id]) {
                Offer::Take { .. } => taken.push(*id),
                Offer::Pass => {}
                Offer::Stop => {
                    complete = false;
                    break;
                }
            }
        }
        scan.finish(complete);
        for id in &taken {
            assert!(!out.contains(id), "{id} is out already");
            assert!(!published.contains(id) || self.again.contains(id), "{id} was published already");
            if self.again.remove(id) {
                self.published.remove(id);
            }
            assert!(!holds.keys.contains(self.rows[id].key.as_ref().unwrap()), "{id} is held by its key");
            self.assert_in_order(*id);
        }
        for (kind, passed) in taken.iter().map(|id| &self.rows[id].envelope.event_type).fold(
            HashMap::<&Text, u32>::new(),
            |mut all, kind| {
                *all.entry(kind).or_default() += 1;
                all
            },
        ) {
            let to = Destination { sink: "sink".into(), topic: kind.clone() };
            assert!(holds.allowances.get(&to).is_none_or(|most| passed <= *most), "{kind} is held");
        }
        if taken.is_empty() { self.write() } else { self.claims.push((number, taken)) }
    }

    fn holds(&self, claim: &Claim) -> Holds {
        let keys = (0..KEYS).filter(|key| claim.held_keys & (1 << key) != 0);
        let routes = (0..KINDS).filter(|kind| claim.routes[*kind as usize] > 0);
        Holds {
            keys: keys.map(|key| Key::new("Order", key.to_string())).collect(),
            allowances: routes
                .map(|kind| {
                    let to = Destination { sink: "sink".into(), topic: kind_name(kind) };
                    (to, u32::from(claim.routes[kind as usize]) - 1)
                })
                .collect(),
            sink_allowances: HashMap::new(),
            all_on_trial: claim.all_on_trial,
        }
    }

    /// The one statement.
    fn read(&self, reading: &Reading) -> Vec<i64> {
        let wanted = |id: &i64, entry: &Entry| {
            reading.ids.contains(id)
                || reading.gaps.iter().any(|gap| gap.contains(id))
                || reading.ranges.iter().any(|range| {
                    (range.first..=range.last).contains(id) && range.kind == Kind::of(&entry.envelope)
                })
                || *id > reading.after
        };
        let rows = self.rows.iter().filter(|(id, entry)| wanted(id, entry)).map(|(id, _)| *id);
        rows.take(reading.limit).collect()
    }

    /// An earlier visible row of the key is in the relay's hands, published, or dead and no hindrance.
    fn assert_in_order(&self, id: i64) {
        let (key, kind) = (&self.rows[&id].key, Kind::of(&self.rows[&id].envelope));
        let out = self.cursor.out.iter().map(|(id, _)| id).collect::<BTreeSet<_>>();
        for (earlier, row) in self.rows.range(..id).filter(|(_, row)| row.key == *key) {
            // A broken topic holds back what goes there only, so kinds may overtake each other.
            if !self.one_kind_per_key && Kind::of(&row.envelope) != kind {
                continue;
            }
            let dead = self.cursor.exceptions.get(*earlier).is_some_and(|e| e.shelf == Shelf::Dead);
            let gone = self.published.contains(earlier) || out.contains(earlier);
            assert!(gone || dead && !self.settings.hold_dead, "{id} overtakes {earlier}");
        }
    }

    fn out(&self) -> BTreeSet<i64> {
        self.claims.iter().flat_map(|(_, ids)| ids.iter().copied()).collect()
    }

    fn settle(&mut self, nth: usize, which: u16, how: u8) {
        let Some((claim, ids)) = self.claims.get(nth).cloned() else { return };
        let chosen: Vec<i64> =
            ids.iter().enumerate().filter(|(at, _)| which & (1 << at) != 0).map(|(_, id)| *id).collect();
        let (after, reason) = (Duration::from_secs(3), Reason::new("no"));
        let settlement = match how {
            0..4 => Settlement::Published,
            4 => Settlement::Postponed { after, reason },
            5 => Settlement::Retried { retries: 1, after, reason },
            6 => Settlement::Dead { retries: 1, reason },
            _ => Settlement::Released,
        };
        if settlement == Settlement::Published {
            self.published.extend(&chosen);
            self.again.retain(|id| !chosen.contains(id));
        }
        for _ in 0..2 {
            self.cursor.settle(claim, self.now, chosen.iter().map(|id| (*id, &settlement)));
        }
        self.claims[nth].1.retain(|id| !chosen.contains(id));
        if self.claims[nth].1.is_empty() {
            self.claims.remove(nth);
        }
        self.write();
    }

    fn write(&mut self) {
        let Some(write) = self.cursor.write() else { return };
        if !self.reachable {
            return;
        }
        assert!(write.position >= self.saved.position, "the position never moves back");
        write.apply(&mut self.saved);
        write.apply(&mut self.saved);
        self.cursor.applied(write);
        assert!(self.cursor.write().is_none(), "all of it is written");
        let open = self.open.iter().map(|(_, id, _)| id);
        for id in self.rows.keys().filter(|id| !self.published.contains(id)) {
            assert!(self.is_covered(*id, Some(&self.rows[id])), "{id} is lost at the next crash");
        }
        for id in open {
            assert!(self.is_covered(*id, None), "{id} is lost when it commits");
        }
    }

    fn is_covered(&self, id: i64, row: Option<&Entry>) -> bool {
        let in_range = |range: &ParkedRange| {
            row.is_some_and(|row| range.first <= id && range.kind == Kind::of(&row.envelope))
        };
        id > self.saved.position
            || self.saved.gaps.iter().any(|gap| gap.contains(&id))
            || self.saved.exceptions.iter().any(|exception| exception.id == id)
            || self.saved.ranges.iter().any(in_range)
    }

    fn crash(&mut self) {
        let published = self.published.iter().copied();
        let forgotten: Vec<i64> = published.filter(|id| self.is_covered(*id, self.rows.get(id))).collect();
        self.again.extend(forgotten);
        self.claims.clear();
        self.cursor = Cursor::load(self.saved.clone(), self.settings);
    }

    fn bury(&mut self, nth: usize) {
        let id = nth as i64;
        let Some(row) = self.rows.get(&id).filter(|_| !self.published.contains(&id)) else { return };
        let exception = Exception { id, key: row.key.clone(), shelf: Shelf::Dead, retries: 0, reason: None };
        if self.out().contains(&id) {
            return;
        }
        self.saved.exceptions.retain(|exception| exception.id != id);
        self.saved.exceptions.push(exception);
        self.cursor.reload(self.saved.exceptions.clone());
    }

    fn revive(&mut self, nth: usize) {
        for exception in self.saved.exceptions.iter_mut().filter(|exception| exception.id == nth as i64) {
            if exception.shelf == Shelf::Dead {
                exception.shelf = Shelf::Parked;
            }
        }
        self.cursor.reload(self.saved.exceptions.clone());
    }

    /// When faults stop, everything committed gets out.
    pub(super) fn drain(&mut self) {
        self.step(Op::Database(true));
        while let Some((_, id, entry)) = self.open.pop() {
            self.rows.insert(id, entry);
        }
        for id in 0..self.next {
            self.write();
            self.revive(id as usize);
        }
        for _ in 0..4 * self.next + 20 {
            self.step(Op::Pass(5));
            self.step(Op::Claim(Claim {
                limit: 3,
                stop: usize::MAX,
                held_keys: 0,
                routes: [0; 3],
                all_on_trial: false,
                check: true,
            }));
            while !self.claims.is_empty() {
                self.step(Op::Settle(0, u16::MAX, 0));
            }
        }
        let lost: Vec<_> = self.rows.keys().filter(|id| !self.published.contains(id)).collect();
        assert!(lost.is_empty(), "lost {lost:?}: {:?}", self.cursor);
        assert_eq!(self.saved.position, self.rows.keys().last().copied().unwrap_or(0));
        assert_eq!((self.saved.exceptions.len(), self.saved.ranges.len()), (0, 0), "nothing is left behind");
        let watched = |id: &&i64| self.saved.closed.iter().any(|closed| closed.ids.contains(id));
        assert_eq!(self.rows.keys().find(watched), None, "only what never came is watched");
        assert!(self.saved.gaps.is_empty(), "{:?} is left open: {:?}", self.saved.gaps, self.cursor);
    }
}
