//! The function that appends from any language, compiled from the layout (F9).
//!
//! One per outbox, named `{side}append_{table}` in the outbox's schema, because every outbox has columns of its own. Types are
//! the live columns' (`%type`), so that nothing has to be known of the table here.

use postrider_core::append::{RowIds, Slot, slots};
use postrider_core::layout::{Column, Identifier, Payload, TimeForm};
use postrider_core::rows::Field;
use postrider_core::{Layout, limits};

use super::{Names, in_schema, literal, quoted};

const TEMPLATE: &str = include_str!("../../migrations/append.sql");
/// PostgreSQL's limit; it cuts longer names without a word.
const NAME_BYTES_MAX: usize = 63;

/// The statement that creates or replaces the function.
pub(crate) fn function_sql(layout: &Layout, payload_bytes_max: usize) -> String {
    let names = Names::new(layout);
    let columns = slots(layout, RowIds::Event);
    let (declare_due, fill_due) = due(layout, &names);
    let (declare_mark, fill_mark) = unmarked(layout, &names);
    let declare: String = parts(&columns)
        .map(|(at, name, _)| format!("    c{at} {}.{}%type;\n", names.table, name.quoted()))
        .collect();
    let fill: String = parts(&columns)
        .skip(1)
        .map(|(at, _, field)| format!("    {}\n", fill(layout, &format!("c{at}"), field)))
        .collect();
    let sql = TEMPLATE
        .replace("{declare}", &(declare + &declare_due + &declare_mark))
        .replace("{checks}", &checks(layout))
        .replace("{fill}", &(fill + &fill_due + &fill_mark))
        .replace("{insert}", &insert(layout, &names, &columns))
        .replace("{payload_bytes_max}", &payload_bytes_max.to_string())
        .replace("{key_bytes_max}", &limits::KEY_BYTES_MAX.to_string())
        .replace("{function}", &function_name(layout))
        .replace("{table}", &names.table)
        .replace("{idempotency}", &names.idempotency)
        .replace("{outbox}", &literal(layout.table.as_str()));
    // The quotes around the body are ones that no name in it can close.
    let tag = (0..).map(|n| format!("$body{n}$")).find(|tag| !sql.contains(tag)).unwrap_or_default();
    sql.replace("$postrider$", &tag)
}

/// The function's name, quoted and in the outbox's schema.
pub(crate) fn function_name(layout: &Layout) -> String {
    let whole = format!("{}append_{}", layout.side, layout.table);
    if whole.len() <= NAME_BYTES_MAX {
        return in_schema(layout, &quoted(&whole));
    }
    // Two long names that begin alike stay two functions.
    let mark = format!("_{:08x}", hash(&whole));
    let kept = (0..=NAME_BYTES_MAX - mark.len()).rev().find(|at| whole.is_char_boundary(*at)).unwrap_or(0);
    in_schema(layout, &quoted(&format!("{}{mark}", &whole[..kept])))
}

/// FNV-1a: the same in every version, unlike the standard library's.
fn hash(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// The columns that hold a part of the event, each with its place among all; the first is the id.
fn parts<'a>(columns: &'a [(&Identifier, Slot)]) -> impl Iterator<Item = (usize, &'a Identifier, Field)> {
    columns.iter().enumerate().filter_map(|(at, (name, slot))| match slot {
        Slot::Part(field) => Some((at, *name, *field)),
        Slot::Word(_) | Slot::Zero => None,
    })
}

/// The type of a variable; beside a bare NULL a domain counts as the type that it is over.
fn typed(variable: &str) -> String {
    format!("pg_typeof(coalesce({variable}, null))")
}

fn fill(layout: &Layout, to: &str, field: Field) -> String {
    match field {
        Field::Id | Field::EventId => format!("{to} := the_id;"),
        Field::Type => format!("{to} := $1;"),
        Field::Source => format!("{to} := coalesce($8, {});", literal(&format!("/{}", layout.table))),
        Field::AggregateType => format!("{to} := $2;"),
        Field::AggregateId => format!("{to} := $3;"),
        Field::Key => format!("{to} := $6;"),
        Field::Time => time(layout, to),
        Field::ContentType => format!("{to} := $10;"),
        Field::Trace => format!("{to} := $11;"),
        Field::TraceState => format!("{to} := $12;"),
        Field::Sequence => format!("{to} := $13;"),
        Field::Extensions => format!("{to} := $14::text;"),
        Field::Payload | Field::TooLarge => format!(
            "if {} = 'bytea'::regtype then\n        \
                 {to} := coalesce(the_bytes, convert_to(the_text, 'UTF8'));\n    \
             else\n        \
                 {to} := coalesce(the_text, convert_from(the_bytes, 'UTF8'));\n    \
             end if;",
            typed(to)
        ),
        Field::Hash => format!(
            "{to} := encode(sha256(convert_to(the_id || '|' || $1 || '|', 'UTF8') || \
             coalesce(the_bytes, convert_to(the_text, 'UTF8'), ''::bytea)), 'hex');"
        ),
    }
}

fn time(layout: &Layout, to: &str) -> String {
    match &layout.columns.time {
        Some(Column::Named(_, form)) => moment(layout, to, *form, "the_time"),
        _ => String::new(),
    }
}

/// Writes a moment as its column has it.
fn moment(layout: &Layout, to: &str, form: TimeForm, from: &str) -> String {
    let units = match form {
        TimeForm::UnixS => 1,
        TimeForm::UnixMs => 1_000,
        TimeForm::UnixUs => 1_000_000,
        TimeForm::Text => {
            let offset = super::append::offset(layout.zone);
            let local = format!("({from} at time zone {})", super::time::zone_sql(layout.zone));
            let written = format!("({from} at time zone interval '{offset}')");
            let is = typed(to);
            return format!(
                "if {is} = 'timestamp'::regtype then\n        \
                     {to} := {local};\n    \
                 elsif {is} = 'timestamptz'::regtype then\n        \
                     {to} := {from};\n    \
                 else\n        \
                     {to} := to_char({written}, 'YYYY-MM-DD HH24:MI:SS.US') || '{offset}';\n    \
                 end if;"
            );
        }
    };
    format!("{to} := floor(extract(epoch from {from}) * {units})::bigint;")
}

/// The column for the due time, where the table wants to have one: now, and so does its default.
fn due(layout: &Layout, names: &Names) -> (String, String) {
    let Some(Column::Named(name, form)) = &layout.columns.not_before else { return Default::default() };
    let fill = moment(layout, "due", *form, "now()").replace("\n", "\n    ");
    (
        format!("    due {}.{}%type;\n", names.table, name.quoted()),
        format!(
            "    if (select a.attnotnull or a.atthasdef from pg_attribute as a where a.attrelid = {}::regclass and a.attname = {}) then\n        \
             {fill}\n    end if;\n",
            literal(&names.table),
            literal(name.as_str())
        ),
    )
}

/// What shows that a row is published is empty at first: false, where it is a flag.
fn unmarked(layout: &Layout, names: &Names) -> (String, String) {
    let Some(name) = layout.columns.published.as_ref().and_then(Column::name) else {
        return Default::default();
    };
    (
        format!("    mark {}.{}%type;\n", names.table, name.quoted()),
        format!(
            "    if {} = 'boolean'::regtype then\n        mark := 'false';\n    end if;\n",
            typed("mark")
        ),
    )
}

fn insert(layout: &Layout, names: &Names, columns: &[(&Identifier, Slot)]) -> String {
    let Some((id, _)) = columns.first() else { return String::new() };
    let event_id = layout.columns.event_id.as_ref().and_then(Column::name);
    let is_row_id = event_id.is_none_or(|event_id| event_id == *id);
    let statement = |from: usize| {
        let due = layout.columns.not_before.as_ref().and_then(Column::name);
        let mark = layout.columns.published.as_ref().and_then(Column::name);
        let filled = due.into_iter().chain(mark).map(Identifier::quoted);
        let listed = columns.iter().skip(from).map(|(name, _)| name.quoted()).chain(filled);
        let listed = listed.collect::<Vec<_>>().join(", ");
        let value = |(at, (_, slot)): (usize, &(&Identifier, Slot))| match slot {
            Slot::Part(_) => format!("c{at}"),
            Slot::Word(word) => literal(word),
            Slot::Zero => "0".into(),
        };
        let filled = due.map(|_| "due".to_owned()).into_iter().chain(mark.map(|_| "mark".to_owned()));
        let values = columns.iter().enumerate().skip(from).map(value).chain(filled);
        let values = values.collect::<Vec<_>>().join(", ");
        format!(
            "insert into {} ({listed})\n            values ({values})\n            returning {}::text into the_entry;",
            names.table,
            id.quoted()
        )
    };
    let asks = if is_row_id {
        String::new()
    } else {
        format!(
            "    if gives_id then\n        select not (a.atthasdef or a.attidentity <> '') into gives_id from pg_attribute as a\n            \
                 where a.attrelid = {}::regclass and a.attname = {};\n    end if;\n",
            literal(&names.table),
            literal(id.as_str())
        )
    };
    let told = if is_row_id { "    the_id := the_entry;\n" } else { "" };
    format!(
        "    gives_id := {} <> all ('{{smallint,integer,bigint,numeric}}'::regtype[]);\n{asks}    \
         if gives_id then\n        c0 := the_id;\n        {}\n    else\n        {}\n    end if;\n{told}",
        typed("c0"),
        statement(0),
        statement(1)
    )
}

/// What would be refused later, or not be kept (F5).
fn checks(layout: &Layout) -> String {
    let columns = &layout.columns;
    let named = |column: &Option<Column>| column.as_ref().and_then(Column::name).is_some();
    let attribute = limits::ATTRIBUTE_BYTES_MAX;
    let mut sql = String::new();
    for (argument, at, bytes_max, required) in [
        ("type", 1, limits::TYPE_BYTES_MAX, true),
        ("aggregate_type", 2, attribute, named(&columns.aggregate_type)),
        ("aggregate_id", 3, limits::KEY_BYTES_MAX, named(&columns.aggregate_id)),
        ("key", 6, limits::KEY_BYTES_MAX, false),
        ("id", 7, attribute, false),
        ("source", 8, attribute, false),
        ("content_type", 10, attribute, false),
        ("trace", 11, attribute, false),
        ("trace_state", 12, attribute, false),
    ] {
        let missing = if required { format!("${at} is null or ") } else { String::new() };
        let condition = format!(
            "{missing}${at} = '' or octet_length(${at}) > {bytes_max} or ${at} ~ '[\\u0001-\\u001f\\u007f-\\u009f]'"
        );
        let problem = format!(
            "the event''s {argument} is missing, over {bytes_max} bytes or holds a control character"
        );
        sql.push_str(&refuse(&condition, &problem, "Give one that is short and plain."));
    }
    if layout.names == postrider_core::Names::Convention {
        sql.push_str(&refuse(
            "$1 !~ '^([a-z][a-z0-9_-]*\\.){3}v[1-9][0-9]{0,9}$' or substring($1 from '[0-9]+$')::bigint > 4294967295",
            "the event''s type is not of the form company.domain.action.v1 (lower case, a version from 1)",
            "Rename it, for example loopers.order.created.v1.",
        ));
    }
    for (argument, given, kept) in [
        ("key", "$6 is not null", columns.key.is_some()),
        ("content_type", "not is_json", columns.content_type.is_some()),
        ("sequence", "$13 is not null", columns.sequence.is_some()),
        ("extensions", "$14 is not null", columns.extensions.is_some()),
    ] {
        if !kept {
            let problem = format!("the event has a {argument}, and the outbox has no column for it");
            let remedy =
                format!("Leave it out, or map columns.{argument} in the layout and run postrider migrate.");
            sql.push_str(&refuse(given, &problem, &remedy));
        }
    }
    if layout.payload == Payload::Json && columns.content_type.is_some() {
        sql.push_str(&refuse(
            "not is_json",
            "the content type is not JSON, and the outbox keeps JSON",
            "Append JSON.",
        ));
    }
    if columns.extensions.is_some() {
        sql.push_str(&refuse(
            "case when jsonb_typeof($14) <> 'object' then true else exists (select from jsonb_each($14) as e \
             where jsonb_typeof(e.value) <> 'string' or e.key !~ '^[a-z0-9]{1,64}$') end",
            "the event''s extensions are no object of texts with names in lower-case letters and digits",
            "Write them like {\"tenant\": \"acme\"}.",
        ));
    }
    sql
}

/// In brackets, because plpgsql takes the first `then` outside of any for the end of the condition.
fn refuse(condition: &str, problem: &str, remedy: &str) -> String {
    format!(
        "    if ({condition}) then\n        raise invalid_parameter_value using message = '{problem}',\n            hint = '{remedy}';\n    end if;\n"
    )
}
