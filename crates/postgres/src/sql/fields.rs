//! The envelope's parts as a select list, in the order of [`Field`].

use postrider_core::layout::{Column, Identifier, Order};
use postrider_core::rows::Field;
use postrider_core::{Layout, limits};

use super::time::TimeColumn;
use super::{Names, literal};
use crate::table::{Kind, Table};

/// The first column behind the envelope.
pub(crate) const STATE: usize = Field::COUNT;

/// Every part in the order of [`Field`], of the table under the alias `t`. What is a constant, or is not mapped, is null
/// here and filled in by the decoder.
pub(crate) fn fields(layout: &Layout, table: &Table) -> String {
    let mut all = expressions(layout, table);
    if let Some(payload) = payload(layout, table) {
        let large = payload.too_large();
        all[Field::Payload as usize] = format!("case when {large} then null else {} end", payload.read());
        all[Field::TooLarge as usize] = format!("case when {large} then {}::bigint end", payload.bytes());
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
    if let Some(time) = TimeColumn::new(layout.columns.time.as_ref(), table, layout.zone) {
        all[Field::Time as usize] = time.select();
    }
    if !layout.columns.extra.is_empty() {
        all[Field::Extensions as usize] = extra(layout, table);
    }
    all
}

/// The columns that become attributes, as one JSON object; NULL is none.
fn extra(layout: &Layout, table: &Table) -> String {
    let part = |(name, column)| format!("{}, {}", literal(name), as_text(layout, table, Some(column)));
    let parts: Vec<String> = layout.columns.extra.iter().map(part).collect();
    format!("jsonb_strip_nulls(jsonb_build_object({}))::text", parts.join(", "))
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
    let event_type = kind(layout, table, Field::Type);
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

/// A part as text.
pub(crate) fn text(layout: &Layout, table: &Table, field: Field) -> String {
    as_text(layout, table, Field::columns(layout)[field as usize])
}

fn as_text(layout: &Layout, table: &Table, part: Option<&Column>) -> String {
    match part {
        Some(Column::Constant(constant)) => format!("{}::text", literal(constant)),
        Some(Column::Named(name, _)) => format!("{}::text", column(name)),
        part => format!("({})::text", expression(layout, table, part)),
    }
}

/// The mapped column, on the table `t`.
pub(crate) fn column(name: &Identifier) -> String {
    format!("t.{}", name.quoted())
}

fn expression(layout: &Layout, table: &Table, part: Option<&Column>) -> String {
    match part {
        Some(Column::Named(name, _)) => table.kind(name).select(&column(name)),
        Some(Column::Json(path)) => {
            let Some(payload) = payload(layout, table) else { return "null::text".into() };
            let steps: Vec<String> = path.steps().iter().map(|step| literal(step)).collect();
            format!("({} #>> array[{}]::text[])", payload.json(layout), steps.join(", "))
        }
        Some(Column::Constant(_) | Column::Absent) | None => "null::text".into(),
    }
}

/// The payload's column and what it is.
struct PayloadColumn {
    name: String,
    kind: Kind,
}

fn payload(layout: &Layout, table: &Table) -> Option<PayloadColumn> {
    let name = layout.columns.payload.as_ref().and_then(Column::name)?;
    Some(PayloadColumn { name: column(name), kind: table.kind(name) })
}

/// What a row counts for in the limits, by its payload: known without fetching the value, and never null.
pub(crate) fn payload_bytes(layout: &Layout, table: &Table) -> String {
    let Some(payload) = payload(layout, table) else { return "0::bigint".into() };
    let most = limits::PAYLOAD_BYTES_MAX;
    match payload.kind {
        // One that is too large is not read.
        Kind::Bytes | Kind::Text => {
            let bytes = payload.bytes();
            format!("coalesce(case when {bytes} > {most} then 0 else {bytes} end, 0)::bigint")
        }
        // As it is stored, it is perhaps compressed.
        _ => format!("coalesce(pg_column_size({}) * 3, 0)::bigint", payload.name),
    }
}

impl PayloadColumn {
    fn read(&self) -> String {
        self.kind.select(&self.name)
    }

    /// The size in bytes. That of a text or of bytes is known without reading the value.
    fn bytes(&self) -> String {
        match self.kind {
            Kind::Bytes | Kind::Text => format!("octet_length({})", self.name),
            _ => format!("octet_length({}::text)", self.name),
        }
    }

    fn too_large(&self) -> String {
        let most = limits::PAYLOAD_BYTES_MAX;
        match self.kind {
            Kind::Bytes | Kind::Text => format!("{} > {most}", self.bytes()),
            // Stored it is compressed at best; only what might be too large is written out to be measured.
            _ => format!("(pg_column_size({}) > {} and {} > {most})", self.name, most / 8, self.bytes()),
        }
    }

    /// As JSON; null where it is none.
    fn json(&self, layout: &Layout) -> String {
        let json = Names::new(layout).json;
        match self.kind {
            Kind::Jsonb => self.name.clone(),
            Kind::Json => format!("{}::jsonb", self.name),
            Kind::Bytes => format!("{json}(encode({}, 'escape'))", self.name),
            _ => format!("{json}({}::text)", self.name),
        }
    }
}
