//! What will be written for one entry.

use std::time::Duration;

use crate::verdict::Reason;

/// What a source writes for one entry of a claim. Delays are spans, not times: the database's clock adds them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settlement {
    /// The broker gave its receipt.
    Published,
    /// Attempted in vain through no fault of its own: goes back uncounted and is handed out again first of its key.
    Postponed {
        /// Not before this long from now.
        after: Duration,
        /// What the broker said.
        reason: Reason,
    },
    /// A failed try: goes back with its new count.
    Retried {
        /// Retries scheduled so far, this one included.
        retries: u32,
        /// Not before this long from now.
        after: Duration,
        /// What was wrong.
        reason: Reason,
    },
    /// Given up.
    Dead {
        /// Retries that were scheduled.
        retries: u32,
        /// What was wrong.
        reason: Reason,
    },
    /// Never attempted: as if it had not been claimed.
    Released,
}
