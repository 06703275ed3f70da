//! The relay into Kafka, against its two halves one after the other.

use std::cell::Cell;
use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use postrider_core::route::Route;
use postrider_core::sink::Sink;
use postrider_kafka::{KafkaConfig, KafkaSink};
use postrider_postgres::{PostgresSource, open_source};
use postrider_relay::{Observer, Poll, Quiet, Relay, Settings, Stop, SystemClock};

use super::broker::Broker;
use super::produce::produce;
use super::readback::{Arrived, read};
use crate::Outcome;
use crate::load::{BATCH_ENTRIES, failed};
use crate::measure::{Cost, Way, interleave};
use crate::postgres::outbox::{Kind, Outbox, runtime};
use crate::postgres::server::Server;
use crate::postgres::{bare_cursor, bare_status};
use crate::table::Report;

/// What the issue asks: of the halves, and of a hot key against many.
const AT_LEAST: f64 = 0.8;
const AT_LEAST_OF_MANY_KEYS: f64 = 0.5;
const KEYS: usize = 10_000;

/// A table's rows into three partitions.
pub(crate) fn halves(
    server: &Server,
    broker: &Broker,
    kind: Kind,
    rows: usize,
    runs: usize,
    report: &mut Report,
) -> Outcome<()> {
    let title = format!("PostgreSQL → Kafka, acks=all, by {}, {rows} rows, {KEYS} keys", kind.name());
    report.server_table(&title, "row");
    let outbox = Outbox::create(server, kind)?.with_keys(KEYS);
    let arrived = Cell::new(Arrived::default());
    if kind == Kind::Native {
        outbox.fill(0, rows, |_| Ok(()))?;
    }
    let reading: Way<'_, Box<dyn Error>> = Box::new(|| bare(server, &outbox, rows));
    let producing: Way<'_, Box<dyn Error>> = Box::new(|| {
        let topic = broker.topic();
        let cost = broker.cost(server, || produce(broker, &topic, rows, KEYS))?;
        broker.forget(&topic)?;
        Ok(cost)
    });
    let relay: Way<'_, Box<dyn Error>> = Box::new(|| drain(&outbox, broker, rows, &arrived));
    let [reading, producing, relay] = interleave(runs, [reading, producing, relay])?;
    let both = reading.one_after_the_other(&producing);
    report.line("reading and settling alone", rows, &reading, &both, None);
    report.line("producing alone", rows, &producing, &both, None);
    report.line("the two, one after the other", rows, &both, &both, None);
    report.line("relay", rows, &relay, &both, Some(AT_LEAST));
    report_arrived(kind == Kind::Native, arrived.get(), report);
    Ok(())
}

/// All events of one key.
pub(crate) fn hot_key(
    server: &Server,
    broker: &Broker,
    rows: usize,
    runs: usize,
    report: &mut Report,
) -> Outcome<()> {
    report
        .server_table(&format!("PostgreSQL → Kafka, native table, {rows} rows: one key against many"), "row");
    let many = Outbox::create(server, Kind::Native)?.with_keys(KEYS);
    let hot = Outbox::create(server, Kind::Native)?.with_keys(1);
    let arrived = Cell::new(Arrived::default());
    for outbox in [&many, &hot] {
        outbox.fill(0, rows, |_| Ok(()))?;
    }
    let ways = [&many, &hot]
        .map(|outbox| -> Way<'_, Box<dyn Error>> { Box::new(|| drain(outbox, broker, rows, &arrived)) });
    let [many, hot] = interleave(runs, ways)?;
    report.line(&format!("{KEYS} keys"), rows, &many, &many, None);
    report.line("one key", rows, &hot, &many, Some(AT_LEAST_OF_MANY_KEYS));
    report_arrived(true, arrived.get(), report);
    Ok(())
}

/// What is wrong: duplicates have no excuse where nothing fails, and order counts where the table gives one.
fn report_arrived(ordered: bool, arrived: Arrived, report: &mut Report) {
    let disorder = if ordered { arrived.reordered } else { 0 };
    report.arrived(&arrived.to_string(), arrived.lost + arrived.duplicates + disorder);
}

fn bare(server: &Server, outbox: &Outbox<'_>, rows: usize) -> Outcome<Cost> {
    let runtime = prepare(outbox, rows)?;
    if outbox.kind == Kind::Native {
        let bare = runtime.block_on(bare_cursor::Loop::open(&outbox.url()))?;
        return server.cost(|| runtime.block_on(bare.run(rows)));
    }
    let bare = runtime.block_on(bare_status::Loop::open(outbox))?;
    server.cost(|| runtime.block_on(bare.run(rows)))
}

/// Everything is pending again.
fn prepare(outbox: &Outbox<'_>, rows: usize) -> Outcome<tokio::runtime::Runtime> {
    match outbox.kind {
        Kind::Native => outbox.forget(0),
        _ => outbox.fill(0, rows, |_| Ok(()))?,
    }
    runtime()
}

/// Runs the relay as the binary does, until the outbox is empty, and counts what has arrived.
fn drain(outbox: &Outbox<'_>, broker: &Broker, rows: usize, arrived: &Cell<Arrived>) -> Outcome<Cost> {
    let (runtime, topic) = (prepare(outbox, rows)?, broker.topic());
    let until_empty = |settings: &mut Settings| {
        settings.until_empty = Some(Duration::from_secs(30));
        // A team's own interval would be waited for once, behind the last entry: it is no part of the rate.
        settings.poll = Poll::default();
    };
    let relay = runtime.block_on(open(outbox, broker, &topic, Arc::new(Quiet), until_empty))?;
    let cost = broker.cost(outbox.server, || {
        runtime.block_on(relay.run(&Stop::new())).map(drop).map_err(|fault| failed(&fault))
    })?;
    let mut sum = arrived.get();
    sum += read(broker, &topic, rows, number(outbox, rows))?;
    arrived.set(sum);
    broker.forget(&topic)?;
    Ok(cost)
}

/// Which row an event is: the native table has numbers in its ids, the teams' have hashes of them.
fn number(outbox: &Outbox<'_>, rows: usize) -> impl Fn(&str) -> Option<usize> + use<> {
    let hashes = match outbox.kind {
        Kind::Native => HashMap::new(),
        _ => outbox.numbers(rows),
    };
    move |id: &str| match hashes.get(id) {
        Some(number) => Some(*number),
        None => id.rsplit('-').next()?.parse().ok(),
    }
}

/// A relay over an outbox, with its layout's settings but for the size of a batch.
pub(crate) async fn open(
    outbox: &Outbox<'_>,
    broker: &Broker,
    topic: &str,
    observer: Arc<dyn Observer>,
    change: impl FnOnce(&mut Settings),
) -> Outcome<Relay<PostgresSource>> {
    let source = open_source(&outbox.config()?).await.map_err(|fault| failed(&fault))?;
    let everything =
        Route { event_type: "*".to_owned(), sink: None, topic: Some(topic.to_owned()), order: None };
    let relay = Relay::builder(source, &outbox.layout)
        .sink("kafka", sink(outbox, broker)?)
        .route(everything)
        .observer(observer)
        .settings(|settings| {
            settings.batch_entries = BATCH_ENTRIES;
            change(settings);
        });
    relay.build().map_err(|fault| failed(&fault))
}

fn sink(outbox: &Outbox<'_>, broker: &Broker) -> Outcome<Arc<dyn Sink>> {
    let mut config =
        KafkaConfig::from_url(&format!("kafka://{}", broker.address())).map_err(|fault| failed(&fault))?;
    config.form = outbox.layout.message.clone();
    let sink = KafkaSink::open(config, Arc::new(SystemClock::new())).map_err(|fault| failed(&fault))?;
    Ok(Arc::new(sink))
}
