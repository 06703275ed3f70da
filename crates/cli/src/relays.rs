//! Relays as `status` shows them, by what they last said about themselves.

use std::time::Duration;

use jiff::Timestamp;
use postrider_core::layout::Order;
use postrider_core::report::{Report, Reported, Role, Tripped};
use postrider_core::{Key, breaker};
use serde::Serialize;

use crate::human::{age, count, span};
use crate::shown::{CELL_CHARS_MAX, shown};

/// Whoever has missed two reports, of one every two seconds, may be dead, or cut off from the database.
const SILENT_AFTER: Duration = Duration::from_secs(5);
/// Whoever has not reported for longer is gone.
const GONE_AFTER: Duration = Duration::from_secs(60);
/// Whoever was killed is no news for longer than this.
const TOLD_FOR: Duration = Duration::from_secs(600);

/// One relay as `--json` shows it; its names are stable.
#[derive(Serialize)]
pub(crate) struct Line<'a> {
    holder: &'a str,
    state: &'static str,
    published: u64,
    events_per_second: f64,
    circuits: Vec<Circuit<'a>>,
    full: bool,
    error: Option<&'a str>,
    error_at: Option<String>,
    age_seconds: f64,
}

#[derive(Serialize)]
struct Circuit<'a> {
    sink: &'a str,
    topic: Option<&'a str>,
    state: &'static str,
    since: String,
}

pub(crate) fn lines(reports: &[Reported]) -> Vec<Line<'_>> {
    running(reports).map(line).collect()
}

/// Name and value, as a person reads them. `holder` has the lease; it may be a relay that does not report. Where the order
/// is none there is no lease to hold, so that only reports tell who is at work.
pub(crate) fn pairs(
    holder: Option<&str>,
    order: Order,
    culprit: Option<&(Key, u64)>,
    reports: &[Reported],
    now: Timestamp,
) -> Vec<(&'static str, String)> {
    let mut pairs = Vec::new();
    let silent = holder.filter(|holder| running(reports).all(|reported| reported.report.holder != *holder));
    pairs.extend(
        silent.map(|holder| ("relay", format!("{holder}  holds the lease, and has not reported yet"))),
    );
    for reported in running(reports) {
        let Report { trouble, full, .. } = &reported.report;
        pairs.push(("relay", relay(reported)));
        if is_gone(reported) {
            continue;
        }
        let circuits = circuits(reported);
        pairs.extend(circuits.iter().map(|tripped| ("circuit", circuit(tripped, now))));
        if *full && !is_silent(reported) {
            let away = match trouble {
                _ if !circuits.is_empty() => Some(AWAY),
                // A partition has no circuit of its own: what is wrong with it is the last error.
                Some(_) => Some(IN_TROUBLE),
                None => None,
            };
            pairs.push(("full", full_up(culprit, away)));
        }
        pairs.extend(trouble.as_ref().map(|trouble| {
            ("error", format!("{} ({} ago)", trouble.reason, span(whole(age(trouble.at, now)))))
        }));
    }
    if holder.is_none() && running(reports).all(is_gone) {
        let none = match order {
            Order::Key => "none is running",
            Order::None => "none has reported; one that was started just now does so within a second or two",
        };
        pairs.push(("relay", none.to_owned()));
    }
    pairs
}

/// Whoever stopped in good order, or has been gone for a while, is no news.
fn running(reports: &[Reported]) -> impl Iterator<Item = &Reported> {
    reports.iter().filter(|reported| reported.report.role != Role::Stopped && reported.age <= TOLD_FOR)
}

/// Whether it is too long ago.
pub(crate) fn is_gone(reported: &Reported) -> bool {
    reported.age > GONE_AFTER
}

fn is_silent(reported: &Reported) -> bool {
    reported.age > SILENT_AFTER
}

/// The circuits of a relay that is heard of: what a dead one left alone, nobody leaves alone any more.
fn circuits(reported: &Reported) -> &[Tripped] {
    if is_silent(reported) { &[] } else { &reported.report.circuits }
}

fn state(reported: &Reported) -> &'static str {
    match reported {
        _ if is_gone(reported) => "gone",
        _ if is_silent(reported) => "silent",
        _ => reported.report.role.word(),
    }
}

fn relay(reported: &Reported) -> String {
    let Reported { report, age } = reported;
    let ago = span(whole(*age));
    match report.role {
        _ if is_gone(reported) => format!("{}  gone: last heard of {ago} ago", report.holder),
        role if is_silent(reported) => {
            format!(
                "{}  silent for {ago}, and was {}: killed, or cut off from the database",
                report.holder,
                role.word()
            )
        }
        Role::Active => format!(
            "{}  active: {} events/s, {} published (as of {ago} ago)",
            report.holder,
            rate(report.per_second),
            count(report.published)
        ),
        role => format!("{}  {} (as of {ago} ago)", report.holder, role.word()),
    }
}

/// What to do where a circuit is open.
pub(crate) const AWAY: &str = "bring back the broker or topic that is away";
const IN_TROUBLE: &str =
    "mend what the error says, or, where a dead entry holds its key, revive, bury or prune it";

/// Why nothing further is read, and what to do about it. What is `away` goes before a key: it holds many of them.
pub(crate) fn full_up(culprit: Option<&(Key, u64)>, away: Option<&'static str>) -> String {
    let behind = culprit
        .map(|(key, held)| format!(", {} of them behind key {}", count(*held), shown(key, CELL_CHARS_MAX)));
    let of_key = match culprit {
        Some(_) => "revive, bury or prune that key's entries",
        None => "revive, bury or prune what is held back, or bring back the topic that is away",
    };
    let verb = away.unwrap_or(of_key);
    format!(
        "nothing further is read: the limit of parked entries is reached{}; {verb}",
        behind.unwrap_or_default()
    )
}

fn circuit(tripped: &Tripped, now: Timestamp) -> String {
    let topic = tripped.topic.as_ref().map_or(String::new(), |topic| format!(", topic {topic}"));
    let since = span(whole(age(tripped.since, now)));
    let stands = match tripped.circuit {
        // Too few events have come since to tell whether it is back.
        breaker::Circuit::HalfOpen => format!("opened {since} ago; the next events try it"),
        breaker::Circuit::Open | breaker::Circuit::Closed => format!("away for {since}"),
    };
    format!("{}: sink {}{topic} ({stands})", tripped.circuit.word(), tripped.sink)
}

fn line(reported: &Reported) -> Line<'_> {
    let Reported { report, age } = reported;
    Line {
        holder: &report.holder,
        state: state(reported),
        published: report.published,
        events_per_second: report.per_second,
        circuits: circuits(reported)
            .iter()
            .map(|tripped| Circuit {
                sink: &tripped.sink,
                topic: tripped.topic.as_deref(),
                state: tripped.circuit.word(),
                since: tripped.since.to_string(),
            })
            .collect(),
        full: report.full,
        error: report.trouble.as_ref().map(|trouble| &*trouble.reason),
        error_at: report.trouble.as_ref().map(|trouble| trouble.at.to_string()),
        age_seconds: age.as_secs_f64(),
    }
}

/// Fractions only where they say something.
fn rate(per_second: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate that is shown")]
    if per_second >= 10.0 { count(per_second.round() as u64) } else { format!("{per_second:.1}") }
}

/// Ages in whole seconds: a report is seconds old.
fn whole(span: Duration) -> Duration {
    Duration::from_secs(span.as_secs())
}

#[cfg(test)]
mod tests {
    use postrider_core::report::Trouble;

    use super::*;

    const NOON: Timestamp = Timestamp::UNIX_EPOCH;

    fn reported(role: Role, age_seconds: u64) -> Reported {
        let report = Report {
            holder: "one".to_owned(),
            role,
            published: 5_678,
            per_second: 1_234.4,
            circuits: Vec::new(),
            full: false,
            trouble: None,
        };
        Reported { report, age: Duration::from_secs(age_seconds) }
    }

    fn text(holder: Option<&str>, reports: &[Reported]) -> Vec<String> {
        let now = NOON + Duration::from_secs(100);
        pairs(holder, Order::Key, None, reports, now)
            .into_iter()
            .map(|(name, value)| format!("{name} {value}"))
            .collect()
    }

    #[test]
    fn a_relay_is_active_standing_by_or_gone() {
        let active = reported(Role::Active, 2);
        assert_eq!(
            text(Some("one"), &[active]),
            ["relay one  active: 1,234 events/s, 5,678 published (as of 2s ago)"]
        );
        assert_eq!(text(None, &[reported(Role::Standby, 1)]), ["relay one  standby (as of 1s ago)"]);
        let silent = "relay one  silent for 6s, and was active: killed, or cut off from the database";
        assert_eq!(text(Some("one"), &[reported(Role::Active, 6)]), [silent]);
        assert_eq!(lines(&[reported(Role::Active, 6)])[0].state, "silent");
        assert_eq!(lines(&[reported(Role::Active, 4)])[0].state, "active");
        let gone = ["relay one  gone: last heard of 1m 1s ago", "relay none is running"];
        assert_eq!(text(None, &[reported(Role::Active, 61)]), gone);
        assert_eq!(text(None, &[reported(Role::Stopped, 1)]), ["relay none is running"]);
        assert_eq!(text(Some("other"), &[]), ["relay other  holds the lease, and has not reported yet"]);
        assert_eq!(lines(&[reported(Role::Active, 61), reported(Role::Stopped, 1)])[0].state, "gone");
        assert_eq!(text(None, &[reported(Role::Active, 601)]), ["relay none is running"]);
        assert!(lines(&[reported(Role::Active, 601)]).is_empty());
    }

    /// Several relays share an outbox without order, and none of them holds a lease.
    #[test]
    fn without_a_lease_only_reports_tell_who_is_at_work() {
        let none = |reports: &[Reported]| pairs(None, Order::None, None, reports, NOON).remove(0).1;
        assert!(none(&[]).starts_with("none has reported"));
        assert!(none(&[reported(Role::Active, 1)]).starts_with("one  active"));
    }

    /// At the limit nothing further is read, and `status` names the key at fault.
    #[test]
    fn a_reading_that_is_full_is_told() {
        let mut full = reported(Role::Active, 2);
        full.report.full = true;
        let culprit = (Key::new("Order", "1\u{1b}"), 9);
        let said =
            pairs(Some("one"), Order::Key, Some(&culprit), std::slice::from_ref(&full), NOON).remove(1);
        assert_eq!(said.0, "full");
        assert!(
            said.1
                .contains("limit of parked entries is reached, 9 of them behind key Order/1\\u{1b}; revive"),
            "{}",
            said.1
        );
        assert!(full_up(None, None).contains("is reached; revive"));
        full.report.trouble = Some(Trouble { reason: "partition 2 has no leader".into(), at: NOON });
        let said =
            pairs(Some("one"), Order::Key, Some(&culprit), std::slice::from_ref(&full), NOON).remove(1);
        assert!(said.1.contains("behind key") && said.1.contains("; mend what the error says"), "{}", said.1);
        full.report.circuits.push(Tripped {
            sink: "kafka".into(),
            topic: None,
            circuit: breaker::Circuit::Open,
            since: NOON,
        });
        let said =
            pairs(Some("one"), Order::Key, Some(&culprit), std::slice::from_ref(&full), NOON).remove(2);
        assert!(said.1.ends_with("; bring back the broker or topic that is away"), "{}", said.1);
        assert!(lines(std::slice::from_ref(&full))[0].full);
    }

    /// B7: a circuit that waits for events to try it with says so; those of a relay that is heard of no more are no news.
    #[test]
    fn what_stands_in_the_way_is_named() {
        let mut active = reported(Role::Active, 2);
        let mut tripped = Tripped {
            sink: "kafka".into(),
            topic: Some("orders".into()),
            circuit: breaker::Circuit::Open,
            since: NOON + Duration::from_secs(58),
        };
        active.report.circuits.push(tripped.clone());
        tripped.circuit = breaker::Circuit::HalfOpen;
        active.report.circuits.push(tripped);
        active.report.trouble =
            Some(Trouble { reason: "no leader".into(), at: NOON + Duration::from_secs(97) });
        let said = text(Some("one"), std::slice::from_ref(&active));
        assert_eq!(
            said[1..],
            [
                "circuit open: sink kafka, topic orders (away for 42s)",
                "circuit half-open: sink kafka, topic orders (opened 42s ago; the next events try it)",
                "error no leader (3s ago)"
            ]
        );
        active.age = Duration::from_secs(6);
        let said = text(Some("one"), std::slice::from_ref(&active));
        assert!(!said.iter().any(|line| line.starts_with("circuit")), "{said:?}");
        assert!(lines(std::slice::from_ref(&active))[0].circuits.is_empty());
    }
}
