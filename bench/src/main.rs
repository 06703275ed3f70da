//! `cargo xtask bench`: ratios, measured side by side in one run. Rates move with the machine; the ratios hold.

mod kafka;
mod load;
mod measure;
mod mysql;
mod peak;
mod postgres;
mod process;
mod sqlite;
mod table;
mod watch;

use std::error::Error;
use std::process::ExitCode;

use table::Report;

/// The binary's allocator: another one would measure another relay.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Outcome<T> = Result<T, Box<dyn Error>>;

const USAGE: &str = "\
Usage: cargo xtask bench [--quick] [ROAD [NAME...]]

  sqlite    cursor, lease, append, memory
  postgres  cursor, lease, hold, slices, memory, idle, append; on a server of its own, which goes when it is done
  mysql     cursor, lease, hold, slices, memory; on a MariaDB of its own
  kafka     PostgreSQL → Kafka: cursor, hot, lease, hold, latency, memory; on servers of their own
  --quick   a tenth of the rows; what it prints is a hint, not a result
  Without a name everything is measured.

Exit codes: 0 everything required holds; 1 something does not; 2 it could not be measured.
";

/// Measures one road.
type Measure = fn(bool, &dyn Fn(&str) -> bool, &mut Report) -> Outcome<()>;

const ROADS: [(&str, &[&str], Measure); 4] = [
    ("sqlite", sqlite::NAMES, sqlite::measure),
    ("postgres", postgres::NAMES, postgres::measure),
    ("mysql", mysql::NAMES, mysql::measure),
    ("kafka", kafka::NAMES, kafka::measure),
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match measure_all(&args) {
        Ok(Some(report)) => report.close(),
        Ok(None) => {
            table::print(USAGE);
            ExitCode::from(2)
        }
        Err(error) => {
            table::print(&format!("It could not be measured: {error}\n"));
            ExitCode::from(2)
        }
    }
}

/// None where the arguments make no sense.
fn measure_all(args: &[String]) -> Outcome<Option<Report>> {
    let quick = args.iter().any(|arg| arg == "--quick");
    let mut named = args.iter().map(String::as_str).filter(|arg| *arg != "--quick");
    let road = named.next();
    let wanted: Vec<&str> = named.collect();
    let chosen: Vec<_> =
        ROADS.into_iter().filter(|(name, ..)| road.is_none_or(|road| road == *name)).collect();
    let is_known = |name: &&str| chosen.iter().all(|(_, names, _)| names.contains(name));
    if chosen.is_empty() || !wanted.iter().all(is_known) {
        return Ok(None);
    }
    let mut report = Report::default();
    report.open();
    for (_, _, measure) in chosen {
        measure(quick, &|name| wanted.is_empty() || wanted.contains(&name), &mut report)?;
    }
    Ok(Some(report))
}
