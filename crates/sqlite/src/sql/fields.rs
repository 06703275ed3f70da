//! The envelope's parts as a select list.

use postrider_core::layout::{Column, Identifier, Order, Payload};
use postrider_core::rows::Field;
use postrider_core::{Layout, limits};

use super::literal;

/// The first column behind the envelope.
pub(crate) const STATE: usize = Field::COUNT;

/// Every part in the order of [`Field`]. What is a constant, or is not mapped, is null here and filled in by the decoder.
pub(super) fn fields(layout: &Layout) -> String {
    let mut all = expressions(layout, Field::columns(layout));
    if let Some(payload) = layout.columns.payload.as_ref().and_then(Column::name).map(column) {
        all[Field::Payload as usize] = bounded(&payload);
        all[Field::TooLarge as usize] =
            format!("case when {0} then octet_length({payload}) end", too_large(&payload));
    }
    all.join(", ")
}

/// The same without the payload.
pub(super) fn fields_without_payload(layout: &Layout) -> String {
    let mut parts = Field::columns(layout);
    parts[Field::Payload as usize] = None;
    expressions(layout, parts).join(", ")
}

fn expressions(layout: &Layout, parts: [Option<&Column>; Field::COUNT]) -> [String; Field::COUNT] {
    let mut all = parts.map(|column| expression(layout, column));
    if !layout.columns.extra.is_empty() {
        all[Field::Extensions as usize] = extra(layout);
    }
    all
}

/// The columns that become attributes, as one JSON object; NULL is none.
fn extra(layout: &Layout) -> String {
    let part = |(name, column): (&str, &Column)| match column {
        Column::Constant(constant) => format!("{}, {}", literal(name), literal(constant)),
        column => format!("{}, {}", literal(name), as_text(&expression(layout, Some(column)))),
    };
    let parts: Vec<String> = layout.columns.extra.iter().map(part).collect();
    // A patch leaves out what is null.
    format!("json_patch('{{}}', json_object({}))", parts.join(", "))
}

/// The parts of the key, as text: its scope and its id; null where the entry has none.
pub(super) fn key(layout: &Layout) -> (String, String) {
    let text = |field| match Field::columns(layout)[field as usize] {
        Some(Column::Constant(constant)) => literal(constant),
        column => as_text(&expression(layout, column)),
    };
    let own = format!("nullif({}, '')", text(Field::Key));
    let scope =
        format!("case when {own} is null then coalesce({}, '') else '' end", text(Field::AggregateType));
    let id = format!("coalesce({own}, nullif({}, ''))", text(Field::AggregateId));
    if layout.orders.is_empty() {
        return (scope, id);
    }
    // What a route has no order for has no key.
    let event_type = kind(layout, Field::Type);
    let said = layout.orders.iter().map(|(pattern, order)| {
        let pattern = pattern.replace('[', "[[]").replace('?', "[?]");
        let id = if *order == Order::Key { id.as_str() } else { "null" };
        format!(" when {event_type} glob {} then {id}", literal(&pattern))
    });
    let id = format!("case{} else {id} end", said.collect::<String>());
    (scope, id)
}

/// A part that a kind is made of, as text.
pub(super) fn kind(layout: &Layout, field: Field) -> String {
    match Field::columns(layout)[field as usize] {
        Some(Column::Constant(constant)) => literal(constant),
        column => format!("coalesce({}, '')", as_text(&expression(layout, column))),
    }
}

/// The mapped column, on the table `t`.
pub(super) fn column(name: &Identifier) -> String {
    format!("t.{}", name.quoted())
}

/// A text or a number as text; bytes are none, as the decoder has it.
fn as_text(value: &str) -> String {
    format!("case when typeof({value}) <> 'blob' then cast({value} as text) end")
}

/// A payload that is small enough to be read. SQLite knows a value's size without reading it.
fn bounded(payload: &str) -> String {
    format!("case when {} then null else {payload} end", too_large(payload))
}

fn too_large(payload: &str) -> String {
    format!("octet_length({payload}) > {}", limits::PAYLOAD_BYTES_MAX)
}

fn expression(layout: &Layout, part: Option<&Column>) -> String {
    match part {
        Some(Column::Named(name, _)) => column(name),
        Some(Column::Json(path)) => {
            // A payload that is no JSON makes json_extract fail, and with it every other row of the statement.
            let payload = layout
                .columns
                .payload
                .as_ref()
                .and_then(Column::name)
                .map_or("null".into(), |name| bounded(&column(name)));
            let text =
                if layout.payload == Payload::Json { payload } else { format!("cast({payload} as text)") };
            format!("case when json_valid({text}) then {text} ->> {} end", literal(&path.quoted()))
        }
        Some(Column::Constant(_) | Column::Absent) | None => "null".into(),
    }
}
