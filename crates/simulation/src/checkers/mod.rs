//! One small checker per property. Each says what is wrong, or nothing.

mod bounded_memory;
mod duplicates_explained;
mod key_order;
mod liveness;
mod no_false_receipt;
mod no_loss;
mod outage_costs_no_retry;
mod retries_bounded;
mod single_holder;

use crate::evidence::Evidence;

/// What a checker is: it says what is wrong.
pub type Checker = fn(&Evidence) -> Result<(), String>;

/// Every checker, by name.
pub const CHECKERS: &[(&str, Checker)] = &[
    ("no_loss", no_loss::check),
    ("key_order", key_order::check),
    ("single_holder", single_holder::check),
    ("no_false_receipt", no_false_receipt::check),
    ("retries_bounded", retries_bounded::check),
    ("outage_costs_no_retry", outage_costs_no_retry::check),
    ("bounded_memory", bounded_memory::check),
    ("duplicates_explained", duplicates_explained::check),
    ("liveness", liveness::check),
];

/// Asks every checker; the answers are prefixed with the checker's name.
#[must_use]
pub fn faults(evidence: &Evidence) -> Vec<String> {
    CHECKERS
        .iter()
        .filter_map(|(name, check)| check(evidence).err().map(|fault| format!("{name}: {fault}")))
        .collect()
}
