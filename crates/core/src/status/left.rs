//! Rows that were left where they are, and why.

use super::Rank;
use crate::route::Hold;

/// Why a row was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
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
pub(super) struct Left {
    /// The first of them. What comes later of its key is not handed out before it.
    pub(super) first: Rank,
    /// When it is due, by the database's clock.
    pub(super) due_us: Option<i64>,
    pub(super) is_held: bool,
    pub(super) is_parked: bool,
    pub(super) is_next: bool,
    /// It stands ahead of the clock, and so of any mark: it is looked at with every claim.
    pub(super) is_ahead: bool,
}

impl Left {
    pub(super) fn new(rank: &Rank, why: Why, is_ahead: bool) -> Self {
        Self {
            first: rank.clone(),
            due_us: if let Why::Due(at) = why { Some(at) } else { None },
            is_held: why == Why::Held(Hold::Key),
            is_parked: why == Why::Held(Hold::Route),
            is_next: why == Why::Next,
            is_ahead,
        }
    }

    pub(super) fn join(&mut self, other: Self) {
        if other.first.is_before(&self.first) {
            self.first = other.first;
        }
        self.due_us = [self.due_us, other.due_us].into_iter().flatten().min();
        self.is_held |= other.is_held;
        self.is_parked |= other.is_parked;
        self.is_next |= other.is_next;
        self.is_ahead &= other.is_ahead;
    }
}
