//! Rows of an outbox table: copied once out of a driver's hands, decoded into entries that share the copy.
//!
//! Every adapter selects the parts of an envelope in the order of [`Field`] and hands each value over as a [`Value`]; what
//! they mean is the same for all databases, and is found out here.

mod attributes;
mod decode;
mod hash;
mod places;
mod pool;
mod raw;

pub use decode::{Batch, Decoder, Decoding};
pub use hash::{content_hash, is_unambiguous};
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
    /// The writer's proof of what it wrote.
    Hash,
}

impl Field {
    /// How many there are: the first column behind the envelope.
    pub const COUNT: usize = Self::Hash as usize + 1;

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
            Self::Hash => "hash",
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
            columns.hash.as_ref(),
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

    fn entry(layout: &Layout, value: impl Fn(usize) -> Value<'static>) -> crate::Entry {
        let decoder = Decoder::new(layout);
        let mut batch = Batch::new(&decoder);
        let absent = [Field::TooLarge, Field::Source, Field::Time, Field::Sequence, Field::Extensions];
        let value = |at| match value(at) {
            Value::Null if absent.iter().all(|field| at != *field as usize) => Value::Text(b"{}"),
            value => value,
        };
        batch.read(0, None, |at| Ok::<_, ()>(value(at))).unwrap();
        batch.finish().remove(0)
    }

    /// F8: what a table has no time for is sent without one, so that it is the same each time it is sent.
    #[test]
    fn what_has_no_time_is_sent_without() {
        let debezium = Layout::built_in("debezium").unwrap();
        let entry = entry(&debezium, |_| Value::Null);
        assert_eq!((entry.flaw, entry.envelope.known_time()), (None, None));
        assert_eq!((&*entry.envelope.source, entry.key), ("/debezium", None));
    }

    /// D2, F5: NULL in the column of the time is no flaw; a flaw names the table's own column, and what to do.
    #[test]
    fn a_flaw_names_the_tables_own_column() {
        let logistics = Layout::built_in("logistics").unwrap();
        let with_time =
            |time| entry(&logistics, move |at| if at == Field::Time as usize { time } else { Value::Null });
        let flaw = with_time(Value::Text(b"soon")).flaw.unwrap().0;
        for part in ["column \"occurred_at\" of table \"outbox_events\"", "no time", "columns.time", "revive"]
        {
            assert!(flaw.contains(part), "{part}: {flaw}");
        }
        let without = with_time(Value::Null);
        assert_eq!((without.flaw, without.envelope.known_time()), (None, None));
    }
}
