//! Appending: one statement for one row or for many, one call of the installed procedure.

use postrider_core::append::{RowIds, Slot, slots};
use postrider_core::layout::{Column, Identifier, TimeForm};
use postrider_core::rows::Field;
use postrider_core::{Fault, Layout};

use super::procedure::procedure_name;
use super::{name, place};
use crate::append::shape::{LiveColumn, Shape};
use crate::table::{Kind, Server};

/// `?` the table's database, null for the connection's own, and its name: its columns, each as a JSON text, so that every
/// driver can read it.
pub(crate) const COLUMNS: &str = "\
    select cast(json_object('name', c.column_name, 'kind', c.data_type, 'declared', c.column_type, \
        'characters_max', c.character_maximum_length, 'bytes_max', c.character_octet_length, \
        'not_null', c.is_nullable = 'NO', 'counts', c.extra like '%auto_increment%', \
        'has_default', c.column_default is not null and c.column_default <> 'NULL' and c.extra not like '%DEFAULT_GENERATED%', \
        'engine', t.engine, 'mariadb', version() like '%MariaDB%', 'packet', @@max_allowed_packet, \
        'step', @@auto_increment_increment) as char character set utf8mb4) \
    from information_schema.columns as c join information_schema.tables as t \
        on t.table_schema = c.table_schema and t.table_name = c.table_name \
    where c.table_schema = coalesce(?, database()) and c.table_name = ? order by c.ordinal_position";

/// What does not fit is refused, not cut, and times are UTC, whatever the caller's session has.
const MODES: &str = "STRICT_ALL_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO";

/// Everything that appends run, compiled for the live table.
#[derive(Debug)]
pub(crate) struct AppendSql {
    pub(crate) server: Server,
    pub(crate) packet_bytes_max: usize,
    /// How far apart the ids of one statement are.
    pub(crate) step: i64,
    /// Who gives new rows their ids.
    pub(crate) row_ids: RowIds,
    /// Whether the row's id is the event's.
    pub(crate) is_row_id: bool,
    /// What the parameters of one row are, in order.
    pub(crate) parameters: Vec<Parameter>,
    /// `?` the events as one JSON text: answers each row's id, the event's, and whether it was there.
    pub(crate) call: String,
    into: String,
    /// One row's values.
    row: String,
    /// What follows the values.
    answers: String,
}

/// What a parameter carries, and what its column takes.
#[derive(Clone, Debug)]
pub(crate) struct Parameter {
    pub(crate) slot: Slot,
    pub(crate) column: LiveColumn,
}

impl AppendSql {
    /// Compiles a layout for the table as it is.
    ///
    /// # Errors
    /// When the table lacks a column, or nobody gives new rows their ids.
    pub(crate) fn new(layout: &Layout, shape: &Shape) -> Result<Self, Fault> {
        let Ids { row_ids, is_row_id, id } = ids(layout, shape)?;
        let (mut listed, mut row, mut parameters) = (vec![], vec![], vec![]);
        for (column_name, slot) in slots(layout, row_ids) {
            let column = shape.column(layout, column_name)?.clone();
            let quoted = name(column_name);
            let is_optional = matches!(slot, Slot::Part(field) if is_optional(field));
            row.push(match column.not_null && column.has_default && is_optional {
                true => format!("coalesce(?, default({quoted}))"),
                false => "?".into(),
            });
            listed.push(quoted);
            parameters.push(Parameter { slot, column });
        }
        for (column_name, filled) in [due(layout, shape), unmarked(layout, shape)].into_iter().flatten() {
            listed.push(name(column_name));
            row.push(filled);
        }
        let table = format!("{}{}", place(layout), name(&layout.table));
        let listed = listed.join(", ");
        let into = match shape.server {
            Server::Mariadb => format!(
                "set statement sql_mode = '{MODES}', time_zone = '+00:00' for insert into {table} ({listed}) values "
            ),
            Server::Mysql => format!(
                "insert /*+ set_var(sql_mode = '{MODES}') set_var(time_zone = '+00:00') */ into {table} ({listed}) values "
            ),
        };
        let tells = shape.server == Server::Mariadb && row_ids == RowIds::Table;
        Ok(Self {
            server: shape.server,
            packet_bytes_max: shape.packet_bytes_max,
            step: shape.step,
            row_ids,
            is_row_id,
            parameters,
            call: format!("call {}(?)", procedure_name(layout)),
            into,
            row: format!("({})", row.join(", ")),
            answers: if tells { format!(" returning cast({} as char)", name(id)) } else { String::new() },
        })
    }

    /// The insert of so many rows.
    pub(crate) fn insert(&self, rows: usize) -> String {
        let mut sql =
            String::with_capacity(self.into.len() + rows * (self.row.len() + 2) + self.answers.len());
        sql.push_str(&self.into);
        for at in 0..rows {
            sql.push_str(if at == 0 { "" } else { ", " });
            sql.push_str(&self.row);
        }
        sql.push_str(&self.answers);
        sql
    }
}

/// Who gives new rows their ids.
pub(crate) struct Ids<'l> {
    pub(crate) row_ids: RowIds,
    /// Whether the row's id is the event's.
    pub(crate) is_row_id: bool,
    pub(crate) id: &'l Identifier,
}

pub(crate) fn ids<'l>(layout: &'l Layout, shape: &Shape) -> Result<Ids<'l>, Fault> {
    let id = layout.columns.id.as_ref().and_then(Column::name).ok_or_else(|| shape.missing(layout, "id"))?;
    let event_id = layout.columns.event_id.as_ref().and_then(Column::name);
    let is_row_id = event_id.is_none_or(|event_id| event_id == id);
    let live = shape.column(layout, id)?;
    let refused = |problem: String, remedy: &str| {
        Err(Fault::new(format!("table \"{}\"", layout.table), problem, remedy))
    };
    let row_ids = match live.kind {
        Kind::Integer if live.counts => RowIds::Table,
        Kind::Integer | Kind::Real => {
            return refused(
                format!("column \"{}\" is a number that the table does not hand out", live.name),
                "Make it count: alter table … modify … bigint not null auto_increment",
            );
        }
        Kind::Bytes => {
            return refused(
                format!(
                    "its id \"{}\" is a {}, by which Postrider does not find rows",
                    live.name, live.declared
                ),
                "Map an integer, a text of at most 255 characters or a uuid as columns.id",
            );
        }
        _ => RowIds::Event,
    };
    Ok(Ids { row_ids, is_row_id, id })
}

/// Whether an event may have none of it.
pub(crate) fn is_optional(field: Field) -> bool {
    use Field::{ContentType, Extensions, Key, Payload, Sequence, Trace, TraceState};
    matches!(field, Key | ContentType | Trace | TraceState | Sequence | Extensions | Payload)
}

/// A due time that the table wants to have, and does not fill in: now. The statement's own zone is UTC.
pub(crate) fn due<'l>(layout: &'l Layout, shape: &Shape) -> Option<(&'l Identifier, String)> {
    let Some(Column::Named(name, form)) = &layout.columns.not_before else { return None };
    let column = shape.find(name).filter(|column| column.not_null && !column.has_default)?;
    let epoch = |units: i64| format!("floor(unix_timestamp(current_timestamp(6)) * {units})");
    let now = match (form, column.kind) {
        (_, Kind::Local | Kind::Date) => local(layout, "utc_timestamp(6)"),
        (_, Kind::Moment) | (TimeForm::Text, _) => "utc_timestamp(6)".into(),
        (TimeForm::UnixS, _) => epoch(1),
        (TimeForm::UnixMs, _) => epoch(1_000),
        (TimeForm::UnixUs, _) => epoch(1_000_000),
    };
    Some((name, now))
}

/// A moment in UTC as the layout's zone has it.
pub(crate) fn local(layout: &Layout, moment: &str) -> String {
    match layout.zone.local(jiff::Timestamp::UNIX_EPOCH) / 1_000_000 {
        0 => moment.to_owned(),
        offset_s => format!("({moment} + interval {offset_s} second)"),
    }
}

/// What shows that a row is published is empty at first, whatever the table would fill in.
pub(crate) fn unmarked<'l>(layout: &'l Layout, shape: &Shape) -> Option<(&'l Identifier, String)> {
    let name = layout.columns.published.as_ref().and_then(Column::name)?;
    let column = shape.find(name)?;
    Some((name, if column.kind == Kind::Integer { "0".into() } else { "null".into() }))
}
