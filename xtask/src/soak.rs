//! `cargo xtask soak`: what takes long.

use std::process::ExitCode;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::args::Args;
use crate::cargo::{cargo, run_tests};
use crate::report::{Report, seconds};
use crate::services::{Service, Session};
use crate::tally::Tally;
use crate::test::serve;

const SEEDS: u64 = 10_000;
const MINUTES: u64 = 10;
const HEARTBEAT: Duration = Duration::from_secs(30);

pub(crate) fn main(mut args: Args) -> Result<ExitCode, String> {
    let seeds = args.option("--seeds", SEEDS)?;
    let minutes = args.option("--minutes", MINUTES)?;
    args.none()?;
    let mut report = Report::default();
    report.step(&format!("simulation, {seeds} seeds"), || with_heartbeat(|| simulate(seeds)));
    if let Some(session) = serve(&mut report, Service::is_at_hand) {
        report.step(&format!("crash matrix, {minutes} minutes"), || {
            repeat_crashes(&session, Duration::from_secs(60 * minutes))
        });
        report.step("services down", || session.close());
    }
    Ok(report.close())
}

fn simulate(seeds: u64) -> Result<(), String> {
    let mut tests = cargo("test --release --package postrider-simulation --no-fail-fast -- --nocapture");
    run_tests(tests.env("POSTRIDER_SEEDS", seeds.to_string()), &mut Tally::default())
}

/// In the dev profile: a release build has no points to be killed at.
fn repeat_crashes(session: &Session, span: Duration) -> Result<(), String> {
    let start = Instant::now();
    let mut rounds = 0;
    while rounds == 0 || start.elapsed() < span {
        rounds += 1;
        println!("    round {rounds}, after {} of {}", seconds(start.elapsed()), seconds(span));
        let mut tests = cargo("test --workspace --tests --no-fail-fast -- crash");
        // The whole product, where `cargo xtask test` takes turns.
        tests.env("POSTRIDER_SOAK", "1");
        run_tests(session.tell(&mut tests), &mut Tally::default())?;
    }
    println!("    {rounds} rounds");
    Ok(())
}

/// Says from time to time that it is still at work.
fn with_heartbeat<T>(work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let (done, waiting) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while waiting.recv_timeout(HEARTBEAT) == Err(mpsc::RecvTimeoutError::Timeout) {
                eprintln!("    still at work after {}", seconds(start.elapsed()));
            }
        });
        let outcome = work();
        drop(done);
        outcome
    })
}
