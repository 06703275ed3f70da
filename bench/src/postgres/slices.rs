//! Whether the end of a long backlog goes as fast as its beginning.

use std::sync::Arc;

use postrider_file::NullSink;
use postrider_relay::Stop;
use tokio::runtime::Runtime;
use tokio_postgres::Client;

use super::Scale;
use super::link::connect;
use super::outbox::{Kind, Outbox, runtime};
use super::relay::open;
use super::server::Server;
use crate::Outcome;
use crate::load::failed;
use crate::measure::median;
use crate::table::{Report, print};
use crate::watch::{AT_LEAST, SLICES, Watch};

/// Each way, with a gap at the bottom, and with a reader elsewhere whose snapshot is as old as the backlog.
pub(crate) fn slices(server: &Server, scale: &Scale, report: &mut Report) -> Outcome<()> {
    let Scale { retained_entries: retained, backlog_entries: pending, .. } = *scale;
    print(&format!(
        "\nThe last tenth of a backlog against its first, {pending} entries behind {retained} published ones, a gap between\n"
    ));
    for kind in Kind::ALL {
        let outbox = Outbox::create(server, kind)?;
        for (name, with_reader) in [("", false), (", an old snapshot open elsewhere", true)] {
            let mut ratios = Vec::new();
            let mut rates = Vec::new();
            for _ in 0..scale.slices_runs {
                let spans = drain(&outbox, retained, pending, with_reader)?;
                ratios.push(spans[0] / spans[SLICES - 1]);
                rates = spans.iter().map(|span| (pending / SLICES) as f64 / span).collect();
            }
            let rates: Vec<String> = rates.iter().map(|rate| format!("{:.1}", rate / 1e3)).collect();
            let beside = format!("thousands of entries/s: {}", rates.join(" "));
            report.reached(&format!("{}{name}", kind.name()), median(ratios.into_iter()), AT_LEAST, &beside);
        }
    }
    Ok(())
}

/// How long each slice took, in seconds.
fn drain(outbox: &Outbox<'_>, retained: usize, pending: usize, with_reader: bool) -> Outcome<Vec<f64>> {
    let runtime = runtime()?;
    let writer = Elsewhere::connect(&runtime, outbox, "begin")?;
    outbox.fill(retained, pending, |row| writer.run(row))?;
    let _reader = with_reader
        .then(|| Elsewhere::connect(&runtime, outbox, "begin isolation level repeatable read; select 1"))
        .transpose()?;
    let (stop, sink) = (Stop::new(), Arc::new(NullSink::default()));
    let watch = Arc::new(Watch::new(&stop, pending));
    let relay = runtime.block_on(open(outbox, &sink, watch.clone(), |_| {}))?;
    runtime.block_on(relay.run(&stop)).map_err(|fault| failed(&fault))?;
    Ok(watch.spans())
}

/// A connection with an open transaction.
struct Elsewhere<'r> {
    runtime: &'r Runtime,
    client: Client,
}

impl<'r> Elsewhere<'r> {
    fn connect(runtime: &'r Runtime, outbox: &Outbox<'_>, begin: &str) -> Outcome<Self> {
        let client = runtime.block_on(connect(&outbox.url()))?;
        runtime.block_on(client.batch_execute(begin))?;
        Ok(Self { runtime, client })
    }

    fn run(&self, sql: &str) -> Outcome<()> {
        Ok(self.runtime.block_on(self.client.batch_execute(sql))?)
    }
}

impl Drop for Elsewhere<'_> {
    /// Whoever empties the table next need not wait for it.
    fn drop(&mut self) {
        let _ = self.run("rollback");
    }
}
