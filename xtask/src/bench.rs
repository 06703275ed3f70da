//! `cargo xtask bench`: the benchmarks, in release.

use std::process::ExitCode;

use crate::args::Args;
use crate::cargo::{cargo, run};
use crate::report::Report;

pub(crate) fn main(args: Args) -> Result<ExitCode, String> {
    let mut report = Report::default();
    report.step("bench", || run(cargo("run --release --package bench --").args(args.rest())));
    Ok(report.close())
}
