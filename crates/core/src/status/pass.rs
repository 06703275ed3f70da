//! How far the rows were looked at, what was left there, and when it is time to look at it again.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Duration;

use super::left::{Left, Why};
use super::{Looks, Page, Rank};
use crate::route::Holds;
use crate::{Key, limits};

/// After so many claims that found something behind the mark, it is time to look at everything again, if that costs little:
/// a row may have been changed by hand, or, where order is not kept, been committed late.
const CLAIMS_BEHIND_MARK_MAX: u32 = 8;

/// Where the next page begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// At the first row.
    #[default]
    Head,
    /// At this row.
    At(Rank),
    /// Behind this row.
    Behind(Rank),
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
///
/// Where rows are ordered by a time, the mark never passes the database's clock: a row that is stamped in the future, or has no
/// time at all, would have all that come later stand before it.
#[derive(Clone, Debug, Default)]
pub struct Pass {
    place: Place,
    /// The last row that was ever looked at: at the end of a look, nothing up to there is read again.
    top: Option<Rank>,
    /// Where the next claim begins, if this one has looked at rows ahead of the clock.
    back_to: Option<Place>,
    /// The database's clock as rows are ordered by it, where they are.
    now_lead: Option<String>,
    /// Whether a row was ever seen that has a time. Where none has, those without stand in order among themselves.
    timed: bool,
    left: HashMap<Option<Key>, Left>,
    /// Whether ranks are compared here as the database compares them. Else every look is a whole one.
    pub comparable: bool,
    /// Whether it was looked at everything up to the mark, in vain: then the end is the end.
    in_vain: bool,
    /// Claims that found something since everything was looked at.
    claims: u32,
    /// Rows were seen in other hands.
    pub elsewhere: bool,
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
    pub fn look_anew(&mut self) {
        self.start_over();
        self.top = None;
    }

    /// From the head.
    pub fn start_over(&mut self) {
        *self = Self {
            in_vain: true,
            comparable: self.comparable,
            top: self.top.take(),
            now_lead: self.now_lead.take(),
            timed: self.timed,
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
    /// The clock comes in microseconds, and as rows are ordered by it, where they are.
    pub fn begin(&mut self, now_us: i64, now_lead: Option<String>, holds: &Holds) {
        (self.now_us, self.clock_us, self.now_lead) = (now_us, now_us, now_lead);
        self.go_behind_now();
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

    /// What was ahead of the clock is looked at again: what has come since may stand before it.
    fn go_behind_now(&mut self) {
        if self.now_lead.is_none() {
            return;
        }
        self.place = self.back_to.take().unwrap_or_else(|| std::mem::take(&mut self.place));
        self.left.retain(|_, left| !left.is_ahead);
        let place = if let Place::At(rank) | Place::Behind(rank) = &self.place { Some(rank) } else { None };
        if [place, self.top.as_ref()].into_iter().flatten().any(|rank| self.is_ahead(rank)) {
            // The clock was set back, or a row came that has a time.
            self.look_anew();
        }
    }

    /// Whether a row stands ahead of the clock.
    #[must_use]
    pub fn is_ahead(&self, rank: &Rank) -> bool {
        self.now_lead
            .as_ref()
            .is_some_and(|now| if rank.is_timed() { rank.is_later_than(now) } else { self.timed })
    }

    /// A row was looked at.
    pub fn saw(&mut self, rank: &Rank) {
        self.timed |= rank.is_timed();
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
    pub fn go_back(&mut self, to: Rank) {
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
                if !self.is_ahead(&to) {
                    self.back_to = None;
                }
                self.place = Place::At(to);
                self.look.get_or_insert(Look::Part);
            }
        }
    }

    /// Where the next page begins.
    #[must_use]
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// The last row that was ever looked at.
    #[must_use]
    pub fn top(&self) -> Option<&Rank> {
        self.top.as_ref()
    }

    /// The last row that was looked at.
    #[must_use]
    pub fn mark(&self) -> Option<&Rank> {
        match &self.place {
            Place::Behind(rank) => Some(rank),
            Place::Head | Place::At(_) => None,
        }
    }

    /// Up to where nothing is read again after a page, unless the pass goes back: at the end that is the last row ever looked at.
    #[must_use]
    pub fn passes<'a>(&'a self, page: &'a Page) -> Option<&'a Rank> {
        let last = page.last.as_ref().or(self.mark());
        let top = self.top.as_ref().filter(|_| page.end && self.comparable);
        match (last, top) {
            (Some(last), Some(top)) if last.is_before(top) => Some(top),
            _ => last.or(top),
        }
    }

    /// Rows of a page were looked at, up to this one.
    pub fn reach(&mut self, last: Option<Rank>, page: &Page) {
        let Some(last) = last else { return };
        let is_ahead = self.is_ahead(&last);
        let steady = if is_ahead { page.steady.clone() } else { Some(last.clone()) };
        if is_ahead && self.back_to.is_none() {
            self.back_to = Some(steady.clone().map_or_else(|| self.place.clone(), Place::Behind));
        }
        if let Some(steady) = steady
            && !(self.comparable && self.top.as_ref().is_some_and(|top| steady.is_before(top)))
        {
            self.top = Some(steady);
        }
        self.place = Place::Behind(last);
    }

    /// Rows of a page were looked at, up to this one, and some were handed out.
    pub fn hand_out(&mut self, last: Option<Rank>, page: &Page) {
        self.reach(last, page);
        (self.in_vain, self.claims) = (false, self.claims + 1);
    }

    /// Leaves a row where it is, and with it what comes later of its key.
    pub fn leave(&mut self, key: Option<&Key>, rank: &Rank, why: Why) {
        let left = Left::new(rank, why, self.is_ahead(rank));
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
    #[must_use]
    pub fn blocks(&self, key: &Key, rank: &Rank) -> bool {
        // Looking a key up wants it as it is stored.
        !self.left.is_empty()
            && self
                .left
                .get(&Some(key.clone()))
                .is_some_and(|left| !(self.comparable && rank.is_before(&left.first)))
    }

    /// When the database's clock was read for this claim, in microseconds.
    #[must_use]
    pub fn now_us(&self) -> i64 {
        self.now_us
    }

    /// Everything is to be looked at, at that time or soon after it.
    pub fn want_all(&mut self, at_us: i64) {
        self.wanted_us = Some(self.wanted_us.map_or(at_us, |known| known.min(at_us)));
    }

    /// Too many keys are held back to remember more of them.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.left.len() >= limits::PARKED_ENTRIES_MAX
    }

    /// In how long the next row is due that was left.
    #[must_use]
    pub fn due_in(&self) -> Option<Duration> {
        let due = self.left.values().filter_map(|left| left.due_us).min()?;
        Some(Duration::from_micros(u64::try_from(due - self.now_us).unwrap_or(0)))
    }

    /// Whether rows before the mark are being looked at: what that takes is noted.
    #[must_use]
    pub fn is_looking(&self) -> bool {
        self.look.is_some()
    }

    /// The database's clock was read: that is what the look under way has taken.
    pub fn clock(&mut self, now_us: i64) {
        let us = now_us.saturating_sub(std::mem::replace(&mut self.clock_us, now_us));
        match self.look {
            Some(Look::Whole) => self.wholes.spend(us),
            Some(Look::Part) => self.parts.spend(us),
            None => {}
        }
    }

    /// The look under way is over: it found something, or came to the end.
    pub fn end_look(&mut self) {
        match self.look.take() {
            Some(Look::Whole) => self.wholes.end(self.clock_us),
            Some(Look::Part) => self.parts.end(self.clock_us),
            None => {}
        }
    }

    /// At the last row: whether there is nothing to hand out. Else it is to be looked from the head on.
    pub fn ends(&mut self) -> bool {
        if let Some(top) = self.top.clone().filter(|_| self.comparable || self.place == Place::Head) {
            (self.place, self.back_to) = (Place::Behind(top), None);
        }
        self.stops()
    }

    /// Where nothing further can be looked at: whether that is all for now. Else it is to be looked from the head on.
    pub fn stops(&mut self) -> bool {
        self.end_look();
        if std::mem::take(&mut self.in_vain) || !self.wholes.is_due_at_rest(self.now_us) {
            return true;
        }
        self.start_over();
        false
    }
}
