//! Rows of an outbox table: copied once out of a driver's hands, decoded into entries that share the copy.
//!
//! Every adapter selects the parts of an envelope in the order of [`Field`] and hands each value over as a [`Value`]; what
//! they mean is the same for all databases, and is found out here.

mod decode;
mod pool;
mod raw;

pub use decode::{Batch, Decoder, Decoding};
pub use raw::{Pools, RawRow, RawRows, SealedRows};

use crate::layout::{Column, Layout};

/// Where each part of an envelope stands in the select list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// The row's id.
    Id,
    /// The event's id.
    EventId,
    /// The event's type.
    Type,
    /// Who says so.
    Source,
    /// The aggregate's type.
    AggregateType,
    /// The aggregate's id.
    AggregateId,
    /// The key, where it is not the aggregate.
    Key,
    /// When it happened.
    Time,
    /// What the data is.
    ContentType,
    /// `traceparent`.
    Trace,
    /// `tracestate`.
    TraceState,
    /// The writer's own number.
    Sequence,
    /// Other attributes, as a JSON object.
    Extensions,
    /// The data.
    Payload,
    /// The payload's size, where it is too large to be read.
    TooLarge,
}

impl Field {
    /// How many there are: the first column behind the envelope.
    pub const COUNT: usize = Self::TooLarge as usize + 1;

    /// The part's key in a layout file, for people.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::Id => "id",
            Self::EventId => "event_id",
            Self::Type => "type",
            Self::Source => "source",
            Self::AggregateType => "aggregate_type",
            Self::AggregateId => "aggregate_id",
            Self::Key => "key",
            Self::Time => "time",
            Self::ContentType => "content_type",
            Self::Trace => "trace",
            Self::TraceState => "trace_state",
            Self::Sequence => "sequence",
            Self::Extensions => "extensions",
            Self::Payload | Self::TooLarge => "payload",
        }
    }

    /// Where the layout has each part, in the order of the fields. The event's id is the row's where it has no other.
    #[must_use]
    pub fn columns(layout: &Layout) -> [Option<&Column>; Self::COUNT] {
        let columns = &layout.columns;
        [
            columns.id.as_ref(),
            columns.event_id.as_ref().or(columns.id.as_ref()),
            columns.event_type.as_ref(),
            columns.source.as_ref(),
            columns.aggregate_type.as_ref(),
            columns.aggregate_id.as_ref(),
            columns.key.as_ref(),
            columns.time.as_ref(),
            columns.content_type.as_ref(),
            columns.trace.as_ref(),
            columns.trace_state.as_ref(),
            columns.sequence.as_ref(),
            columns.extensions.as_ref(),
            columns.payload.as_ref(),
            None,
        ]
    }
}

/// What a driver found in a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// Nothing.
    Null,
    /// A whole number.
    Integer(i64),
    /// A number.
    Real(f64),
    /// A text, which need not be UTF-8 on every database.
    Text(&'a [u8]),
    /// Bytes.
    Blob(&'a [u8]),
    /// A UUID; kept as the text that people write.
    Uuid([u8; 16]),
    /// A moment: microseconds since 1970, UTC.
    Time(i64),
    /// A date and time without a zone, in microseconds since 1970 as if it were UTC: the layout says in which zone.
    Local(i64),
}

#[cfg(test)]
mod tests {
    use super::*;

    /// F1: a table without a time gives the database's clock in its place, as a moment or as a number.
    #[test]
    fn what_has_no_time_happened_when_it_was_claimed() {
        let layout = Layout::built_in("debezium").unwrap();
        let decoder = Decoder::new(&layout);
        for (clock, flawed) in
            [(Value::Time(1_500), false), (Value::Integer(1_500), false), (Value::Null, true)]
        {
            let mut batch = Batch::new(&decoder);
            let value = |at| match at {
                _ if at == Field::Time as usize => clock,
                _ if at == Field::TooLarge as usize || at == Field::Source as usize => Value::Null,
                _ if at == Field::Sequence as usize || at == Field::Extensions as usize => Value::Null,
                _ => Value::Text(b"{}"),
            };
            batch.read(0, None, |at| Ok::<_, ()>(value(at))).unwrap();
            let entry = batch.finish().remove(0);
            assert_eq!(entry.flaw.is_some(), flawed, "{:?}", entry.flaw);
            assert_eq!(entry.envelope.time.as_microsecond(), if flawed { 0 } else { 1_500 });
            assert_eq!((&*entry.envelope.source, entry.key), ("/debezium", None));
        }
    }
}
