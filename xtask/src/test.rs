//! `cargo xtask test`: everything that must pass, with one feature set and one profile, so that nothing is built twice.

use std::process::ExitCode;

use crate::args::Args;
use crate::cargo::{cargo, colour, program, run, run_tests, succeeds};
use crate::report::Report;
use crate::rules;
use crate::services::{Service, Session};
use crate::tally::Tally;

pub(crate) fn main(mut args: Args) -> Result<ExitCode, String> {
    let all = args.flag("--all") || std::env::var_os("CI").is_some_and(|value| !value.is_empty());
    let filter = args.last()?;
    let mut report = Report::default();
    if filter.is_none() {
        report.step("tools", install);
        report.step("house rules", rules::check);
        report.step("format", || run(&mut cargo("fmt --all --check")));
        report.step("clippy", || run(&mut cargo("clippy --workspace --all-targets -- -D warnings")));
    }
    let mut tally = Tally::default();
    // A build of the tests, not of the binary alone: features are united over what is built, and this is what the tests run.
    if !report.step("build", || run(&mut cargo("test --workspace --no-run"))) {
        report.skip("tests", "the build failed");
    } else if let Some(session) =
        serve(&mut report, |service| all || filter.is_none() && service.is_at_hand())
    {
        let mut tests = cargo("test --workspace --no-fail-fast --");
        session.tell(&mut tests).args(filter).arg(colour());
        report.step("tests", || run_tests(&mut tests, &mut tally));
        report.step("services down", || session.close());
    } else {
        report.skip("tests", "the servers that they need are missing");
    }
    let code = report.close();
    println!("\n{}", closing_line(tally, report.failed()));
    Ok(code)
}

/// The servers that every run needs, and those optional ones that are wanted and can be had.
pub(crate) fn serve(report: &mut Report, wanted: impl Fn(Service) -> bool) -> Option<Session> {
    let mut session = None;
    let needed = || {
        let session = session.insert(Session::open()?);
        Service::NEEDED.into_iter().try_for_each(|service| session.bring(service))
    };
    report.step("services", needed).then_some(())?;
    let mut session = session?;
    for service in Service::OPTIONAL.into_iter().filter(|service| wanted(*service)) {
        // What cannot be had is said, and is no fault of the code: its tests say that they did nothing.
        if let Err(problem) = session.bring(service) {
            println!("    {}: {problem}", service.name());
            report.skip(service.name(), "NOT TESTED: it cannot be started, see above");
        }
    }
    Some(session)
}

/// The tests' sum; steps that failed without a failing test count too, so that no failure ends in `0 failed`.
fn closing_line(tally: Tally, steps_failed: usize) -> String {
    let steps_failed = steps_failed as u64;
    let others = if tally.failed > 0 { steps_failed.saturating_sub(1) } else { steps_failed };
    format!("{} passed, {} failed", tally.passed, tally.failed + others)
}

fn install() -> Result<(), String> {
    for (component, subcommand) in [("rustfmt", "fmt"), ("clippy", "clippy")] {
        if !succeeds(cargo(subcommand).arg("--version")) {
            run(program("rustup").args(["component", "add", component]))?;
        }
    }
    run(&mut cargo("--version"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closing_line_never_hides_a_failure() {
        assert_eq!(closing_line(Tally { passed: 9, failed: 0 }, 0), "9 passed, 0 failed");
        assert_eq!(closing_line(Tally { passed: 9, failed: 2 }, 1), "9 passed, 2 failed");
        assert_eq!(closing_line(Tally { passed: 9, failed: 2 }, 2), "9 passed, 3 failed");
        assert_eq!(closing_line(Tally { passed: 9, failed: 0 }, 1), "9 passed, 1 failed");
    }
}
