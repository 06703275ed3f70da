//! The relay into the null sink, against the bare loops of its SQL.

use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use postrider_core::Text;
use postrider_core::clock::Clock;
use postrider_file::NullSink;
use postrider_relay::{Quiet, Relay, Settings, Stop, SystemClock};
use postrider_sqlite::open_source;

use super::bare::{self, Take};
use super::outbox::Outbox;
use crate::Outcome;
use crate::load::{BATCH_ENTRIES, failed};
use crate::measure::{Way, busiest, cost, interleave};
use crate::table::Report;

/// What the issue asks of the relay.
const AT_LEAST: f64 = 0.8;

/// Follows the native table by id.
pub(crate) fn cursor(rows: usize, runs: usize, report: &mut Report) -> Outcome<()> {
    report.table(
        &format!("SQLite → null, native table by cursor, {rows} rows, batches of {BATCH_ENTRIES}"),
        "row",
    );
    let outbox = Outbox::native(rows)?;
    let bare = |take: Take| -> Way<'_, Box<dyn Error>> {
        let outbox = &outbox;
        Box::new(move || {
            outbox.rewind()?;
            Ok(cost(|| bare::cursor(outbox, rows, take).map(|()| Duration::ZERO))?)
        })
    };
    let relay: Way<'_, Box<dyn Error>> = Box::new(|| {
        outbox.rewind()?;
        cost(|| drain(&outbox, rows))
    });
    let ways = [bare(Take::Values), bare(Take::Bytes), bare(Take::Nothing), relay];
    let [values, bytes, nothing, relay] = interleave(runs, ways)?;
    report.line("bare loop of the same SQL", rows, &values, &values, None);
    report.line("the same, copying into one buffer", rows, &bytes, &values, None);
    report.line("the same, forgetting what it reads", rows, &nothing, &values, None);
    report.line("relay", rows, &relay, &values, Some(AT_LEAST));
    Ok(())
}

/// Claims and settles rows of a status table.
pub(crate) fn lease(rows: usize, runs: usize, report: &mut Report) -> Outcome<()> {
    report.table(
        &format!("SQLite → null, status table by lease, {rows} rows, batches of {BATCH_ENTRIES}"),
        "row",
    );
    let outbox = Outbox::status(rows)?;
    let bare = |take: Take| -> Way<'_, Box<dyn Error>> {
        let outbox = &outbox;
        Box::new(move || {
            let copy = outbox.copy()?;
            Ok(cost(|| bare::lease(&copy, rows, take).map(|()| Duration::ZERO))?)
        })
    };
    let relay: Way<'_, Box<dyn Error>> = Box::new(|| {
        let copy = outbox.copy()?;
        cost(|| drain(&copy, rows))
    });
    let [values, nothing, relay] = interleave(runs, [bare(Take::Values), bare(Take::Nothing), relay])?;
    report.line("bare loop of the same SQL", rows, &values, &values, None);
    report.line("the same, forgetting what it reads", rows, &nothing, &values, None);
    report.line("relay", rows, &relay, &values, Some(AT_LEAST));
    Ok(())
}

/// Runs the relay as the binary does, until the outbox is empty; says what the busiest of the source's threads took.
fn drain(outbox: &Outbox, rows: usize) -> Outcome<Duration> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let sink = Arc::new(NullSink::default());
    let relay = Relay {
        source: open_source(&outbox.config(), Arc::clone(&clock)).map_err(|fault| failed(&fault))?,
        sinks: vec![(Text::from("null"), sink.clone())],
        router: Arc::new(outbox.layout.router(Vec::new(), "null")),
        settings: Settings {
            batch_entries: BATCH_ENTRIES,
            until_empty: Some(Duration::from_secs(30)),
            ..Settings::default()
        },
        clock,
        chance: Mutex::new(Box::new(|| 0.5)),
        observer: Arc::new(Quiet),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(relay.run(&Stop::new())).map_err(|fault| failed(&fault))?;
    assert_eq!(sink.receipts(), rows as u64, "the relay publishes every row");
    Ok(busiest("postrider-"))
}
