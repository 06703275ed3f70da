//! A stored envelope and its delivery state.

use std::fmt;

use crate::{Envelope, Key, Text};

/// What the table calls the row: its primary key. Integers order as the table hands them out.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EntryId {
    /// A bigint.
    Int(i64),
    /// A UUID or any other text.
    Text(Text),
}

impl EntryId {
    /// The number, where the table counts.
    #[must_use]
    pub fn int(&self) -> Option<i64> {
        match self {
            Self::Int(id) => Some(*id),
            Self::Text(_) => None,
        }
    }
}

impl From<i64> for EntryId {
    fn from(id: i64) -> Self {
        Self::Int(id)
    }
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(id) => write!(f, "{id}"),
            Self::Text(id) => f.write_str(id),
        }
    }
}

impl fmt::Debug for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Where an entry stands. Each layout maps its own status words onto these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum State {
    /// To be published, now or after its next try is due.
    Pending,
    /// In a relay's hands.
    Leased,
    /// The broker gave its receipt.
    Published,
    /// Given up until an operator revives it.
    Dead,
    /// Its status is none of the layout's words: no relay touches it until an operator revives or buries it, by id or by
    /// this state.
    Unknown,
}

impl State {
    /// The word that people and `--json` see.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Leased => "leased",
            Self::Published => "published",
            Self::Dead => "dead",
            Self::Unknown => "unknown",
        }
    }
}

/// One entry as a source hands it out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The row's own id.
    pub id: EntryId,
    /// What it says.
    pub envelope: Envelope,
    /// What it stays in order with; none where order is not kept.
    pub key: Option<Key>,
    /// Retries scheduled so far (REQUIREMENTS.md, "Counting").
    pub retries: u32,
    /// The row's own bound on retries, where the table has one (A8).
    pub retries_max: Option<u32>,
    /// Why the row could not be read as an event, if so: such an entry is dead, never dropped.
    pub flaw: Option<Flaw>,
}

/// Why a row is no event: a column that holds nonsense, a NULL where none may be, a hash that does not match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flaw(pub String);

impl Entry {
    /// What an entry costs beside its text: the structs, the maps that track it, the message made of it.
    pub const OVERHEAD_BYTES: usize = 512;

    /// Bytes that this entry counts for in the limits.
    #[must_use]
    pub fn bytes(&self) -> usize {
        Self::OVERHEAD_BYTES + self.envelope.bytes()
    }
}
