//! The envelope's parts as a select list, in the order of [`Field`].

use postrider_core::layout::{Column, Identifier, JsonPath, Order};
use postrider_core::rows::Field;
use postrider_core::{Layout, limits};

use super::{literal, name};
use crate::table::{Kind, Table};

/// The first column behind the envelope.
pub(crate) const STATE: usize = Field::COUNT;

/// Every part in the order of [`Field`], of the table under the alias `t`. What is a constant, or is not mapped, is null
/// here and filled in by the decoder.
pub(crate) fn fields(layout: &Layout, table: &Table) -> String {
    let mut all = expressions(layout, table);
    if let Some(payload) = payload(layout) {
        let large = format!("octet_length({payload}) > {}", limits::PAYLOAD_BYTES_MAX);
        all[Field::Payload as usize] = format!("case when {large} then null else {payload} end");
        all[Field::TooLarge as usize] = format!("case when {large} then octet_length({payload}) end");
    }
    all.join(", ")
}

/// The same without the payload.
pub(crate) fn fields_without_payload(layout: &Layout, table: &Table) -> String {
    expressions(layout, table).join(", ")
}

fn expressions(layout: &Layout, table: &Table) -> [String; Field::COUNT] {
    let mut columns = Field::columns(layout);
    columns[Field::Payload as usize] = None;
    let mut all = columns.map(|column| expression(layout, table, column));
    if !layout.columns.extra.is_empty() {
        all[Field::Extensions as usize] = extra(layout, table);
    }
    all
}

/// The columns that become attributes, as one JSON object; NULL is none.
fn extra(layout: &Layout, table: &Table) -> String {
    let part = |(name, column)| {
        let text = as_text(layout, table, Some(column));
        format!("case when {text} is null then '{{}}' else json_object({}, {text}) end", literal(name))
    };
    let parts: Vec<String> = layout.columns.extra.iter().map(part).collect();
    format!("cast(json_merge_preserve('{{}}', {}) as char character set utf8mb4)", parts.join(", "))
}

/// The parts of the key, as text: its scope and its id; null where the entry has none.
pub(crate) fn key(layout: &Layout, table: &Table) -> (String, String) {
    let part = |field| text(layout, table, field);
    let own = format!("nullif({}, '')", part(Field::Key));
    let scope =
        format!("case when {own} is null then coalesce({}, '') else '' end", part(Field::AggregateType));
    let id = format!("coalesce({own}, nullif({}, ''))", part(Field::AggregateId));
    if layout.orders.is_empty() {
        return (scope, id);
    }
    // What a route has no order for has no key.
    let event_type = format!("coalesce({}, '')", part(Field::Type));
    let said = layout.orders.iter().map(|(pattern, order)| {
        let pattern = pattern.replace('!', "!!").replace('%', "!%").replace('_', "!_").replace('*', "%");
        let id = if *order == Order::Key { id.as_str() } else { "null" };
        format!(" when {event_type} like {} escape '!' then {id}", literal(&pattern))
    });
    let id = format!("case{} else {id} end", said.collect::<String>());
    (scope, id)
}

/// A part as text; never null.
pub(crate) fn kind(layout: &Layout, table: &Table, field: Field) -> String {
    format!("coalesce({}, '')", text(layout, table, field))
}

/// A part as text, compared letter by letter.
pub(crate) fn text(layout: &Layout, table: &Table, field: Field) -> String {
    as_text(layout, table, Field::columns(layout)[field as usize])
}

fn as_text(layout: &Layout, table: &Table, part: Option<&Column>) -> String {
    let value = match part {
        Some(Column::Constant(constant)) => literal(constant),
        part => expression(layout, table, part),
    };
    format!("(cast({value} as char character set utf8mb4) collate utf8mb4_bin)")
}

/// The mapped column, on the table `t`.
pub(crate) fn column(column: &Identifier) -> String {
    format!("t.{}", name(column))
}

fn expression(layout: &Layout, table: &Table, part: Option<&Column>) -> String {
    match part {
        Some(Column::Named(name, _)) => table.kind(name).select(&column(name)),
        Some(Column::Json(path)) => json(layout, table, path),
        Some(Column::Constant(_) | Column::Absent) | None => "null".into(),
    }
}

/// What stands at a path of the payload, as text; null where the payload is no JSON or has nothing there.
fn json(layout: &Layout, table: &Table, path: &JsonPath) -> String {
    let Some(name) = layout.columns.payload.as_ref().and_then(Column::name) else { return "null".into() };
    let document = match table.kind(name) {
        Kind::Bytes => format!("convert({} using utf8mb4)", column(name)),
        _ => column(name),
    };
    // Not every server takes what is no JSON for nothing: some fail the whole statement.
    let found =
        format!("if(json_valid({document}), json_extract({document}, {}), null)", literal(&path.quoted()));
    format!("(case when json_type({found}) <> 'NULL' then json_unquote({found}) end)")
}

fn payload(layout: &Layout) -> Option<String> {
    layout.columns.payload.as_ref().and_then(Column::name).map(column)
}

/// What a row counts for in the limits, by its payload. One that is too large is not read.
pub(crate) fn payload_bytes(layout: &Layout) -> String {
    let Some(payload) = payload(layout) else { return "0".into() };
    let most = limits::PAYLOAD_BYTES_MAX;
    format!("coalesce(case when octet_length({payload}) <= {most} then octet_length({payload}) end, 0)")
}
