//! Envelopes become rows.

use std::borrow::Cow;

use postrider_core::layout::{Column, Payload, TimeForm};
use postrider_core::{Envelope, Fault, Layout};

use crate::sql::Slot;

/// A value for a column, for whichever driver binds it.
#[derive(Clone, Debug)]
pub(crate) enum Cell<'a> {
    Null,
    Int(i64),
    Text(Cow<'a, str>),
    Bytes(&'a [u8]),
}

/// Whether a table can keep everything that an envelope says; nothing is dropped silently (F5).
pub(crate) fn accept(layout: &Layout, payload_bytes_max: usize, envelope: &Envelope) -> Result<(), Fault> {
    envelope.validate(layout.names, payload_bytes_max)?;
    let columns = &layout.columns;
    let lost = [
        ("a key of its own", "key", envelope.partition_key.is_some() && columns.key.is_none()),
        ("a content type", "content_type", !envelope.is_json() && columns.content_type.is_none()),
        ("a sequence", "sequence", envelope.sequence.is_some() && columns.sequence.is_none()),
        (
            "extension attributes",
            "extensions",
            !envelope.extensions.is_empty() && columns.extensions.is_none(),
        ),
    ];
    if let Some((what, key, _)) = lost.into_iter().find(|(_, _, lost)| *lost) {
        return Err(Fault::new(
            format!("event \"{}\"", envelope.event_type),
            format!("it has {what}, and layout \"{}\" has no column for it", layout.name),
            format!("Leave it out, or map columns.{key} in the layout"),
        ));
    }
    if layout.payload == Payload::Json && !envelope.is_json() {
        return Err(Fault::new(
            format!("event \"{}\"", envelope.event_type),
            format!(
                "its content type is {}, and layout \"{}\" keeps JSON",
                envelope.content_type(),
                layout.name
            ),
            "Append JSON, or set payload = \"bytes\" in the layout",
        ));
    }
    Ok(())
}

/// What a column of the new row holds.
pub(crate) fn cell<'a>(layout: &Layout, slot: &'a Slot, envelope: &'a Envelope) -> Cell<'a> {
    match slot {
        Slot::EventId => text(&envelope.id),
        Slot::Type => text(&envelope.event_type),
        Slot::Source => text(&envelope.source),
        Slot::AggregateType => text(&envelope.aggregate_type),
        Slot::AggregateId => text(&envelope.aggregate_id),
        Slot::Key => optional(envelope.partition_key.as_deref()),
        Slot::Time => time(layout, envelope),
        Slot::ContentType => optional(envelope.content_type.as_deref()),
        Slot::Trace => optional(envelope.trace.as_ref().map(|trace| &*trace.parent)),
        Slot::TraceState => optional(envelope.trace.as_ref().and_then(|trace| trace.state.as_deref())),
        Slot::Sequence => envelope.sequence.map_or(Cell::Null, Cell::Int),
        Slot::Extensions => extensions(envelope),
        Slot::Payload => payload(envelope),
        Slot::Word(word) => text(word),
        Slot::Zero => Cell::Int(0),
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
