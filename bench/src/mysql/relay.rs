//! The relay into the null sink, against the bare loops of its SQL.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use postrider_file::NullSink;
use postrider_mysql::{MysqlSource, open_source};
use postrider_relay::{Observer, Poll, Quiet, Relay, Settings, Stop};

use super::outbox::{Kind, Outbox, runtime};
use super::server::Server;
use super::{bare_cursor, bare_hold, bare_status};
use crate::Outcome;
use crate::load::{BATCH_ENTRIES, failed};
use crate::measure::{Cost, Way, interleave};
use crate::table::Report;

/// What the issue asks of the relay, against the bare loop.
const AT_LEAST: f64 = 0.8;

/// Follows the native table by id.
pub(crate) fn cursor(server: &Server, rows: usize, runs: usize, report: &mut Report) -> Outcome<()> {
    report.server_table(
        &format!("MariaDB → null, native table by cursor, {rows} rows, batches of {BATCH_ENTRIES}"),
        "row",
    );
    let outbox = Outbox::create(server, Kind::Native)?;
    outbox.fill(0, rows, |_| Ok(()))?;
    let bare: Way<'_, Box<dyn Error>> = Box::new(|| {
        outbox.forget(0);
        let runtime = runtime()?;
        let mut bare = runtime.block_on(bare_cursor::Loop::open(&outbox))?;
        server.cost(|| runtime.block_on(bare.run(rows)))
    });
    let relay: Way<'_, Box<dyn Error>> = Box::new(|| {
        outbox.forget(0);
        drain(&outbox, rows)
    });
    let [bare, relay] = interleave(runs, [bare, relay])?;
    report.line("bare loop by hand", rows, &bare, &bare, None);
    report.line("relay", rows, &relay, &bare, Some(AT_LEAST));
    Ok(())
}

/// Claims and settles rows of Ledger's table, each account in order.
pub(crate) fn lease(server: &Server, rows: usize, runs: usize, report: &mut Report) -> Outcome<()> {
    report.server_table(
        &format!("MariaDB → null, Ledger's table by lease, {rows} rows, batches of {BATCH_ENTRIES}"),
        "row",
    );
    let outbox = Outbox::create(server, Kind::Leased)?;
    let bare: Way<'_, Box<dyn Error>> = Box::new(|| {
        outbox.fill(0, rows, |_| Ok(()))?;
        let runtime = runtime()?;
        let mut bare = runtime.block_on(bare_status::Loop::open(&outbox))?;
        server.cost(|| runtime.block_on(bare.run(rows)))
    });
    let relay: Way<'_, Box<dyn Error>> = Box::new(|| {
        outbox.fill(0, rows, |_| Ok(()))?;
        drain(&outbox, rows)
    });
    let [bare, relay] = interleave(runs, [bare, relay])?;
    report.line("bare loop of the same SQL", rows, &bare, &bare, None);
    report.line("relay", rows, &relay, &bare, Some(AT_LEAST));
    Ok(())
}

/// Holds rows of the same table, without order.
pub(crate) fn hold(server: &Server, rows: usize, runs: usize, report: &mut Report) -> Outcome<()> {
    report.server_table(
        &format!("MariaDB → null, Ledger's table, rows held, {rows} rows, batches of {BATCH_ENTRIES}"),
        "row",
    );
    let outbox = Outbox::create(server, Kind::Held)?;
    let bare: Way<'_, Box<dyn Error>> = Box::new(|| {
        outbox.fill(0, rows, |_| Ok(()))?;
        let runtime = runtime()?;
        let mut bare = runtime.block_on(bare_hold::Loop::open(&outbox))?;
        server.cost(|| runtime.block_on(bare.run(rows)))
    });
    let relay: Way<'_, Box<dyn Error>> = Box::new(|| {
        outbox.fill(0, rows, |_| Ok(()))?;
        drain(&outbox, rows)
    });
    let [bare, relay] = interleave(runs, [bare, relay])?;
    report.line("bare loop by hand", rows, &bare, &bare, None);
    report.line("relay", rows, &relay, &bare, Some(AT_LEAST));
    Ok(())
}

/// Runs the relay as the binary does, until the outbox is empty.
fn drain(outbox: &Outbox<'_>, rows: usize) -> Outcome<Cost> {
    let (runtime, sink) = (runtime()?, Arc::new(NullSink::default()));
    let until_empty = |settings: &mut Settings| settings.until_empty = Some(Duration::from_secs(30));
    let relay = runtime.block_on(open(outbox, &sink, Arc::new(Quiet), until_empty))?;
    let cost = outbox
        .server
        .cost(|| runtime.block_on(relay.run(&Stop::new())).map(drop).map_err(|fault| failed(&fault)))?;
    assert_eq!(sink.receipts(), rows as u64, "the relay publishes every row");
    Ok(cost)
}

/// A relay over an outbox, with its layout's settings but for the size of a batch and the interval, which would be waited for
/// once behind the last entry.
pub(crate) async fn open(
    outbox: &Outbox<'_>,
    sink: &Arc<NullSink>,
    observer: Arc<dyn Observer>,
    change: impl FnOnce(&mut Settings),
) -> Outcome<Relay<MysqlSource>> {
    let source = open_source(&outbox.config()?).await.map_err(|fault| failed(&fault))?;
    let relay = Relay::builder(source, &outbox.layout)
        .sink("null", sink.clone())
        .observer(observer)
        .settings(|settings| {
            settings.batch_entries = BATCH_ENTRIES;
            settings.poll = Poll::default();
            change(settings);
        });
    relay.build().map_err(|fault| failed(&fault))
}
