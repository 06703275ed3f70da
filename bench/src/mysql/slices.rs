//! Whether the end of a long backlog goes as fast as its beginning.

use std::sync::Arc;

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use postrider_file::NullSink;
use postrider_relay::Stop;
use tokio::runtime::Runtime;

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
            let (mut ratios, mut rates) = (Vec::new(), Vec::new());
            for _ in 0..scale.slices_runs {
                let spans = drain(&outbox, retained, pending, with_reader)?;
                ratios.push(spans[0] / spans[SLICES - 1]);
                rates.push((pending / SLICES) as f64 / spans[SLICES - 1]);
            }
            let beside = format!("{:.0} entries/s at the end", median(rates.into_iter()));
            report.reached(&format!("{}{name}", kind.name()), median(ratios.into_iter()), AT_LEAST, &beside);
        }
    }
    Ok(())
}

/// How long each slice took, in seconds.
fn drain(outbox: &Outbox<'_>, retained: usize, pending: usize, with_reader: bool) -> Outcome<Vec<f64>> {
    let runtime = runtime()?;
    let mut writer = Elsewhere::connect(&runtime, outbox, &["start transaction"])?;
    outbox.fill(retained, pending, |row| writer.run(row))?;
    let snapshot = [
        "set session transaction isolation level repeatable read",
        "start transaction with consistent snapshot",
    ];
    let _reader = with_reader.then(|| Elsewhere::connect(&runtime, outbox, &snapshot)).transpose()?;
    let (stop, sink) = (Stop::new(), Arc::new(NullSink::default()));
    let watch = Arc::new(Watch::new(&stop, pending));
    let relay = runtime.block_on(open(outbox, &sink, watch.clone(), |_| {}))?;
    runtime.block_on(relay.run(&stop)).map_err(|fault| failed(&fault))?;
    Ok(watch.spans())
}

/// A connection with an open transaction.
struct Elsewhere<'r> {
    runtime: &'r Runtime,
    conn: Conn,
}

impl<'r> Elsewhere<'r> {
    fn connect(runtime: &'r Runtime, outbox: &Outbox<'_>, begin: &[&str]) -> Outcome<Self> {
        let conn = runtime.block_on(connect(&outbox.url()))?;
        let mut elsewhere = Self { runtime, conn };
        begin.iter().try_for_each(|sql| elsewhere.run(sql))?;
        Ok(elsewhere)
    }

    fn run(&mut self, sql: &str) -> Outcome<()> {
        Ok(self.runtime.block_on(self.conn.query_drop(sql))?)
    }
}

impl Drop for Elsewhere<'_> {
    /// Whoever empties the table next need not wait for it.
    fn drop(&mut self) {
        let _ = self.run("rollback");
    }
}
