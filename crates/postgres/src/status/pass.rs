//! How far the rows were looked at, what was left there, and when it is time to look at it again.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Duration;

use postrider_core::route::{Hold, Holds};
use postrider_core::{Key, limits};

use super::{Looks, Rank};

/// After so many claims that found something behind the mark, it is time to look at everything again, if that costs little:
/// a row may have been changed by hand, or, where order is not kept, been committed late.
const CLAIMS_BEHIND_MARK_MAX: u32 = 8;

/// Where the next page begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Place {
    #[default]
    Head,
    At(Rank),
    Behind(Rank),
}

/// Why a row was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// It waits, by the database's clock, until then.
    Due(i64),
    /// What was asked for holds its key, or its route.
    Held(Hold),
    /// Somebody had locked it, or it was given back: as soon as that can be afforded.
    Next,
    /// A dead row holds its key, until somebody revives or discards it: the epoch tells.
    Dead,
}

/// Rows of one key that were left before the mark. Those without a key are one of these together.
#[derive(Clone, Debug)]
struct Left {
    /// The first of them. What comes later of its key is not handed out before it.
    first: Rank,
    due_us: Option<i64>,
    is_held: bool,
    is_parked: bool,
    is_next: bool,
}

/// A look at rows before the mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    Whole,
    Part,
}

/// It is a low-water mark: what was published before it stays in the index for as long as anybody has an old snapshot, and what
/// is held there may be much; neither is looked at with every claim. What was left is known by its key and looked at again
/// when it may be handed out. Everything is looked at again now and then, at a small share of the time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pass {
    place: Place,
    /// The last row that was ever looked at: at the end of a look, nothing up to there is read again.
    top: Option<Rank>,
    left: HashMap<Option<Key>, Left>,
    /// Whether ranks are compared here as the database compares them. Else every look is a whole one.
    pub(crate) comparable: bool,
    /// Whether it was looked at everything up to the mark, in vain: then the end is the end.
    in_vain: bool,
    /// Claims that found something since everything was looked at.
    claims: u32,
    /// Rows were seen in other hands.
    pub(crate) elsewhere: bool,
    /// When everything is to be looked at, whatever else happens.
    wanted_us: Option<i64>,
    /// The allowances that were asked for last.
    allowances: Option<Holds>,
    /// When the claim began, and when the clock was read last.
    now_us: i64,
    clock_us: i64,
    look: Option<Look>,
    wholes: Looks,
    parts: Looks,
}

impl Pass {
    /// From the head; ranks that were known mean nothing any more.
    pub(crate) fn look_anew(&mut self) {
        self.start_over();
        self.top = None;
    }

    /// From the head.
    pub(crate) fn start_over(&mut self) {
        *self = Self {
            in_vain: true,
            comparable: self.comparable,
            top: self.top.take(),
            now_us: self.now_us,
            clock_us: self.clock_us,
            look: Some(Look::Whole),
            allowances: self.allowances.take(),
            wholes: self.wholes,
            parts: self.parts,
            ..Self::default()
        };
    }

    /// Decides where a claim begins: behind the mark, at what was left and may be handed out by now, or at the head.
    pub(crate) fn begin(&mut self, now_us: i64, holds: &Holds) {
        (self.now_us, self.clock_us) = (now_us, now_us);
        let routes_changed = self.routes_changed(holds);
        let wanted = self.wanted_us.is_some_and(|at| at <= now_us) && self.wholes.is_due_soon(now_us);
        let overdue = self.claims > CLAIMS_BEHIND_MARK_MAX && self.wholes.is_due_at_work(now_us);
        if self.place == Place::Head || wanted || overdue {
            return self.start_over();
        }
        for (key, left) in &mut self.left {
            let is_free = left.is_held && key.as_ref().is_none_or(|key| !holds.keys.contains(key));
            left.is_next |= is_free || (left.is_parked && routes_changed);
            left.is_next |= left.due_us.is_some_and(|at| at <= now_us);
        }
        let wanted = self.left.values().filter(|left| left.is_next).map(|left| &left.first);
        let first = wanted.reduce(|one, other| if other.is_before(one) { other } else { one }).cloned();
        if let Some(first) = first.filter(|_| self.parts.is_due_soon(now_us)) {
            self.go_back(first);
        }
    }

    /// What is parked behind a route may pass when the route's allowance is another, or lets some through.
    fn routes_changed(&mut self, holds: &Holds) -> bool {
        let Holds { allowances, sink_allowances, .. } = holds;
        let lets_some = allowances.values().chain(sink_allowances.values()).any(|most| *most > 0);
        let is_same = self.allowances.as_ref().is_some_and(|known| {
            known.allowances == *allowances && known.sink_allowances == *sink_allowances
        });
        if !is_same {
            self.allowances = Some(Holds {
                allowances: allowances.clone(),
                sink_allowances: sink_allowances.clone(),
                ..Holds::default()
            });
        }
        lets_some || !is_same
    }

    /// Goes on at a row that was passed, or not come to yet. What was left from there on is found again.
    pub(crate) fn go_back(&mut self, to: Rank) {
        if !self.comparable {
            return self.start_over();
        }
        match &self.place {
            Place::Head => self.left.clear(),
            Place::At(place) if place.is_before(&to) => {
                self.left.retain(|_, left| left.first.is_before(place));
            }
            Place::Behind(place) if place.is_before(&to) => {
                self.left.retain(|_, left| !place.is_before(&left.first));
            }
            Place::At(_) | Place::Behind(_) => {
                self.left.retain(|_, left| left.first.is_before(&to));
                self.place = Place::At(to);
                self.look.get_or_insert(Look::Part);
            }
        }
    }

    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// The last row that was looked at.
    pub(crate) fn mark(&self) -> Option<&Rank> {
        match &self.place {
            Place::Behind(rank) => Some(rank),
            Place::Head | Place::At(_) => None,
        }
    }

    /// Rows up to this one were looked at.
    pub(crate) fn reach(&mut self, last: Option<Rank>) {
        let Some(last) = last else { return };
        if !(self.comparable && self.top.as_ref().is_some_and(|top| last.is_before(top))) {
            self.top = Some(last.clone());
        }
        self.place = Place::Behind(last);
    }

    /// Rows up to this one were looked at, and some were handed out.
    pub(crate) fn hand_out(&mut self, last: Option<Rank>) {
        self.reach(last);
        (self.in_vain, self.claims) = (false, self.claims + 1);
    }

    /// Leaves a row where it is, and with it what comes later of its key.
    pub(crate) fn leave(&mut self, key: Option<&Key>, rank: &Rank, why: Why) {
        let left = Left {
            first: rank.clone(),
            due_us: if let Why::Due(at) = why { Some(at) } else { None },
            is_held: why == Why::Held(Hold::Key),
            is_parked: why == Why::Held(Hold::Route),
            is_next: why == Why::Next,
        };
        match self.left.entry(key.map(Key::owned)) {
            Entry::Vacant(vacant) => drop(vacant.insert(left)),
            // The first of a key decides for those behind it.
            Entry::Occupied(mut known) if key.is_some() => {
                if left.first.is_before(&known.get().first) {
                    known.insert(left);
                }
            }
            Entry::Occupied(mut known) => known.get_mut().join(left),
        }
    }

    /// Whether a key's row stands behind one of its rows that was left.
    pub(crate) fn blocks(&self, key: &Key, rank: &Rank) -> bool {
        // Looking a key up wants it as it is stored.
        !self.left.is_empty()
            && self
                .left
                .get(&Some(key.clone()))
                .is_some_and(|left| !(self.comparable && rank.is_before(&left.first)))
    }

    /// When the database's clock was read for this claim, in microseconds.
    pub(crate) fn now_us(&self) -> i64 {
        self.now_us
    }

    /// Everything is to be looked at, at that time or soon after it.
    pub(crate) fn want_all(&mut self, at_us: i64) {
        self.wanted_us = Some(self.wanted_us.map_or(at_us, |known| known.min(at_us)));
    }

    /// Too many keys are held back to remember more of them.
    pub(crate) fn is_full(&self) -> bool {
        self.left.len() >= limits::PARKED_ENTRIES_MAX
    }

    /// In how long the next row is due that was left.
    pub(crate) fn due_in(&self) -> Option<Duration> {
        let due = self.left.values().filter_map(|left| left.due_us).min()?;
        Some(Duration::from_micros(u64::try_from(due - self.now_us).unwrap_or(0)))
    }

    /// Whether rows before the mark are being looked at: what that takes is noted.
    pub(crate) fn is_looking(&self) -> bool {
        self.look.is_some()
    }

    /// The database's clock was read: that is what the look under way has taken.
    pub(crate) fn clock(&mut self, now_us: i64) {
        let us = now_us.saturating_sub(std::mem::replace(&mut self.clock_us, now_us));
        match self.look {
            Some(Look::Whole) => self.wholes.spend(us),
            Some(Look::Part) => self.parts.spend(us),
            None => {}
        }
    }

    /// The look under way is over: it found something, or came to the end.
    pub(crate) fn end_look(&mut self) {
        match self.look.take() {
            Some(Look::Whole) => self.wholes.end(self.clock_us),
            Some(Look::Part) => self.parts.end(self.clock_us),
            None => {}
        }
    }

    /// At the last row: whether there is nothing to hand out. Else it is to be looked from the head on.
    pub(crate) fn ends(&mut self) -> bool {
        if let Some(top) = self.top.clone().filter(|_| self.comparable || self.place == Place::Head) {
            self.place = Place::Behind(top);
        }
        self.stops()
    }

    /// Where nothing further can be looked at: whether that is all for now. Else it is to be looked from the head on.
    pub(crate) fn stops(&mut self) -> bool {
        self.end_look();
        if std::mem::take(&mut self.in_vain) || !self.wholes.is_due_at_rest(self.now_us) {
            return true;
        }
        self.start_over();
        false
    }
}

impl Left {
    fn join(&mut self, other: Self) {
        if other.first.is_before(&self.first) {
            self.first = other.first;
        }
        self.due_us = [self.due_us, other.due_us].into_iter().flatten().min();
        self.is_held |= other.is_held;
        self.is_parked |= other.is_parked;
        self.is_next |= other.is_next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(id: i64) -> Rank {
        Rank { leads: Vec::new(), entry: id.to_string() }
    }

    fn key(id: &str) -> Key {
        Key::new("k", id.to_owned())
    }

    fn behind(id: i64) -> Pass {
        let mut pass = Pass { comparable: true, ..Pass::default() };
        pass.begin(0, &Holds::default());
        pass.reach(Some(rank(id)));
        pass.end_look();
        pass
    }

    /// F2: what was left is looked at again from its own first row on, and earlier ones stay left.
    #[test]
    fn a_key_that_is_free_again_is_looked_at_from_its_first_row_on() {
        let mut pass = behind(100);
        pass.leave(Some(&key("a")), &rank(3), Why::Dead);
        pass.leave(Some(&key("b")), &rank(50), Why::Held(Hold::Key));
        pass.leave(Some(&key("b")), &rank(60), Why::Next);
        let holds = Holds { keys: [key("b")].into(), ..Holds::default() };
        pass.begin(0, &holds);
        assert_eq!(*pass.place(), Place::Behind(rank(100)));
        assert!(pass.blocks(&key("b"), &rank(101)));
        pass.begin(0, &Holds::default());
        assert_eq!(*pass.place(), Place::At(rank(50)));
        assert!(pass.blocks(&key("a"), &rank(101)) && !pass.blocks(&key("b"), &rank(101)));
    }

    #[test]
    fn what_waits_is_looked_at_when_it_is_due() {
        let mut pass = behind(100);
        pass.leave(None, &rank(7), Why::Due(2_000));
        pass.leave(None, &rank(9), Why::Due(1_000));
        assert_eq!(pass.due_in(), Some(Duration::from_millis(1)));
        pass.begin(999, &Holds::default());
        assert_eq!(*pass.place(), Place::Behind(rank(100)));
        pass.begin(1_000, &Holds::default());
        assert_eq!(*pass.place(), Place::At(rank(7)));
    }

    /// Whole looks that take long are made rarely, however much is found behind the mark or however idle it is.
    #[test]
    fn a_long_look_is_not_made_again_soon() {
        let mut pass = behind(100);
        pass.start_over();
        pass.clock(100_000);
        assert!(pass.ends(), "it was looked at everything");
        assert_eq!(*pass.place(), Place::Behind(rank(100)));
        pass.begin(200_000, &Holds::default());
        assert!(pass.ends(), "it is too early");
        for _ in 0..20 {
            pass.hand_out(Some(rank(100)));
        }
        pass.begin(1_000_000, &Holds::default());
        assert_eq!(*pass.place(), Place::Behind(rank(100)));
        pass.begin(5_000_000, &Holds::default());
        assert_eq!(*pass.place(), Place::Head);
    }
}
