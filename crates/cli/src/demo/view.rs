//! What the demo shows while it runs: a picture that redraws itself on a terminal, a line a second in a pipe.

use std::collections::VecDeque;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use super::paint::{Line, Style};
use super::shop::Done;
use super::tally::Seen;
use crate::human::{count, span};
use crate::output::colours;

/// Arrivals on the screen.
const ARRIVALS: usize = 6;
/// Rates in the little curve.
const RATES_MAX: usize = 48;
/// Wider than this, a picture falls apart.
const WIDTH_MAX: usize = 92;

/// One moment of the demo.
pub(crate) struct Frame {
    pub(crate) elapsed: Duration,
    pub(crate) whole: Duration,
    pub(crate) done: Done,
    pub(crate) seen: Seen,
    /// Events that arrived in the last second.
    pub(crate) rate: u64,
}

impl Frame {
    fn depth(&self) -> u64 {
        self.done.committed.saturating_sub(self.seen.published)
    }
}

/// Shows frames.
pub(crate) enum View {
    Live { colours: bool, rates: VecDeque<u64>, drawn: usize },
    Lines,
}

impl View {
    /// The kind that suits where stdout goes.
    pub(crate) fn new() -> Self {
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        if io::stdout().is_terminal() && !dumb {
            return Self::Live { colours: colours(&io::stdout()), rates: VecDeque::new(), drawn: 0 };
        }
        Self::Lines
    }

    /// How often a frame is worth showing.
    pub(crate) fn interval(&self) -> Duration {
        match self {
            Self::Live { .. } => Duration::from_millis(100),
            Self::Lines => Duration::from_secs(1),
        }
    }

    /// Shows a frame. A reader that went away takes nothing from the demo.
    pub(crate) fn show(&mut self, frame: &Frame) {
        let text = match self {
            Self::Lines => line(frame),
            Self::Live { colours, rates, drawn } => {
                if rates.len() == RATES_MAX {
                    rates.pop_front();
                }
                rates.push_back(frame.rate);
                let width = width();
                let lines = picture(frame, rates, width);
                // Up to where the last frame began, and clear from there.
                let mut text = if *drawn > 0 { format!("\x1b[{drawn}A\x1b[J") } else { String::new() };
                *drawn = lines.len();
                for line in lines {
                    text.push_str(&line.paint(*colours, width));
                    text.push('\n');
                }
                text
            }
        };
        let mut stdout = io::stdout().lock();
        let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    }
}

fn line(frame: &Frame) -> String {
    format!(
        "{:>4}s  {:>7} committed  {:>6} rolled back  {:>7} published  {:>6}/s  depth {:<5} latency p50 {} p99 {}\n",
        frame.elapsed.as_secs(),
        count(frame.done.committed),
        count(frame.done.rolled_back),
        count(frame.seen.published),
        count(frame.rate),
        count(frame.depth()),
        span(frame.seen.latencies.quantile(0.5)),
        span(frame.seen.latencies.quantile(0.99)),
    )
}

fn picture(frame: &Frame, rates: &VecDeque<u64>, width: usize) -> Vec<Line> {
    use Style::{Accent, Faint, Good, Plain, Strong};
    let (a, b, c) = (2, 24, 46);
    let columns = |first: (Style, String), second: (Style, String), third: (Style, String)| {
        Line::new()
            .add(Plain, " ".repeat(a))
            .column(first.0, &first.1, b)
            .column(second.0, &second.1, c)
            .add(third.0, third.1)
    };
    let plain = |text: String| (Plain, text);
    let faint = |text: String| (Faint, text);
    let latency = |share: f64| span(frame.seen.latencies.quantile(share));
    let mut lines = vec![
        Line::new(),
        title(frame, width),
        Line::new(),
        Line::new()
            .add(Plain, " ".repeat(a))
            .add(Strong, "shop ")
            .add(Faint, "─".repeat(b - a - 7) + "▶ ")
            .add(Strong, "outbox ")
            .add(Faint, "─".repeat(c - b - 9) + "▶ ")
            .add(Strong, "events.jsonl"),
        columns(
            (Accent, format!("{} orders", count(frame.done.orders))),
            (Accent, format!("{} waiting", count(frame.depth()))),
            (Good, format!("{} arrived", count(frame.seen.published))),
        ),
        columns(
            plain(format!("{} committed", count(frame.done.committed))),
            faint("in order by order".to_owned()),
            plain(format!("{} per second", count(frame.rate))),
        ),
        columns(
            faint(format!("{} rolled back", count(frame.done.rolled_back))),
            faint("at least once".to_owned()),
            plain(format!("after {} (p50), {} (p99)", latency(0.5), latency(0.99))),
        ),
        Line::new(),
        Line::new().add(Plain, "  ").add(Accent, curve(rates)),
        Line::new(),
    ];
    let recent = frame.seen.recent.iter().rev().take(ARRIVALS);
    lines.extend(recent.map(|arrival| {
        Line::new()
            .add(Plain, "  ")
            .column(Plain, &arrival.event_type, 28)
            .column(Faint, &format!("order {}", arrival.order), c)
            .add(Faint, span(arrival.latency))
    }));
    lines.resize_with(10 + ARRIVALS, Line::new);
    lines
}

fn title(frame: &Frame, width: usize) -> Line {
    const BAR: usize = 16;
    let share = frame.elapsed.as_secs_f64() / frame.whole.as_secs_f64().max(0.001);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "0 to BAR"
    )]
    let full = ((share.min(1.0) * BAR as f64) as usize).min(BAR);
    let seconds = format!("  {:.1}s", frame.elapsed.as_secs_f64());
    let end = width.saturating_sub(BAR + seconds.len() + 2);
    Line::new()
        .add(Style::Plain, "  ")
        .column(Style::Strong, "postrider demo", end)
        .add(Style::Accent, "━".repeat(full))
        .add(Style::Faint, "─".repeat(BAR - full))
        .add(Style::Faint, seconds)
}

/// Rates as a row of bars, the newest on the right.
fn curve(rates: &VecDeque<u64>) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = rates.iter().copied().max().unwrap_or(0).max(1);
    rates.iter().map(|rate| BARS[usize::try_from(rate * 7 / most).unwrap_or(7)]).collect()
}

fn width() -> usize {
    let columns = rustix::termios::tcgetwinsize(io::stdout()).map_or(80, |size| usize::from(size.ws_col));
    // A terminal that does not know its size says zero.
    if columns == 0 { 80 } else { columns.min(WIDTH_MAX) }
}

#[cfg(test)]
mod tests {
    use super::super::tally::Arrival;
    use super::*;

    fn frame() -> Frame {
        let mut seen = Seen { published: 1_200, ..Seen::default() };
        seen.latencies.add(Duration::from_millis(2));
        seen.recent.push_back(Arrival {
            event_type: "shop.order.created.v1".into(),
            order: "17".into(),
            latency: Duration::from_millis(2),
        });
        let second = Duration::from_secs(1);
        let done = Done { orders: 400, committed: 1_203, rolled_back: 99 };
        Frame { elapsed: 4 * second, whole: 8 * second, done, seen, rate: 300 }
    }

    #[test]
    fn a_pipe_gets_one_readable_line() {
        let line = line(&frame());
        for part in
            ["4s", "1,203 committed", "99 rolled back", "1,200 published", "300/s", "depth 3", "p50 2ms"]
        {
            assert!(line.contains(part), "{line}");
        }
        assert!(!line.contains('\x1b') && line.ends_with('\n') && line.lines().count() == 1);
    }

    #[test]
    fn a_picture_is_never_wider_or_taller_than_it_says() {
        let rates = VecDeque::from(vec![0, 100, 300]);
        for width in [1, 20, 40, 80, 92] {
            let lines = picture(&frame(), &rates, width);
            assert_eq!(lines.len(), 10 + ARRIVALS);
            assert!(lines.iter().all(|line| line.paint(false, width).chars().count() <= width));
        }
        assert_eq!(curve(&rates), "▁▃█");
    }
}
