//! What a cursor keeps in the database.

use std::ops::RangeInclusive;

use jiff::Timestamp;

use crate::gaps::ClosedGap;
use crate::route::Kind;
use crate::{Key, Text};

/// Everything that is persisted. Every id up to `position` is published, an exception, in a parked range or in a gap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    /// How far the table has been dealt with.
    pub position: i64,
    /// Ids that may still commit, or that were seen late and are not settled.
    pub gaps: Vec<RangeInclusive<i64>>,
    /// Ids that were given up, and are looked at again for a day.
    pub closed: Vec<ClosedGap>,
    /// Rows that did not go straight through.
    pub exceptions: Vec<Exception>,
    /// Kinds that are held as a whole.
    pub ranges: Vec<ParkedRange>,
}

/// A row that did not go straight through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exception {
    /// Its id in the table.
    pub id: i64,
    /// What it stays in order with.
    pub key: Option<Key>,
    /// Where it stands.
    pub shelf: Shelf,
    /// Retries scheduled so far.
    pub retries: u32,
    /// What was last wrong.
    pub reason: Option<Text>,
}

/// Where an exception stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shelf {
    /// Behind an earlier one of its key or a held route; free to go once that is gone.
    Parked,
    /// Tried in vain.
    Waiting {
        /// Not before this, by the database's clock.
        due: Timestamp,
    },
    /// Given up.
    Dead,
}

impl Shelf {
    /// What it is called where it is kept.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Parked => "parked",
            Self::Waiting { .. } => "waiting",
            Self::Dead => "dead",
        }
    }

    /// When a waiting one is due, in microseconds since 1970.
    #[must_use]
    pub fn due_us(self) -> Option<i64> {
        match self {
            Self::Waiting { due } => Some(due.as_microsecond()),
            Self::Parked | Self::Dead => None,
        }
    }

    /// By its word; `due` is asked for where it waits.
    pub fn of(word: &str, due: impl FnOnce() -> Timestamp) -> Self {
        match word {
            "dead" => Self::Dead,
            "waiting" => Self::Waiting { due: due() },
            _ => Self::Parked,
        }
    }
}

/// All rows of a kind from `first` on have not been handed out yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParkedRange {
    /// The kind.
    pub kind: Kind,
    /// The first id of it.
    pub first: i64,
}
