//! An event with its transport attributes, as CloudEvents 1.0 names them.

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;
use jiff::Timestamp;

use crate::Text;

/// What travels: CloudEvents' context attributes, our extension attributes, and the data as bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Envelope {
    /// `id`: unique per event; a duplicate carries the same one.
    pub id: Text,
    /// `source`: who says so.
    pub source: Text,
    /// `type`: what happened.
    pub event_type: Text,
    /// `time`: when it happened, by the writer's clock; [`Self::NO_TIME`] where nobody wrote it down, and then it is left out.
    pub time: Timestamp,
    /// `datacontenttype`; none means JSON.
    pub content_type: Option<Text>,
    /// Extension `aggregatetype`.
    pub aggregate_type: Text,
    /// Extension `aggregateid`.
    pub aggregate_id: Text,
    /// Extension `partitionkey`: only when the key is not the aggregate's id.
    pub partition_key: Option<Text>,
    /// Extension `sequence`: the writer's own number within the key, for consumers that verify it.
    pub sequence: Option<i64>,
    /// Extensions `traceparent` and `tracestate`.
    pub trace: Option<Trace>,
    /// Every other extension attribute, by its lower-case name.
    pub extensions: BTreeMap<Text, Text>,
    /// The data as written; empty means none.
    pub data: Bytes,
}

/// The W3C trace context that the writer had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// `traceparent`.
    pub parent: Text,
    /// `tracestate`.
    pub state: Option<Text>,
}

impl Envelope {
    /// Stands for a time that is not known: CloudEvents' `time` is optional, and a time of reading would be another one with
    /// each delivery (F8).
    pub const NO_TIME: Timestamp = Timestamp::MIN;

    /// When it happened, if that is known.
    #[must_use]
    pub fn known_time(&self) -> Option<Timestamp> {
        Some(self.time).filter(|time| *time != Self::NO_TIME)
    }

    /// What `datacontenttype` says, JSON by default.
    #[must_use]
    pub fn content_type(&self) -> &str {
        self.content_type.as_deref().unwrap_or("application/json")
    }

    /// Whether the data is JSON by its content type (`application/json`, `text/json` or any `+json`).
    #[must_use]
    pub fn is_json(&self) -> bool {
        let essence = self.content_type().split(';').next().unwrap_or_default().trim();
        essence.eq_ignore_ascii_case("application/json")
            || essence.eq_ignore_ascii_case("text/json")
            || essence.to_ascii_lowercase().ends_with("+json")
    }

    /// Bytes that this envelope holds in memory, near enough for the limits.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.id.len()
            + self.source.len()
            + self.event_type.len()
            + self.aggregate_type.len()
            + self.aggregate_id.len()
            + self.extensions.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>()
            + self.data.len()
    }
}

/// The data is never shown: logs and errors print envelopes.
impl fmt::Debug for Envelope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Envelope")
            .field("id", &self.id)
            .field("type", &self.event_type)
            .field("source", &self.source)
            .field("time", &self.known_time())
            .field("aggregate_type", &self.aggregate_type)
            .field("aggregate_id", &self.aggregate_id)
            .field("data", &format_args!("{} bytes", self.data.len()))
            .finish_non_exhaustive()
    }
}
