//! What each column of a new row holds.

use std::borrow::Cow;

use crate::layout::{Column, Identifier, TimeForm};
use crate::rows::{Field, content_hash};
use crate::{Envelope, Layout};

/// Who gives a new row its id, when a table has no other column for the event's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowIds {
    /// The event: its id is the row's.
    Event,
    /// The table, which counts: the row's id becomes the event's.
    Table,
    /// Nobody: the column holds numbers, and the table hands none out.
    Nobody,
}

/// What a column of a new row holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Slot {
    /// A part of the envelope.
    Part(Field),
    /// The same word in every row.
    Word(String),
    /// Nought.
    Zero,
}

/// A value for a column, for whichever driver binds it.
#[derive(Clone, Debug)]
pub enum Cell<'a> {
    /// Nothing.
    Null,
    /// A number.
    Int(i64),
    /// A text.
    Text(Cow<'a, str>),
    /// Bytes.
    Bytes(&'a [u8]),
}

/// The columns of a new row, each with what it holds. `row_ids` says who gives it its id.
#[must_use]
pub fn slots<'l>(layout: &'l Layout, row_ids: RowIds) -> Vec<(&'l Identifier, Slot)> {
    let columns = &layout.columns;
    let mut slots: Vec<(&'l Identifier, Slot)> = Vec::new();
    let assigned = columns.id.as_ref().and_then(Column::name).filter(|_| row_ids != RowIds::Event);
    let mut put = |column: &'l Option<Column>, slot: Slot| {
        if let Some(name) = column.as_ref().and_then(Column::name)
            && assigned != Some(name)
            && slots.iter().all(|(taken, _)| *taken != name)
        {
            slots.push((name, slot));
        }
    };
    put(&columns.id, Slot::Part(Field::EventId));
    put(&columns.event_id, Slot::Part(Field::EventId));
    put(&columns.event_type, Slot::Part(Field::Type));
    put(&columns.source, Slot::Part(Field::Source));
    put(&columns.aggregate_type, Slot::Part(Field::AggregateType));
    put(&columns.aggregate_id, Slot::Part(Field::AggregateId));
    put(&columns.key, Slot::Part(Field::Key));
    put(&columns.time, Slot::Part(Field::Time));
    put(&columns.content_type, Slot::Part(Field::ContentType));
    put(&columns.trace, Slot::Part(Field::Trace));
    put(&columns.trace_state, Slot::Part(Field::TraceState));
    put(&columns.sequence, Slot::Part(Field::Sequence));
    put(&columns.extensions, Slot::Part(Field::Extensions));
    put(&columns.payload, Slot::Part(Field::Payload));
    put(&columns.hash, Slot::Part(Field::Hash));
    if let Some(words) = &layout.status {
        put(&columns.status, Slot::Word(words.pending.clone()));
    }
    put(&columns.retries, Slot::Zero);
    put(&columns.version, Slot::Zero);
    slots
}

/// What a column of the new row holds.
#[must_use]
pub fn cell<'a>(layout: &Layout, slot: &'a Slot, envelope: &'a Envelope) -> Cell<'a> {
    match slot {
        Slot::Part(field) => part(layout, *field, envelope),
        Slot::Word(word) => text(word),
        Slot::Zero => Cell::Int(0),
    }
}

fn part<'a>(layout: &Layout, field: Field, envelope: &'a Envelope) -> Cell<'a> {
    match field {
        Field::Id | Field::EventId => text(&envelope.id),
        Field::Type => text(&envelope.event_type),
        Field::Source => text(&envelope.source),
        Field::AggregateType => text(&envelope.aggregate_type),
        Field::AggregateId => text(&envelope.aggregate_id),
        Field::Key => optional(envelope.partition_key.as_deref()),
        Field::Time => time(layout, envelope),
        Field::ContentType => optional(envelope.content_type.as_deref()),
        Field::Trace => optional(envelope.trace.as_ref().map(|trace| &*trace.parent)),
        Field::TraceState => optional(envelope.trace.as_ref().and_then(|trace| trace.state.as_deref())),
        Field::Sequence => envelope.sequence.map_or(Cell::Null, Cell::Int),
        Field::Extensions => extensions(envelope),
        Field::Payload => payload(envelope),
        Field::TooLarge => Cell::Null,
        Field::Hash => Cell::Text(content_hash(&envelope.id, &envelope.event_type, &envelope.data).into()),
    }
}

fn text(value: &str) -> Cell<'_> {
    Cell::Text(Cow::Borrowed(value))
}

fn optional(value: Option<&str>) -> Cell<'_> {
    value.map_or(Cell::Null, text)
}

fn time<'a>(layout: &Layout, envelope: &Envelope) -> Cell<'a> {
    let form = match &layout.columns.time {
        Some(Column::Named(_, form)) => *form,
        _ => TimeForm::Text,
    };
    match form.number(envelope.time) {
        Some(number) => Cell::Int(number),
        None => Cell::Text(layout.zone.write(envelope.time).into()),
    }
}

fn extensions(envelope: &Envelope) -> Cell<'_> {
    if envelope.extensions.is_empty() {
        return Cell::Null;
    }
    let object =
        envelope.extensions.iter().map(|(name, value)| (name.to_string(), serde_json::Value::from(&**value)));
    Cell::Text(serde_json::Value::Object(object.collect()).to_string().into())
}

/// Text where it is text, so that people and JSON functions can read it in place.
fn payload(envelope: &Envelope) -> Cell<'_> {
    if envelope.data.is_empty() {
        return Cell::Null;
    }
    match std::str::from_utf8(&envelope.data) {
        Ok(json) if envelope.is_json() => text(json),
        _ => Cell::Bytes(&envelope.data),
    }
}
