//! MariaDB, on a server of its own.

mod bare_cursor;
mod bare_hold;
mod bare_status;
mod link;
mod memory;
mod outbox;
mod relay;
mod server;
mod slices;

use crate::Outcome;
use crate::table::Report;
use server::Server;

pub(crate) const NAMES: &[&str] = &["cursor", "lease", "hold", "slices", "memory"];

/// How much is measured.
pub(crate) struct Scale {
    pub(crate) runs: usize,
    pub(crate) cursor_rows: usize,
    pub(crate) status_rows: usize,
    pub(crate) backlog_entries: usize,
    pub(crate) retained_entries: usize,
    pub(crate) slices_runs: usize,
}

const FULL: Scale = Scale {
    runs: 9,
    cursor_rows: 400_000,
    status_rows: 100_000,
    backlog_entries: 1_000_000,
    retained_entries: 1_000_000,
    slices_runs: 1,
};
const QUICK: Scale = Scale {
    runs: 3,
    cursor_rows: 50_000,
    status_rows: 20_000,
    backlog_entries: 50_000,
    retained_entries: 50_000,
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
    Ok(())
}
