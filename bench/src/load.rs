//! What the outboxes are full of.

use std::borrow::Cow;
use std::error::Error;

use jiff::Timestamp;
use postrider_core::{Draft, Envelope, Event, Fault};

use crate::Outcome;

/// Entries in one claim, and rows in one turn of a bare loop.
pub(crate) const BATCH_ENTRIES: usize = 1_000;
pub(crate) const KEYS: usize = 1_000;
const PAYLOAD_BYTES: usize = 400;
const BEFORE: &str = r#"{"note":""#;
const AFTER: &str = r#""}"#;

/// A JSON document of the measured size.
pub(crate) fn payload() -> String {
    format!("{BEFORE}{}{AFTER}", note())
}

fn note() -> String {
    "x".repeat(PAYLOAD_BYTES - BEFORE.len() - AFTER.len())
}

/// An event whose payload is that document.
#[derive(serde::Serialize)]
pub(crate) struct OrderPlaced {
    note: String,
}

impl OrderPlaced {
    pub(crate) fn of_measured_size() -> Self {
        Self { note: note() }
    }

    pub(crate) fn seal(&self) -> Outcome<Envelope> {
        Draft::new(self, "/bench").seal(Timestamp::UNIX_EPOCH, [7; 10]).map_err(|fault| failed(&fault))
    }
}

impl Event for OrderPlaced {
    fn event_type(&self) -> &'static str {
        "bench.order.placed.v1"
    }

    fn aggregate_type(&self) -> &'static str {
        "Order"
    }

    fn aggregate_id(&self) -> Cow<'_, str> {
        "7".into()
    }
}

/// A fault as any other error.
pub(crate) fn failed(fault: &Fault) -> Box<dyn Error> {
    fault.to_string().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_and_a_row_have_the_same_payload() {
        let envelope = OrderPlaced::of_measured_size().seal().unwrap();
        assert_eq!(envelope.data, payload().as_bytes());
        assert_eq!(payload().len(), PAYLOAD_BYTES);
    }
}
