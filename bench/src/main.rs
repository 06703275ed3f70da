//! `cargo xtask bench`: ratios, measured side by side in one run. Rates move with the machine; the ratios hold.

mod append;
mod bare;
mod measure;
mod memory;
mod outbox;
mod relay;
mod table;

use std::error::Error;
use std::process::ExitCode;

use table::Report;

/// The binary's allocator: another one would measure another relay.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str = "\
Usage: cargo xtask bench [--quick] [cursor] [lease] [append] [memory]

  --quick   a tenth of the rows; what it prints is a hint, not a result
  Without a name everything is measured.

Exit codes: 0 everything required holds; 1 something does not; 2 it could not be measured.
";

/// How much is measured.
#[derive(Clone, Copy)]
struct Scale {
    runs: usize,
    cursor_rows: usize,
    lease_rows: usize,
    transactions: usize,
    pending_entries: usize,
}

const FULL: Scale = Scale {
    runs: 11,
    cursor_rows: 400_000,
    lease_rows: 100_000,
    transactions: 20_000,
    pending_entries: 1_000_000,
};
const QUICK: Scale = Scale {
    runs: 9,
    cursor_rows: 100_000,
    lease_rows: 30_000,
    transactions: 4_000,
    pending_entries: 100_000,
};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let known = ["--quick", "cursor", "lease", "append", "memory"];
    if args.iter().any(|arg| !known.contains(&arg.as_str())) {
        table::print(USAGE);
        return ExitCode::from(2);
    }
    match measure_all(&args) {
        Ok(report) => report.close(),
        Err(error) => {
            table::print(&format!("It could not be measured: {error}\n"));
            ExitCode::from(2)
        }
    }
}

fn measure_all(args: &[String]) -> Result<Report, Box<dyn Error>> {
    let scale = if args.iter().any(|arg| arg == "--quick") { QUICK } else { FULL };
    let named = args.iter().any(|arg| arg != "--quick");
    let wanted = |name: &str| !named || args.iter().any(|arg| arg == name);
    let mut report = Report::default();
    report.open();
    if wanted("cursor") {
        relay::cursor(scale.cursor_rows, scale.runs, &mut report)?;
    }
    if wanted("lease") {
        relay::lease(scale.lease_rows, scale.runs, &mut report)?;
    }
    if wanted("append") {
        append::append(scale.transactions, scale.runs, &mut report)?;
    }
    if wanted("memory") {
        memory::memory(scale.pending_entries, &mut report)?;
    }
    Ok(report)
}
