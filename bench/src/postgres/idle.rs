//! What a relay with nothing to do costs the database.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join;
use postrider_core::clock::Clock;
use postrider_file::NullSink;
use postrider_relay::{Quiet, Stop, SystemClock};

use super::outbox::{Kind, Outbox, runtime};
use super::relay::open;
use super::server::Server;
use crate::Outcome;
use crate::load::failed;
use crate::table::{Report, print};

/// What the issue asks, in hundredths of a core.
const UNDER: f64 = 1.0;
const SPAN: Duration = Duration::from_secs(10);
/// Connecting and taking the lease are no part of being idle, nor are the first ten seconds behind the last entry, in which it
/// looks twice as often.
const BEFORE: Duration = Duration::from_secs(12);

/// On the native layout, which looks most often.
pub(crate) fn idle(server: &Server, report: &mut Report) -> Outcome<()> {
    print(&format!("\nAn idle relay on the native layout over {} s\n", SPAN.as_secs()));
    let outbox = Outbox::create(server, Kind::Native)?;
    outbox.fill(0, 1_000, |_| Ok(()))?;
    let runtime = runtime()?;
    let without = runtime.block_on(span(server));
    let with = runtime.block_on(async {
        let (stop, sink) = (Stop::new(), Arc::new(NullSink::default()));
        let relay = open(&outbox, &sink, Arc::new(Quiet), |_| {}).await?;
        let look = async {
            SystemClock::new().sleep(BEFORE).await;
            let with = span(server).await;
            stop.stop();
            with
        };
        let (ran, with) = join(relay.run(&stop), look).await;
        ran.map_err(|fault| failed(&fault))?;
        Ok::<_, Box<dyn std::error::Error>>(with)
    })?;
    let beside = format!("{without:.2} % without it");
    report.bounded("the database's CPU time", with, UNDER, "% of a core", &beside);
    Ok(())
}

/// CPU time of the server over a while, in hundredths of a core.
async fn span(server: &Server) -> f64 {
    let clock = SystemClock::new();
    let (start, cpu) = (clock.instant(), server.cpu());
    clock.sleep(SPAN).await;
    let (cpu, wall) = (server.cpu().saturating_sub(cpu), clock.instant().since(start));
    100.0 * cpu.as_secs_f64() / wall.as_secs_f64()
}
