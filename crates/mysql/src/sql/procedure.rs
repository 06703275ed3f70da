//! The procedure that appends from any language, compiled from the layout and the live table (F9).
//!
//! One per outbox, named `{side}append_{table}` in the outbox's database, because every outbox has columns of its own. Its one
//! argument is a JSON document: arguments of procedures have neither names nor defaults here.

use postrider_core::append::{RowIds, Slot, slots};
use postrider_core::layout::{Column, Numbers, Payload, TimeForm};
use postrider_core::rows::Field;
use postrider_core::{Fault, Layout, Names as TypeNames, limits};

use super::append::{Ids, due, ids, is_optional, local, unmarked};
use super::{literal, name, place, quoted};
use crate::append::shape::{LiveColumn, Shape};
use crate::append::values::offset;
use crate::table::{Kind, Server};

const TEMPLATE: &str = include_str!("../../migrations/append.sql");
/// The servers' limit.
const NAME_CHARS_MAX: usize = 64;

/// The statement that creates the procedure, and the mark by which it is known not to have changed.
///
/// # Errors
/// When the table is not as the layout says.
pub(crate) fn procedure_sql(
    layout: &Layout,
    shape: &Shape,
    payload_bytes_max: usize,
) -> Result<(String, String), Fault> {
    let Ids { row_ids, is_row_id, .. } = ids(layout, shape)?;
    let (mut listed, mut values) = (vec![], vec![]);
    for (column_name, slot) in slots(layout, row_ids) {
        let column = shape.column(layout, column_name)?;
        let value = match &slot {
            Slot::Part(field) => part(layout, *field, column),
            Slot::Word(word) => literal(word),
            Slot::Zero => "0".into(),
        };
        let is_optional = matches!(slot, Slot::Part(field) if is_optional(field));
        listed.push(name(column_name));
        values.push(match column.not_null && column.has_default && is_optional {
            true => format!("coalesce({value}, default({}))", name(column_name)),
            false => value,
        });
    }
    for (column_name, filled) in [due(layout, shape), unmarked(layout, shape)].into_iter().flatten() {
        listed.push(name(column_name));
        values.push(filled);
    }
    let payload = layout.columns.payload.as_ref().and_then(Column::name).and_then(|name| shape.find(name));
    let keeps_bytes = payload.is_some_and(|column| column.kind == Kind::Bytes);
    let procedure = procedure_name(layout);
    let side = |table: &str| format!("{}{}", place(layout), quoted(&format!("{}{table}", layout.side)));
    let sql = TEMPLATE
        .replace("{checks}", &checks(layout))
        .replace("{number}", &number(layout, &side("sequences")))
        .replace("{listed}", &listed.join(", "))
        .replace("{values}", &values.join(", "))
        .replace("{entry}", if row_ids == RowIds::Table { "last_insert_id()" } else { "v_id" })
        .replace("{told}", if is_row_id { "            set v_id = v_entry;\n" } else { "" })
        .replace("{keeps_text}", if keeps_bytes { "false" } else { "true" })
        .replace("{payload_bytes_max}", &payload_bytes_max.to_string())
        .replace("{key_bytes_max}", &limits::KEY_BYTES_MAX.to_string())
        .replace("{replacing}", if shape.server == Server::Mariadb { "or replace" } else { "" })
        .replace("{idempotency}", &side("idempotency"))
        .replace("{outbox}", &literal(layout.table.as_str()))
        .replace("{table}", &format!("{}{}", place(layout), name(&layout.table)))
        .replace("{procedure}", &procedure)
        .replace("{called}", &in_comment(&procedure))
        .replace("{shown}", &in_comment(layout.table.as_str()));
    let mark = format!("postrider {:016x}", hash(&sql));
    Ok((sql.replace("{mark}", &mark), mark))
}

/// The procedure's name, quoted and in the outbox's database.
pub(crate) fn procedure_name(layout: &Layout) -> String {
    format!("{}{}", place(layout), quoted(&bare_name(layout)))
}

/// The name without its database, as the server's own tables have it.
pub(crate) fn bare_name(layout: &Layout) -> String {
    let whole = format!("{}append_{}", layout.side, layout.table);
    if whole.chars().count() <= NAME_CHARS_MAX {
        return whole;
    }
    // Two long names that begin alike stay two procedures.
    let mark = format!("_{:016x}", hash(&whole));
    let kept: String = whole.chars().take(NAME_CHARS_MAX - mark.len()).collect();
    format!("{kept}{mark}")
}

/// FNV-1a: the same in every version, unlike the standard library's.
fn hash(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// A name in a comment must not end it.
fn in_comment(name: &str) -> String {
    name.replace(char::is_control, " ")
}

fn part(layout: &Layout, field: Field, column: &LiveColumn) -> String {
    match field {
        Field::Id | Field::EventId => "v_id".into(),
        Field::Type => "v_type".into(),
        Field::Source => format!("coalesce(v_source, {})", literal(&format!("/{}", layout.table))),
        Field::AggregateType => "v_aggregate_type".into(),
        Field::AggregateId => "v_aggregate_id".into(),
        Field::Key => "v_key".into(),
        Field::Time => time(layout, column),
        Field::ContentType => "v_content_type".into(),
        Field::Trace => "v_trace".into(),
        Field::TraceState => "v_trace_state".into(),
        Field::Sequence => "v_sequence".into(),
        Field::Extensions => "v_extensions".into(),
        Field::Payload | Field::TooLarge if column.kind == Kind::Bytes => {
            "coalesce(v_bytes, cast(v_text as binary))".into()
        }
        Field::Payload | Field::TooLarge => "v_text".into(),
        Field::Hash => "lower(sha2(concat(cast(concat(v_id, '|', v_type, '|') as binary), \
            coalesce(v_bytes, cast(v_text as binary), '')), 256))"
            .into(),
    }
}

fn time(layout: &Layout, column: &LiveColumn) -> String {
    let form = match &layout.columns.time {
        Some(Column::Named(_, form)) => *form,
        _ => TimeForm::Text,
    };
    let since = |unit: &str| format!("(timestampdiff(microsecond, '1970-01-01', v_time) div {unit})");
    match (column.kind, form) {
        (Kind::Moment, _) => "v_time".into(),
        (Kind::Local | Kind::Date, _) => local(layout, "v_time"),
        (_, TimeForm::UnixS) => since("1000000"),
        (_, TimeForm::UnixMs) => since("1000"),
        (_, TimeForm::UnixUs) => since("1"),
        (_, TimeForm::Text) => {
            let written = local(layout, "v_time");
            format!("concat(date_format({written}, '%Y-%m-%d %H:%i:%s.%f'), '{}')", offset(layout))
        }
    }
}

/// Gives the event the next number of its key: whoever writes the key's next event waits for this transaction's end, and a
/// number that was rolled back is given again.
fn number(layout: &Layout, sequences: &str) -> String {
    if layout.numbers == Numbers::Writer {
        return String::new();
    }
    let columns = &layout.columns;
    let own = match &columns.key {
        Some(Column::Json(path)) => found(&path.quoted()),
        Some(Column::Named(..)) => "v_key".into(),
        Some(Column::Constant(constant)) => literal(constant),
        Some(Column::Absent) | None => "null".into(),
    };
    let aggregate = |column: &Option<Column>, given: &str| match column {
        Some(Column::Constant(constant)) => literal(constant),
        Some(Column::Json(path)) => found(&path.quoted()),
        _ => given.to_owned(),
    };
    let (scope, id) = (
        aggregate(&columns.aggregate_type, "v_aggregate_type"),
        aggregate(&columns.aggregate_id, "v_aggregate_id"),
    );
    let put = match &columns.sequence {
        Some(Column::Json(path)) => {
            let path = literal(&path.quoted());
            format!(
                "            if json_contains_path(v_text, 'one', {path}) then\n                \
                     signal sqlstate '45000' set message_text = 'the payload has a number already, and the append gives the numbers';\n            \
                 end if;\n            set v_text = json_set(v_text, {path}, v_sequence);\n"
            )
        }
        _ => String::new(),
    };
    format!(
        "            set v_scope = if(nullif({own}, '') is null, coalesce({scope}, ''), ''), v_kind = coalesce(nullif({own}, ''), {id});\n            \
         if v_kind is null or octet_length(v_kind) > {most} or octet_length(v_scope) > {most} then\n                \
             signal sqlstate '45000' set message_text = 'the event has no key of at most {most} bytes, within which it is numbered';\n            \
         end if;\n            \
         insert into {sequences} (outbox, scope, `key`, last) values ({outbox}, v_scope, v_kind, 1)\n                \
             on duplicate key update last = last + 1;\n            \
         select s.last into v_sequence from {sequences} as s where s.outbox = {outbox}\n                \
             and s.scope = cast(v_scope as binary) and s.`key` = cast(v_kind as binary) for update;\n{put}",
        most = limits::KEY_BYTES_MAX,
        outbox = literal(layout.table.as_str()),
    )
}

/// What stands at a path of the payload, as text.
fn found(path: &str) -> String {
    let found = format!("json_extract(v_text, {})", literal(path));
    format!("(case when json_type({found}) <> 'NULL' then json_unquote({found}) end)")
}

/// What would be refused later, or not be kept (F5).
fn checks(layout: &Layout) -> String {
    let columns = &layout.columns;
    let column = |column: &Option<Column>| column.as_ref().and_then(Column::name).cloned();
    let needs_aggregate_id =
        column(&columns.aggregate_id).is_some() && column(&columns.aggregate_id) != column(&columns.event_id);
    let attribute = limits::ATTRIBUTE_BYTES_MAX;
    let mut sql = String::new();
    for (member, bytes_max, required) in [
        ("type", limits::TYPE_BYTES_MAX, true),
        ("aggregate_type", attribute, column(&columns.aggregate_type).is_some()),
        ("aggregate_id", limits::KEY_BYTES_MAX, needs_aggregate_id),
        ("key", limits::KEY_BYTES_MAX, false),
        ("id", attribute, false),
        ("source", attribute, false),
        ("content_type", attribute, false),
        ("trace", attribute, false),
        ("trace_state", attribute, false),
    ] {
        let missing = if required { format!("v_{member} is null or ") } else { String::new() };
        let condition = format!(
            "{missing}v_{member} = '' or octet_length(v_{member}) > {bytes_max} or v_{member} regexp '[\\\\x{{00}}-\\\\x{{1f}}\\\\x{{7f}}-\\\\x{{9f}}]'"
        );
        let problem =
            format!("the event''s {member} is missing, over {bytes_max} bytes or holds a control character");
        sql.push_str(&refuse(&condition, &problem));
    }
    if layout.names == TypeNames::Convention {
        sql.push_str(&refuse(
            "not v_type regexp '^([a-z][a-z0-9_-]*\\\\.){3}v[1-9][0-9]{0,9}$' or cast(substring_index(v_type, '.v', -1) as unsigned) > 4294967295",
            "the event''s type is not of the form company.domain.action.v1, such as loopers.order.created.v1",
        ));
    }
    for (member, given, kept) in [
        ("key", "v_key is not null", columns.key.is_some()),
        ("content_type", "not v_is_json", columns.content_type.is_some()),
        ("sequence", "v_sequence is not null", columns.sequence.is_some()),
        ("extensions", "v_extensions is not null", columns.extensions.is_some()),
    ] {
        if !kept {
            let problem = format!(
                "the event has a {member}, and the outbox has no column for it: map columns.{member} in the layout"
            );
            sql.push_str(&refuse(given, &problem));
        }
    }
    if layout.numbers == Numbers::Append {
        sql.push_str(&refuse(
            "v_sequence is not null",
            "the event has a sequence, and the append gives the numbers: leave it out",
        ));
    }
    if columns.hash.is_some() {
        sql.push_str(&refuse(
            "v_id like '%|%' or v_type like '%|%'",
            "the event''s id or its type has a |, by which its hash joins them: choose others",
        ));
    }
    if column(&columns.aggregate_id).is_some() && !needs_aggregate_id {
        sql.push_str(&refuse(
            "v_aggregate_id <> v_id",
            "the event''s id and its aggregate_id differ, and the outbox has one column for both",
        ));
    }
    if layout.payload == Payload::Json && columns.content_type.is_some() {
        sql.push_str(&refuse("not v_is_json", "the content type is not JSON, and the outbox keeps JSON"));
    }
    if columns.extensions.is_some() {
        sql.push_str(&refuse(
            "v_extensions is not null and (json_type(v_extensions) <> 'OBJECT' or exists (select 1 from \
             json_table(json_keys(v_extensions), '$[*]' columns (name longtext character set utf8mb4 path '$')) as x \
             where not x.name collate utf8mb4_bin regexp '^[a-z0-9]{1,64}$' \
             or json_type(json_extract(v_extensions, concat('$.\"', x.name, '\"'))) <> 'STRING'))",
            "the event''s extensions are no object of texts with names in lower-case letters and digits",
        ));
    }
    sql
}

fn refuse(condition: &str, problem: &str) -> String {
    format!(
        "        if {condition} then\n            signal sqlstate '45000' set message_text = '{problem}';\n        end if;\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use postrider_core::layout::Identifier;

    #[test]
    fn long_names_that_begin_alike_stay_apart() {
        let mut layout = Layout::built_in("ledger").unwrap();
        assert_eq!(procedure_name(&layout), "`postrider_append_outbox_event`");
        let mut names = Vec::new();
        for end in ["one", "two"] {
            layout.table = Identifier::new(format!("{}_{end}", "a_long_name_".repeat(4))).unwrap();
            names.push(bare_name(&layout));
        }
        assert!(names[0] != names[1] && names.iter().all(|name| name.len() == NAME_CHARS_MAX), "{names:?}");
    }
}
