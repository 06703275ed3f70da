//! From the commit to the receipt, at a steady rate of one-row transactions.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use postrider_core::clock::{Clock, Instant};
use postrider_relay::{Observer, Step, Stop, SystemClock};

use super::broker::Broker;
use super::drain::open;
use crate::Outcome;
use crate::load::{failed, payload};
use crate::measure::cost;
use crate::postgres::link::connect_durable;
use crate::postgres::outbox::{Kind, Outbox, runtime};
use crate::postgres::server::Server;
use crate::table::{Report, print};

/// Aims on a quiet machine, in milliseconds: p50 and p99.
const RATES: [(u64, f64, f64); 2] = [(200, 5.0, 15.0), (2_000, 5.0, 40.0)];
/// The first events find everything cold.
const WARM: usize = 200;

pub(crate) fn latency(server: &Server, broker: &Broker, seconds: u64, report: &mut Report) -> Outcome<()> {
    print(&format!(
        "\nFrom commit to receipt, native layout by polling, one-row transactions over {seconds} s\n"
    ));
    for (rate, p50, p99) in RATES {
        one(server, broker, rate, seconds, (p50, p99), report)?;
    }
    Ok(())
}

fn one(
    server: &Server,
    broker: &Broker,
    rate: u64,
    seconds: u64,
    aim: (f64, f64),
    report: &mut Report,
) -> Outcome<()> {
    let outbox = Outbox::create(server, Kind::Native)?;
    let (topic, events, stop) = (broker.topic(), WARM + usize::try_from(rate * seconds)?, Stop::new());
    let watch = Arc::new(Watch::new(events, stop.clone()));
    let runtime = runtime()?;
    let relay = runtime.block_on(open(&outbox, broker, &topic, watch.clone(), |_| {}))?;
    let (mut relay_cost, broker_before, database_before) = (None, broker.cpu(), server.cpu());
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| write(&outbox, rate, &watch).map_err(|error| error.to_string()));
        let ran = cost(|| {
            let ran = runtime.block_on(relay.run(&stop));
            ran.map(|_| Duration::ZERO).map_err(|fault| failed(&fault))
        });
        // The writer's share is measured by itself and taken off.
        relay_cost = Some((ran?.cpu, writer.join().map_err(|_| "the writer panicked")??));
        Ok::<_, Box<dyn std::error::Error>>(())
    })?;
    let (cpu, writing) = relay_cost.unwrap_or_default();
    let per_event = |span: Duration| span.as_secs_f64() * 1e6 / events as f64;
    let beside = format!(
        "relay {:.0} + database {:.0} + broker {:.0} µs of CPU per event",
        per_event(cpu.saturating_sub(writing)),
        per_event(server.cpu().saturating_sub(database_before)),
        per_event(broker.cpu().saturating_sub(broker_before)),
    );
    let mut waits = watch.waits();
    waits.sort_unstable();
    let at = |share: f64| waits[((waits.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    report.latency(&format!("{rate}/s"), (at(0.5), at(0.99), at(1.0)), aim, &beside);
    broker.forget(&topic)
}

/// Commits at a steady pace; answers its own CPU time.
fn write(outbox: &Outbox<'_>, rate: u64, watch: &Watch) -> Outcome<Duration> {
    let runtime = runtime()?;
    let payload = payload();
    let cost = cost(|| {
        runtime.block_on(async {
            let client = connect_durable(&outbox.url()).await?;
            let insert = client
                .prepare(
                    "insert into outbox (type, aggregate_type, aggregate_id, payload) \
                     values ('bench.order.placed.v1', 'Order', $1, $2)",
                )
                .await?;
            let start = watch.clock.instant();
            for event in 0..watch.events {
                let due = start + Duration::from_secs(1) / u32::try_from(rate)? * u32::try_from(event)?;
                watch.clock.sleep(due.since(watch.clock.instant())).await;
                client.execute(&insert, &[&event.to_string(), &payload]).await?;
                watch.committed(event);
            }
            Ok::<_, Box<dyn std::error::Error>>(Duration::ZERO)
        })
    })?;
    // Of this thread alone.
    Ok(cost.busiest)
}

/// Notes when each event was committed and when it had its receipt.
struct Watch {
    clock: SystemClock,
    start: Instant,
    stop: Stop,
    events: usize,
    /// In microseconds from the start; zero means not yet.
    committed: Vec<AtomicU64>,
    received: Mutex<Vec<(usize, Duration)>>,
}

impl Watch {
    fn new(events: usize, stop: Stop) -> Self {
        let clock = SystemClock::new();
        let committed = std::iter::repeat_with(AtomicU64::default).take(events).collect();
        Self { start: clock.instant(), clock, stop, events, committed, received: Mutex::default() }
    }

    fn since_start(&self) -> Duration {
        self.clock.instant().since(self.start)
    }

    fn committed(&self, event: usize) {
        let at = u64::try_from(self.since_start().as_micros()).unwrap_or(u64::MAX);
        self.committed[event].store(at.max(1), Ordering::Release);
    }

    /// A receipt may be here before the writer has heard of its commit: then it took no time.
    fn waits(&self) -> Vec<Duration> {
        let received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
        let behind = received.iter().filter(|(event, _)| *event >= WARM);
        behind
            .map(|(event, at)| {
                at.saturating_sub(Duration::from_micros(self.committed[*event].load(Ordering::Acquire)))
            })
            .collect()
    }
}

impl Observer for Watch {
    fn saw(&self, step: &Step<'_>) {
        let Step::Published { entry, .. } = step else { return };
        let Ok(event) = entry.envelope.aggregate_id.parse() else { return };
        let mut received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
        received.push((event, self.since_start()));
        if received.len() == self.events {
            self.stop.stop();
        }
    }
}
