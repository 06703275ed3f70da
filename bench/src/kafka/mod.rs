//! PostgreSQL → Kafka, on servers of their own.

mod broker;
mod drain;
mod latency;
mod memory;
mod produce;
mod readback;

use crate::Outcome;
use crate::postgres::outbox::Kind;
use crate::postgres::server::Server;
use crate::table::Report;
use broker::Broker;

pub(crate) const NAMES: &[&str] = &["cursor", "hot", "lease", "hold", "latency", "memory"];

/// How much is measured.
pub(crate) struct Scale {
    pub(crate) runs: usize,
    pub(crate) cursor_rows: usize,
    pub(crate) status_rows: usize,
    pub(crate) seconds: u64,
}

const FULL: Scale = Scale { runs: 5, cursor_rows: 500_000, status_rows: 100_000, seconds: 20 };
const QUICK: Scale = Scale { runs: 3, cursor_rows: 100_000, status_rows: 30_000, seconds: 5 };

/// Measures what is wanted.
pub(crate) fn measure(quick: bool, wanted: &dyn Fn(&str) -> bool, report: &mut Report) -> Outcome<()> {
    let scale = if quick { QUICK } else { FULL };
    let (server, broker) = (Server::start()?, Broker::start()?);
    for (name, kind, rows) in [
        ("cursor", Kind::Native, scale.cursor_rows),
        ("lease", Kind::Leased, scale.status_rows),
        ("hold", Kind::Held, scale.status_rows),
    ] {
        if wanted(name) {
            drain::halves(&server, &broker, kind, rows, scale.runs, report)?;
        }
    }
    if wanted("hot") {
        drain::hot_key(&server, &broker, scale.cursor_rows, scale.runs, report)?;
    }
    if wanted("latency") {
        latency::latency(&server, &broker, scale.seconds, report)?;
    }
    if wanted("memory") {
        memory::memory(&server, &broker, &scale, report)?;
    }
    Ok(())
}
