//! What a relay's process says about itself, so that others can see what only it knows.

use std::time::Duration;

use jiff::Timestamp;

use crate::Text;
use crate::breaker::Circuit;

/// A relay's own word, written every few seconds. Never a payload, never a secret.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The name under which it holds leases.
    pub holder: String,
    /// What it does.
    pub role: Role,
    /// Events published since it started.
    pub published: u64,
    /// Events per second since its last report.
    pub per_second: f64,
    /// Every circuit that is not closed, at most [`crate::limits::REPORT_CIRCUITS_MAX`].
    pub circuits: Vec<Tripped>,
    /// What last went wrong.
    pub trouble: Option<Trouble>,
}

/// What a relay does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It relays.
    Active,
    /// Another holds the lease.
    Standby,
    /// It has ended in good order.
    Stopped,
}

impl Role {
    /// The word that people and `--json` see.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Standby => "standby",
            Self::Stopped => "stopped",
        }
    }
}

/// A circuit that is not closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tripped {
    /// Of this sink.
    pub sink: Text,
    /// Of this topic within it; none for the sink's own.
    pub topic: Option<Text>,
    /// Where it stands.
    pub circuit: Circuit,
    /// Since when it is not closed, by the relay's clock.
    pub since: Timestamp,
}

/// Something that went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// What was said.
    pub reason: Text,
    /// When, by the relay's clock.
    pub at: Timestamp,
}

/// A report as others read it.
#[derive(Clone, Debug, PartialEq)]
pub struct Reported {
    /// What was said.
    pub report: Report,
    /// How long ago, by the database's clock.
    pub age: Duration,
}
