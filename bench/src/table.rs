//! What is printed: one line per way of doing the same work, the ratio before everything else.

use std::io::Write;
use std::process::ExitCode;

use crate::measure::Costs;

/// Gathers what was required and missed.
#[derive(Debug, Default)]
pub(crate) struct Report {
    missed: Vec<String>,
}

impl Report {
    pub(crate) fn open(&self) {
        print(
            "ratio    the rate against the first line of its table, turn by turn: the median of interleaved turns\n\
             thread   the same by the CPU time of the busiest thread\n\
             CPU      the same by the CPU time of all threads\n\
             Rates and µs are this machine's.\n",
        );
    }

    /// Begins a table whose lines are about `unit`s.
    pub(crate) fn table(&self, title: &str, unit: &str) {
        print(&format!(
            "\n{title}\n{:<46}{:>7}{:>8}{:>8}{:>12}{:>13}\n",
            "",
            "ratio",
            "thread",
            "CPU",
            format!("{unit}/s"),
            format!("CPU µs/{unit}"),
        ));
    }

    /// The same, where a server works too: its CPU time and what it writes ahead stand beside.
    pub(crate) fn server_table(&self, title: &str, unit: &str) {
        print(&format!(
            "\n{title}\n{:<46}{:>7}{:>8}{:>8}{:>12}{:>13}{:>13}{:>12}\n",
            "",
            "ratio",
            "thread",
            "CPU",
            format!("{unit}/s"),
            format!("CPU µs/{unit}"),
            format!("DB µs/{unit}"),
            format!("WAL B/{unit}"),
        ));
    }

    /// One way of doing the same work as `first`; its ratio must be `at_least` that, where one is given.
    pub(crate) fn line(
        &mut self,
        name: &str,
        works: usize,
        costs: &Costs,
        first: &Costs,
        at_least: Option<f64>,
    ) {
        let ratio = costs.ratio(first, |cost| cost.wall);
        let required = at_least.map_or(String::new(), |least| format!("  (at least {least:.2})"));
        let database = costs.median(|cost| cost.database) * 1e6 / works as f64;
        let database = if database > 0.0 {
            format!("{database:>13.2}{:>12.1}", costs.wal_bytes() / works as f64)
        } else {
            String::new()
        };
        let broker = costs.median(|cost| cost.broker) * 1e6 / works as f64;
        let broker = if broker > 0.0 { format!("  broker {broker:.2} µs") } else { String::new() };
        print(&format!(
            "{name:<46}{ratio:>7.2}{:>8.2}{:>8.2}{:>12.0}{:>13.2}{database}{broker}{required}\n",
            costs.ratio(first, |cost| cost.busiest),
            costs.ratio(first, |cost| cost.cpu),
            works as f64 / costs.median(|cost| cost.wall),
            costs.median(|cost| cost.cpu) * 1e6 / works as f64,
        ));
        if let Some(least) = at_least.filter(|least| ratio < *least) {
            self.missed.push(format!("{name}: {ratio:.2}, at least {least:.2} is required"));
        }
    }

    /// One figure with its limit.
    pub(crate) fn bounded(&mut self, name: &str, figure: f64, limit: f64, unit: &str, beside: &str) {
        print(&format!("{name:<46}{figure:>7.2} {unit}  (under {limit:.0} {unit})  {beside}\n"));
        if figure >= limit {
            self.missed.push(format!("{name}: {figure:.2} {unit}, under {limit:.0} {unit} is required"));
        }
    }

    /// One ratio with what it must reach.
    pub(crate) fn reached(&mut self, name: &str, ratio: f64, least: f64, beside: &str) {
        print(&format!("{name:<46}{ratio:>7.2}  (at least {least:.2})  {beside}\n"));
        if ratio < least {
            self.missed.push(format!("{name}: {ratio:.2}, at least {least:.2} is required"));
        }
    }

    /// What became of the events of all turns; none may be lost or out of order.
    pub(crate) fn arrived(&mut self, what: &str, wrong: usize) {
        print(&format!("    {what}\n"));
        if wrong > 0 {
            self.missed.push(what.to_owned());
        }
    }

    /// p50, p99 and the longest in milliseconds, with what is aimed at on a quiet machine.
    pub(crate) fn latency(&self, name: &str, waits_ms: (f64, f64, f64), aim_ms: (f64, f64), beside: &str) {
        let ((p50, p99, max), (aim50, aim99)) = (waits_ms, aim_ms);
        print(&format!(
            "{name:<16}p50 {p50:>6.1}  p99 {p99:>6.1}  max {max:>6.1} ms  (aim {aim50:.0} and {aim99:.0})  {beside}\n"
        ));
    }

    /// Says what was missed.
    pub(crate) fn close(self) -> ExitCode {
        print("\n");
        for missed in &self.missed {
            print(&format!("Missed: {missed}\n"));
        }
        if self.missed.is_empty() {
            print("Everything required holds.\n");
            return ExitCode::SUCCESS;
        }
        ExitCode::FAILURE
    }
}

/// Prints, and minds no reader that has gone.
pub(crate) fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
