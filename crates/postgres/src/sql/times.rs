//! Times, whatever a column's type and form: read as a moment, and written as the column has it.

use postrider_core::layout::{Column, TimeForm, Zone};

use super::fields::column;
use crate::table::{Kind, Table};

/// Microseconds as an interval.
pub(crate) fn interval(parameter: &str) -> String {
    format!("{parameter} * interval '1 microsecond'")
}

/// A moment as a mapped column spells it.
pub(crate) fn written(table: &Table, mapped: &Column, zone: Zone, moment: &str) -> String {
    let (kind, form) = spelled(table, mapped);
    let local = format!("({moment} at time zone {})", offset(zone));
    match kind {
        Kind::Moment => moment.to_owned(),
        Kind::Local => local,
        Kind::Date => format!("{local}::date"),
        Kind::Integer => format!("floor(extract(epoch from {moment}) * {})::bigint", per_second(form)),
        Kind::Real => format!("(extract(epoch from {moment}) * {})::float8", per_second(form)),
        _ => format!("to_char({local}, 'YYYY-MM-DD HH24:MI:SS.US')"),
    }
}

/// A mapped column of the table `t` as a moment, for comparing; none where only the decoder can tell.
pub(crate) fn moment(table: &Table, mapped: &Column, zone: Zone) -> Option<String> {
    let name = column(mapped.name()?);
    let (kind, form) = spelled(table, mapped);
    match kind {
        Kind::Moment => Some(name),
        Kind::Local | Kind::Date => Some(format!("({name}::timestamp at time zone {})", offset(zone))),
        // What is out of any calendar is compared as its nearest bound.
        Kind::Integer | Kind::Real if form != TimeForm::Text => Some(format!(
            "to_timestamp(least(greatest({name}::float8 / {}, -62135596800), 253402300799))",
            per_second(form)
        )),
        _ => None,
    }
}

/// What the column is, and the form that its numbers have.
pub(crate) fn spelled(table: &Table, mapped: &Column) -> (Kind, TimeForm) {
    match mapped {
        Column::Named(name, form) => (table.kind(name), *form),
        _ => (Kind::Other, TimeForm::Text),
    }
}

fn per_second(form: TimeForm) -> i64 {
    match form {
        TimeForm::Text | TimeForm::UnixS => 1,
        TimeForm::UnixMs => 1_000,
        TimeForm::UnixUs => 1_000_000,
    }
}

fn offset(zone: Zone) -> String {
    let shown = zone.to_string();
    format!("interval '{}'", if shown == "UTC" { "00:00" } else { &shown })
}
