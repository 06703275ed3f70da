//! `cargo xtask bench`: the benchmarks, in release.

use std::process::ExitCode;

use crate::args::Args;
use crate::cargo::{cargo, run};
use crate::report::Report;
use crate::services::{Service, Session};

pub(crate) fn main(args: Args) -> Result<ExitCode, String> {
    let mut report = Report::default();
    let args = args.rest();
    let mut bench = cargo("run --release --package bench --");
    bench.args(&args);
    // What runs in this process needs no programs of a server.
    if args.iter().any(|arg| arg == "sqlite") {
        report.step("bench", || run(&mut bench));
        return Ok(report.close());
    }
    let mut session = None;
    if report.step("services", || fetch(session.insert(Session::open()?), &args))
        && let Some(session) = session
    {
        report.step("bench", || run(session.tell(&mut bench)));
        report.step("services down", || session.close());
    }
    Ok(report.close())
}

/// The programs that it starts servers of: those of one road, or of all.
fn fetch(session: &mut Session, args: &[String]) -> Result<(), String> {
    let road = |name: &str| args.iter().any(|arg| arg == name);
    let all = !["postgres", "mysql", "kafka"].into_iter().any(road);
    for (service, wanted) in [
        (Service::Postgres, road("postgres") || road("kafka")),
        (Service::Mariadb, road("mysql")),
        (Service::Kafka, road("kafka")),
    ] {
        if all || wanted {
            session.fetch(service)?;
        }
    }
    Ok(())
}
