//! What the demo says before and after.

use std::io;

use super::Wish;
use super::latency::Latencies;
use super::paint::{Line, Style};
use super::proof::Proof;
use crate::human::{count, span};
use crate::output::colours;

const NEXT: &str = "\
Try next:
  postrider demo --rate 5000 --seconds 20   the same, busier
  postrider demo --keep here                keeps shop.db and events.jsonl to look at
  postrider init                            a configuration of your own, with every key explained
  postrider migrate                         the tables in your own database
  postrider run                             the relay; it waits for the events that you append
  postrider --help                          everything else
";

pub(crate) fn welcome(wish: &Wish) -> String {
    format!(
        "A shop writes about {} events per second for {}, each in a transaction with its order; now and then it rolls \
         one back.\nThe relay takes what is committed from the outbox and appends it to a file.\n",
        count(u64::from(wish.rate)),
        span(wish.open),
    )
}

pub(crate) fn summary(proof: &Proof, latencies: &Latencies) -> String {
    let mut text =
        "\nThe proof: events.jsonl, read back and compared with the shop's own tables.\n".to_owned();
    let colours = colours(&io::stdout());
    let mut claim = |holds: bool, says: String| {
        let mark = if holds { (Style::Good, "  ok      ") } else { (Style::Bad, "  FAILED  ") };
        let line = Line::new().add(mark.0, mark.1).add(Style::Plain, says);
        text.push_str(&line.paint(colours, usize::MAX));
        text.push('\n');
    };
    let number = |n: usize| count(n as u64);
    claim(
        proof.missing + proof.twice == 0,
        format!("{} events were committed, and each of them arrived exactly once", number(proof.committed))
            + &but(&[(proof.missing, "never arrived"), (proof.twice, "arrived again")]),
    );
    claim(
        proof.ghosts == 0,
        format!("{} events were rolled back, and none of them arrived", number(proof.rolled_back))
            + &but(&[(proof.ghosts, "were never committed, and arrived")]),
    );
    claim(
        proof.overtaken == 0,
        format!("{} orders, and each one's events arrived in order", number(proof.orders))
            + &but(&[(proof.overtaken, "were overtaken")]),
    );
    text + &format!(
        "From the writing of an event to its receipt: {} (p50), {} (p99), {} (max).\n\n{NEXT}",
        span(latencies.quantile(0.5)),
        span(latencies.quantile(0.99)),
        span(latencies.max),
    )
}

fn but(wrongs: &[(usize, &str)]) -> String {
    wrongs.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("; but {n} {what}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_claims_only_what_was_proved() {
        let good =
            Proof { committed: 1_000, rolled_back: 90, orders: 300, arrived: 1_000, ..Proof::default() };
        let text = summary(&good, &Latencies::default());
        assert!(text.contains("1,000 events were committed") && !text.contains("FAILED"), "{text}");
        let bad = Proof { missing: 2, ghosts: 1, overtaken: 3, ..good };
        let text = summary(&bad, &Latencies::default());
        assert_eq!(text.matches("FAILED").count(), 3, "{text}");
        assert!(text.contains("but 2 never arrived"), "{text}");
    }
}
