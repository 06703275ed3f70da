//! What a relay lets others see: for logs, metrics, the demo's live view and the simulation's checkers.

use std::time::Duration;

use postrider_core::breaker::Circuit;
use postrider_core::route::Destination;
use postrider_core::source::SourceError;
use postrider_core::{Entry, EntryId, Refusal, Settlement};

/// Sees each step as it happens. Called on the relay's own task: be quick.
pub trait Observer: Send + Sync {
    /// One step.
    fn saw(&self, step: &Step<'_>);
}

/// Sees nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quiet;

impl Observer for Quiet {
    fn saw(&self, _: &Step<'_>) {}
}

/// What happens in a relay.
#[derive(Debug)]
pub enum Step<'a> {
    /// A claim brought entries.
    Claimed {
        /// How many.
        entries: usize,
        /// Bytes now held in claims.
        bytes_held: usize,
    },
    /// Another relay holds the lease (`true`), or this one has it (`false`); said once per change.
    Standby(bool),
    /// A message got its receipt.
    Published {
        /// Which.
        entry: &'a Entry,
        /// Where it went.
        to: &'a Destination,
    },
    /// A message got none.
    Refused {
        /// Which.
        entry: &'a Entry,
        /// Where it was to go.
        to: &'a Destination,
        /// Why.
        refusal: &'a Refusal,
        /// What is written for it.
        settlement: &'a Settlement,
    },
    /// An entry is given up.
    Buried {
        /// Which.
        entry: &'a Entry,
        /// Why.
        reason: &'a str,
    },
    /// A breaker changed.
    Circuit {
        /// Of this sink.
        sink: &'a str,
        /// Of this topic within it; none for the sink's own.
        topic: Option<&'a str>,
        /// To this.
        circuit: Circuit,
        /// What the broker last said, when it opens.
        reason: Option<&'a str>,
    },
    /// So much is parked that the source reads no further (`true`), or it does again (`false`); said once per change.
    Full(bool),
    /// Nothing is left but ids that were drawn and may still commit (`true`), or something is (`false`); said once per change.
    WaitsForCommits(bool),
    /// Nothing is left but what other relays or transactions have in their hands (`true`), or something is (`false`); said once
    /// per change.
    WaitsForOthers(bool),
    /// An open circuit stopped a batch: this entry and what follows it go back unattempted.
    Halted {
        /// The sink.
        sink: &'a str,
        /// The first entry that was not attempted.
        at: &'a EntryId,
    },
    /// The deadline of a publish call passed with messages unanswered.
    Overdue {
        /// The sink.
        sink: &'a str,
        /// How many.
        entries: usize,
    },
    /// Settlements are written.
    Settled {
        /// How many.
        entries: usize,
    },
    /// A claim was lost to another relay.
    Fenced {
        /// Its entries that were not settled.
        entries: usize,
    },
    /// The database does not answer, or the table or a right on it is not as it must be.
    SourceAway {
        /// Which of the two, and what it said.
        error: &'a SourceError,
        /// When it is asked again.
        again_in: Duration,
    },
    /// The database answers again, and as it should.
    SourceBack,
}
