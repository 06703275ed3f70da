//! What a relay's process says about itself, so that others can see what only it knows.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::Text;
use crate::breaker::Circuit;

/// A relay's own word, written every few seconds. Never a payload, never a secret.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The name under which it holds leases.
    pub holder: String,
    /// What it does.
    pub role: Role,
    /// Events published since it started.
    pub published: u64,
    /// Events per second since its last report.
    pub per_second: f64,
    /// Every circuit that is not closed, at most [`crate::limits::REPORT_CIRCUITS_MAX`].
    pub circuits: Vec<Tripped>,
    /// Whether so much is parked that nothing further is read.
    pub full: bool,
    /// What last went wrong.
    pub trouble: Option<Trouble>,
}

/// Stands among the circuits of a report whose relay reads no further: a version that does not know it passes it by.
const FULL: &str = "full";

impl Report {
    /// Its circuits, and whether it is full, as one text, for a table.
    #[must_use]
    pub fn circuits_text(&self) -> String {
        let circuit = |tripped: &Tripped| {
            let Tripped { sink, topic, circuit, since } = tripped;
            json!([&**sink, topic.as_deref(), circuit.word(), since.as_microsecond()])
        };
        let full = self.full.then(|| json!(FULL));
        Value::from_iter(self.circuits.iter().map(circuit).chain(full)).to_string()
    }

    /// Whether such a text says that nothing further is read.
    #[must_use]
    pub fn full_from(text: &str) -> bool {
        let circuits: Value = serde_json::from_str(text).unwrap_or_default();
        circuits.as_array().is_some_and(|all| all.iter().any(|one| one == FULL))
    }

    /// The circuits that such a text tells of; what another version wrote differently is left out.
    #[must_use]
    pub fn circuits_from(text: &str) -> Vec<Tripped> {
        let circuits: Value = serde_json::from_str(text).unwrap_or_default();
        circuits.as_array().into_iter().flatten().filter_map(tripped).collect()
    }
}

fn tripped(value: &Value) -> Option<Tripped> {
    let [sink, topic, word, since] = value.as_array()?.as_slice() else { return None };
    let circuits = [Circuit::Open, Circuit::HalfOpen];
    Some(Tripped {
        sink: sink.as_str()?.into(),
        topic: topic.as_str().map(Into::into),
        circuit: circuits.into_iter().find(|circuit| word.as_str() == Some(circuit.word()))?,
        since: Timestamp::from_microsecond(since.as_i64()?).ok()?,
    })
}

/// What a relay does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It relays.
    Active,
    /// Another holds the lease.
    Standby,
    /// It has ended in good order.
    Stopped,
}

impl Role {
    /// The word that people and `--json` see.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Standby => "standby",
            Self::Stopped => "stopped",
        }
    }

    /// The role of that word; one that another version has does not run here.
    #[must_use]
    pub fn of(word: &str) -> Self {
        [Self::Active, Self::Standby].into_iter().find(|role| role.word() == word).unwrap_or(Self::Stopped)
    }
}

/// A circuit that is not closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tripped {
    /// Of this sink.
    pub sink: Text,
    /// Of this topic within it; none for the sink's own.
    pub topic: Option<Text>,
    /// Where it stands.
    pub circuit: Circuit,
    /// Since when it is not closed, by the relay's clock.
    pub since: Timestamp,
}

/// Something that went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// What was said.
    pub reason: Text,
    /// When, by the relay's clock.
    pub at: Timestamp,
}

/// A report as others read it.
#[derive(Clone, Debug, PartialEq)]
pub struct Reported {
    /// What was said.
    pub report: Report,
    /// How long ago, by the database's clock.
    pub age: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circuits_and_roles_are_read_as_they_were_written() {
        let since = Timestamp::from_second(7).unwrap();
        let tripped = |topic: Option<&str>, circuit| Tripped {
            sink: "kafka".into(),
            topic: topic.map(Into::into),
            circuit,
            since,
        };
        let report = Report {
            holder: "one".into(),
            role: Role::Active,
            published: 0,
            per_second: 0.0,
            circuits: vec![tripped(None, Circuit::Open), tripped(Some("orders"), Circuit::HalfOpen)],
            full: true,
            trouble: None,
        };
        assert!(Report::full_from(&report.circuits_text()));
        assert!(!Report::full_from(&Report { full: false, ..report.clone() }.circuits_text()));
        assert_eq!(Report::circuits_from(&report.circuits_text()), report.circuits);
        assert_eq!(Report::circuits_from("[[\"kafka\", null, \"melted\", 7], 3]"), []);
        assert_eq!(Report::circuits_from("none"), []);
        for role in [Role::Active, Role::Standby, Role::Stopped] {
            assert_eq!(Role::of(role.word()), role);
        }
    }
}
