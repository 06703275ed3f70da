//! Steps with their durations, and the summary at the end.

use std::process::ExitCode;
use std::time::{Duration, Instant};

enum Outcome {
    Passed,
    Failed(String),
    Skipped(String),
}

struct Step {
    name: String,
    outcome: Outcome,
    took: Duration,
}

/// What was done so far.
#[derive(Default)]
pub(crate) struct Report(Vec<Step>);

impl Report {
    /// Does one step and says how long it took; whether it passed.
    pub(crate) fn step(&mut self, name: &str, work: impl FnOnce() -> Result<(), String>) -> bool {
        println!("\n==> {name}");
        let start = Instant::now();
        let outcome = match work() {
            Ok(()) => Outcome::Passed,
            Err(problem) => {
                println!("error: {name}: {problem}");
                Outcome::Failed(problem)
            }
        };
        let passed = matches!(outcome, Outcome::Passed);
        let took = start.elapsed();
        println!("<== {name}: {} in {}", if passed { "passed" } else { "failed" }, seconds(took));
        self.0.push(Step { name: name.to_owned(), outcome, took });
        passed
    }

    /// Notes a step that could not be tried.
    pub(crate) fn skip(&mut self, name: &str, why: &str) {
        let outcome = Outcome::Skipped(why.to_owned());
        self.0.push(Step { name: name.to_owned(), outcome, took: Duration::ZERO });
    }

    /// How many steps failed.
    pub(crate) fn failed(&self) -> usize {
        self.0.iter().filter(|step| matches!(step.outcome, Outcome::Failed(_))).count()
    }

    /// Prints a line per step.
    pub(crate) fn print(&self) {
        println!("\nSummary");
        let width = self.0.iter().map(|step| step.name.len()).max().unwrap_or(0);
        for Step { name, outcome, took } in &self.0 {
            let took = seconds(*took);
            match outcome {
                Outcome::Passed => println!("  passed   {name:width$}  {took:>8}"),
                Outcome::Failed(problem) => println!("  FAILED   {name:width$}  {took:>8}  {problem}"),
                Outcome::Skipped(why) => println!("  skipped  {name:width$}  {:>8}  {why}", "-"),
            }
        }
        println!("  total    {:width$}  {:>8}", "", seconds(self.0.iter().map(|step| step.took).sum()));
    }

    /// Prints the summary; non-zero when a step failed.
    pub(crate) fn close(&self) -> ExitCode {
        self.print();
        if self.failed() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// A duration as people read it.
pub(crate) fn seconds(span: Duration) -> String {
    match span.as_secs() {
        0..120 => format!("{:.1} s", span.as_secs_f64()),
        whole => format!("{}m {:02}s", whole / 60, whole % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_failed_step_fails_the_whole_and_a_skipped_one_does_not() {
        let mut report = Report::default();
        assert!(report.step("good", || Ok(())));
        report.skip("later", "not now");
        assert_eq!(report.failed(), 0);
        assert!(!report.step("bad", || Err("it broke".to_owned())));
        assert_eq!(report.failed(), 1);
    }

    #[test]
    fn durations_read_well() {
        assert_eq!(seconds(Duration::from_millis(1_250)), "1.2 s");
        assert_eq!(seconds(Duration::from_secs(605)), "10m 05s");
    }
}
