//! PostgreSQL, on a server of its own.

mod append;
pub(crate) mod bare_cursor;
mod bare_hold;
mod bare_lease;
pub(crate) mod bare_status;
mod idle;
pub(crate) mod link;
mod memory;
pub(crate) mod outbox;
mod relay;
pub(crate) mod server;
mod slices;

use crate::Outcome;
use crate::table::Report;
use server::Server;

pub(crate) const NAMES: &[&str] = &["cursor", "lease", "hold", "slices", "memory", "idle", "append"];

/// How much is measured.
pub(crate) struct Scale {
    pub(crate) runs: usize,
    pub(crate) cursor_rows: usize,
    pub(crate) status_rows: usize,
    pub(crate) transactions: usize,
    pub(crate) backlog_entries: usize,
    pub(crate) retained_entries: usize,
    pub(crate) slices_runs: usize,
}

const FULL: Scale = Scale {
    runs: 9,
    cursor_rows: 400_000,
    status_rows: 100_000,
    transactions: 10_000,
    backlog_entries: 1_000_000,
    retained_entries: 1_000_000,
    slices_runs: 1,
};
const QUICK: Scale = Scale {
    runs: 5,
    cursor_rows: 100_000,
    status_rows: 30_000,
    transactions: 2_000,
    backlog_entries: 100_000,
    retained_entries: 100_000,
    slices_runs: 3,
};

/// Measures what is wanted.
pub(crate) fn measure(quick: bool, wanted: &dyn Fn(&str) -> bool, report: &mut Report) -> Outcome<()> {
    let scale = if quick { QUICK } else { FULL };
    let server = Server::start()?;
    if wanted("cursor") {
        relay::cursor(&server, scale.cursor_rows, scale.runs, report)?;
    }
    if wanted("lease") {
        relay::lease(&server, scale.status_rows, scale.runs, report)?;
    }
    if wanted("hold") {
        relay::hold(&server, scale.status_rows, scale.runs, report)?;
    }
    if wanted("slices") {
        slices::slices(&server, &scale, report)?;
    }
    if wanted("memory") {
        memory::memory(&server, &scale, report)?;
    }
    if wanted("idle") {
        idle::idle(&server, report)?;
    }
    if wanted("append") {
        append::append(&server, scale.transactions, scale.runs, report)?;
    }
    Ok(())
}
