//! SQLite, which runs in this process.

mod append;
mod bare;
mod memory;
mod outbox;
mod relay;

use crate::Outcome;
use crate::table::Report;

pub(crate) const NAMES: &[&str] = &["cursor", "lease", "append", "memory"];

/// How much is measured.
struct Scale {
    runs: usize,
    cursor_rows: usize,
    lease_rows: usize,
    transactions: usize,
    pending_entries: usize,
}

const FULL: Scale = Scale {
    runs: 11,
    cursor_rows: 400_000,
    lease_rows: 100_000,
    transactions: 20_000,
    pending_entries: 1_000_000,
};
const QUICK: Scale = Scale {
    runs: 9,
    cursor_rows: 100_000,
    lease_rows: 30_000,
    transactions: 4_000,
    pending_entries: 100_000,
};

/// Measures what is wanted.
pub(crate) fn measure(quick: bool, wanted: &dyn Fn(&str) -> bool, report: &mut Report) -> Outcome<()> {
    let scale = if quick { QUICK } else { FULL };
    if wanted("cursor") {
        relay::cursor(scale.cursor_rows, scale.runs, report)?;
    }
    if wanted("lease") {
        relay::lease(scale.lease_rows, scale.runs, report)?;
    }
    if wanted("append") {
        append::append(scale.transactions, scale.runs, report)?;
    }
    if wanted("memory") {
        memory::memory(scale.pending_entries, report)?;
    }
    Ok(())
}
