//! Appending: one statement for one row, one for many, one call for a row with an idempotency key.

use postrider_core::append::{RowIds, Slot, slots};
use postrider_core::layout::{Column, Identifier, TimeForm, Zone};
use postrider_core::rows::Field;
use postrider_core::{Fault, Layout};

use super::time::zone_sql;
use super::{Names, base_type, function_name, literal};
use crate::append::shape::{Kind, LiveColumn, Shape};

/// $1 the table's quoted name: its columns as one JSON text, so that every driver can read it; null where there is none.
pub(crate) const COLUMNS: &str = concat!(
    "select json_agg(json_build_object('name', a.attname, \
     'type', quote_ident(n.nspname) || '.' || quote_ident(o.typname), 'base', t.typname, \
     'is_text', t.typcategory = 'S', \
     'characters_max', case when t.typname in ('varchar', 'bpchar') then nullif(b.typmod, -1) - 4 end, \
     'not_null', a.attnotnull or b.not_null, \
     'handed_out', a.atthasdef or a.attidentity <> '' or b.domain_default is not null, \
     'default', coalesce(pg_get_expr(d.adbin, d.adrelid), b.domain_default)))::text \
     from pg_attribute as a join pg_type as o on o.oid = a.atttypid join pg_namespace as n on n.oid = o.typnamespace ",
    base_type!(),
    "left join pg_attrdef as d on d.adrelid = a.attrelid and d.adnum = a.attnum \
     where a.attrelid = to_regclass($1::text) and a.attnum > 0 and not a.attisdropped"
);

/// Everything that appends run, compiled for the live table.
#[derive(Debug)]
pub(crate) struct AppendSql {
    /// Who gives new rows their ids.
    pub(crate) row_ids: RowIds,
    /// Whether the row's id is the event's.
    pub(crate) is_row_id: bool,
    /// Whether the row's id is a number.
    pub(crate) counts: bool,
    /// What the parameters of one row are, in order.
    pub(crate) parameters: Vec<Parameter>,
    /// One row: answers its id.
    pub(crate) one: String,
    /// The same without what most events have none of, which the server then need not parse.
    pub(crate) plain: String,
    /// Many rows, each parameter an array: answers their ids in order.
    pub(crate) many: String,
    /// One row by the installed function: answers the row's id, the event's, and whether it was there.
    pub(crate) once: String,
    /// What makes a statement answer the row's id.
    returning: String,
}

/// What a parameter carries, and what its column takes.
#[derive(Clone, Debug)]
pub(crate) struct Parameter {
    pub(crate) slot: Slot,
    pub(crate) field: Field,
    pub(crate) form: Form,
    pub(crate) column: LiveColumn,
    /// Whether [`AppendSql::plain`] leaves it out.
    pub(crate) is_extra: bool,
}

/// How a parameter travels; the statement casts it to what the column is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Text,
    Bytes,
    Int,
}

impl Form {
    fn sql(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Bytes => "bytea",
            Self::Int => "int8",
        }
    }
}

impl AppendSql {
    /// Compiles a layout for the table as it is.
    ///
    /// # Errors
    /// When the table lacks a column, or nobody gives new rows their ids.
    pub(crate) fn new(layout: &Layout, shape: &Shape) -> Result<Self, Fault> {
        let names = Names::new(layout);
        let id =
            layout.columns.id.as_ref().and_then(Column::name).ok_or_else(|| shape.missing(layout, "id"))?;
        let event_id = layout.columns.event_id.as_ref().and_then(Column::name);
        let is_row_id = event_id.is_none_or(|event_id| event_id == id);
        let live_id = shape.column(layout, id)?;
        let row_ids = row_ids(layout, live_id, is_row_id)?;
        let (mut listed, mut ones, mut manys, mut parameters) = (vec![], vec![], vec![], vec![]);
        let (mut plain_listed, mut plains, mut plain_at) = (vec![], vec![], 0);
        for (name, slot) in slots(layout, row_ids) {
            listed.push(name.quoted());
            match slot {
                Slot::Part(field) => {
                    let column = shape.column(layout, name)?.clone();
                    let form = form(layout, field, column.kind);
                    let at = parameters.len() + 1;
                    ones.push(value(layout, &format!("${at}::{}", form.sql()), field, form, &column));
                    manys.push(value(layout, &format!("u.p{at}"), field, form, &column));
                    let is_extra = is_extra(field, &column);
                    if !is_extra {
                        plain_at += 1;
                        plain_listed.push(name.quoted());
                        plains.push(value(
                            layout,
                            &format!("${plain_at}::{}", form.sql()),
                            field,
                            form,
                            &column,
                        ));
                    }
                    parameters.push(Parameter { slot, field, form, column, is_extra });
                    continue;
                }
                Slot::Word(word) => {
                    ones.push(format!("{}::{}", literal(&word), shape.column(layout, name)?.declared));
                }
                Slot::Zero => ones.push("0".into()),
            }
            plain_listed.push(name.quoted());
            plains.extend(ones.last().cloned());
            manys.extend(ones.last().cloned());
        }
        if let Some((name, now)) = due(layout, shape) {
            listed.push(name.quoted());
            plain_listed.push(name.quoted());
            [&mut ones, &mut plains, &mut manys].into_iter().for_each(|all| all.push(now.clone()));
        }
        if let Some((name, empty)) = unmarked(layout, shape) {
            listed.push(name.quoted());
            plain_listed.push(name.quoted());
            [&mut ones, &mut plains, &mut manys].into_iter().for_each(|all| all.push(empty.to_owned()));
        }
        let (listed, returning) = (listed.join(", "), format!(" returning t.{}::text", id.quoted()));
        let into = format!("insert into {} as t ({listed})", names.table);
        let arrays: Vec<String> =
            (1..).zip(&parameters).map(|(at, p)| format!("${at}::{}[]", p.form.sql())).collect();
        let columns: Vec<String> = (1..=parameters.len()).map(|at| format!("p{at}")).collect();
        Ok(Self {
            row_ids,
            is_row_id,
            counts: live_id.kind == Kind::Int,
            one: format!("{into} values ({}){returning}", ones.join(", ")),
            plain: format!(
                "insert into {} as t ({}) values ({}){returning}",
                names.table,
                plain_listed.join(", "),
                plains.join(", ")
            ),
            many: format!(
                "{into} select {} from unnest({}) as u({}){returning}",
                manys.join(", "),
                arrays.join(", "),
                columns.join(", ")
            ),
            parameters,
            once: once(layout),
            returning,
        })
    }

    /// Whether the table may spell the event's id otherwise than the envelope, or hand it out itself.
    pub(crate) fn gives_event_ids(&self) -> bool {
        self.is_row_id || self.row_ids == RowIds::Event
    }

    /// A statement without its answer, unless that tells the event's id: the server keeps answers of an INSERT before it sends
    /// the first.
    pub(crate) fn unanswered<'s>(&self, statement: &'s str) -> &'s str {
        if self.gives_event_ids() {
            return statement;
        }
        statement.strip_suffix(self.returning.as_str()).unwrap_or(statement)
    }
}

/// The call of the installed function; the order of its arguments is [`crate::append::values`]'s.
fn once(layout: &Layout) -> String {
    let arguments = [
        ("type", "text"),
        ("aggregate_type", "text"),
        ("aggregate_id", "text"),
        ("payload", "text"),
        ("idempotency_key", "text"),
        ("key", "text"),
        ("id", "text"),
        ("source", "text"),
        ("event_time", "text::timestamptz"),
        ("content_type", "text"),
        ("trace", "text"),
        ("trace_state", "text"),
        ("sequence", "int8"),
        ("extensions", "text::jsonb"),
        ("payload_bytes", "bytea"),
    ];
    let given: Vec<String> =
        (1..).zip(arguments).map(|(at, (name, kind))| format!("{name} => ${at}::{kind}")).collect();
    format!("select entry, event_id, repeated::text from {}({})", function_name(layout), given.join(", "))
}

/// What [`Zone::write`] writes in. Without a zone's name, which a column of text would not be read back with.
pub(crate) fn offset(zone: Zone) -> String {
    if zone == Zone::default() || zone.name().is_some() { "+00:00".into() } else { zone.to_string() }
}

fn form(layout: &Layout, field: Field, kind: Kind) -> Form {
    let number = match field {
        Field::Sequence => true,
        Field::Time => {
            matches!(&layout.columns.time, Some(Column::Named(_, form)) if *form != TimeForm::Text)
        }
        _ => false,
    };
    match kind {
        _ if number => Form::Int,
        Kind::Bytes => Form::Bytes,
        _ => Form::Text,
    }
}

/// A parameter as its column takes it. Texts are assigned, not cast: a cast would cut what is too long without a word.
fn value(layout: &Layout, parameter: &str, field: Field, form: Form, column: &LiveColumn) -> String {
    let is_local = field == Field::Time && form == Form::Text && column.kind == Kind::Local;
    let cast = if is_local && layout.zone.name().is_some() {
        format!("({parameter}::timestamptz at time zone {})", zone_sql(layout.zone))
    } else if form != Form::Text || column.is_text {
        parameter.to_owned()
    } else {
        format!("{parameter}::{}", column.declared)
    };
    match &column.default {
        Some(default) if column.not_null && is_optional(field) => format!("coalesce({cast}, {default})"),
        _ => cast,
    }
}

/// Whether an event may have none of it.
fn is_optional(field: Field) -> bool {
    use Field::{ContentType, Extensions, Key, Payload, Sequence, Trace, TraceState};
    matches!(field, Key | ContentType | Trace | TraceState | Sequence | Extensions | Payload)
}

/// Whether its column can be left out where an event has none of it: that must mean what an explicit NULL means.
fn is_extra(field: Field, column: &LiveColumn) -> bool {
    is_optional(field) && field != Field::Payload && (column.not_null || !column.handed_out)
}

/// A due time that the table wants to have, and does not fill in: now.
fn due<'l>(layout: &'l Layout, shape: &Shape) -> Option<(&'l Identifier, String)> {
    let Some(Column::Named(name, form)) = &layout.columns.not_before else { return None };
    let column = shape.find(name).filter(|column| column.not_null && !column.handed_out)?;
    let epoch = |units: i64| format!("floor(extract(epoch from now()) * {units})::int8");
    let now = match form {
        TimeForm::UnixS => epoch(1),
        TimeForm::UnixMs => epoch(1_000),
        TimeForm::UnixUs => epoch(1_000_000),
        TimeForm::Text if column.kind == Kind::Local => {
            format!("(now() at time zone {})", zone_sql(layout.zone))
        }
        TimeForm::Text => "now()".into(),
    };
    Some((name, now))
}

/// What shows that a row is published is empty at first, whatever the table would fill in.
fn unmarked<'l>(layout: &'l Layout, shape: &Shape) -> Option<(&'l Identifier, &'static str)> {
    let name = layout.columns.published.as_ref().and_then(Column::name)?;
    let column = shape.find(name)?;
    Some((name, if column.kind == Kind::Boolean { "false" } else { "null" }))
}

fn row_ids(layout: &Layout, id: &LiveColumn, is_row_id: bool) -> Result<RowIds, Fault> {
    match (id.kind, id.handed_out) {
        (Kind::Int | Kind::Number, true) => Ok(RowIds::Table),
        (Kind::Int | Kind::Number, false) => Err(Fault::new(
            format!("table \"{}\"", layout.table),
            format!("column \"{}\" is a number that the table does not hand out", id.name),
            "Make it an identity column (alter table … alter column … add generated by default as identity)",
        )),
        (_, true) if !is_row_id => Ok(RowIds::Table),
        _ => Ok(RowIds::Event),
    }
}
