//! What became of rows that were handed out.

use std::time::Duration;

use jiff::Timestamp;

use super::{Cursor, Exception, Origin, Out, Shelf};
use crate::route::Kind;
use crate::text::owned;
use crate::verdict::Reason;
use crate::{Settlement, Text};

impl Cursor {
    /// Takes settlements of rows of a claim. What is no longer in that claim's hands was settled before: after a lost
    /// reply the same settlements may come again.
    pub fn settle<'s>(
        &mut self,
        claim: u64,
        now: Timestamp,
        settlements: impl IntoIterator<Item = (i64, &'s Settlement)>,
    ) {
        for (id, settlement) in settlements {
            if let Some(out) = self.out.take(id, claim) {
                self.settle_one(id, out, settlement, now);
            }
        }
    }

    /// Ends a claim: what is not settled is as if it had not been claimed.
    pub fn release(&mut self, claim: u64) {
        let left: Vec<i64> =
            self.out.iter().filter(|(_, out)| out.claim == claim).map(|(id, _)| id).collect();
        for id in left {
            if let Some(out) = self.out.take(id, claim) {
                self.give_back(id, out);
            }
        }
    }

    fn settle_one(&mut self, id: i64, out: Out, settlement: &Settlement, now: Timestamp) {
        let due =
            |after: &Duration| Shelf::Waiting { due: now.saturating_add(*after).unwrap_or(Timestamp::MAX) };
        match settlement {
            Settlement::Published => {
                self.published = self.published.max(id);
                if out.origin == Origin::Gap {
                    self.ink.gaps_changed();
                }
                self.drop_exception(id);
            }
            Settlement::Postponed { after, reason } => {
                let retries = out.retries;
                self.shelve(id, out, due(after), retries, Some(reason));
            }
            Settlement::Retried { retries, after, reason } => {
                self.shelve(id, out, due(after), *retries, Some(reason));
            }
            Settlement::Dead { retries, reason } => self.shelve(id, out, Shelf::Dead, *retries, Some(reason)),
            Settlement::Released => self.give_back(id, out),
        }
    }

    fn give_back(&mut self, id: i64, out: Out) {
        match out.origin {
            // An operator's verb may have taken it off the shelf while it was out.
            Origin::Exception if !self.exceptions.contains(id) => {
                let retries = out.retries;
                self.shelve(id, out, Shelf::Parked, retries, None);
            }
            Origin::Exception => {}
            origin => drop(self.returned.insert(id, origin)),
        }
    }

    fn shelve(&mut self, id: i64, out: Out, shelf: Shelf, retries: u32, reason: Option<&Reason>) {
        if out.origin == Origin::Gap {
            self.ink.gaps_changed();
        }
        let reason: Option<Text> = reason.map(|Reason(text)| owned(text));
        self.put_exception(Exception { id, key: out.key.owned(), shelf, retries, reason });
    }

    pub(super) fn put_exception(&mut self, exception: Exception) {
        self.ink.exception_changed(exception.id);
        self.exceptions.put(exception);
    }

    pub(super) fn drop_exception(&mut self, id: i64) -> bool {
        let is_known = self.exceptions.remove(id);
        if is_known {
            self.ink.exception_changed(id);
        }
        is_known
    }

    /// Whether the parked range of a kind answers for a row.
    pub(super) fn covers(&self, kind: &Kind, id: i64) -> bool {
        self.lanes.get(kind).is_some_and(|next| *next <= id)
    }

    /// A range that was read up to where the cursor is, with nothing of it in anybody's hands, is one no more.
    pub(super) fn merge_lanes(&mut self) {
        let (read, out, returned) = (self.read, &self.out, &self.returned);
        self.lanes.retain(|kind, next| {
            let of_it = |origin: &Origin| matches!(origin, Origin::Range(of) if of == kind);
            *next <= read || out.iter().any(|(_, out)| of_it(&out.origin)) || returned.values().any(of_it)
        });
    }
}
