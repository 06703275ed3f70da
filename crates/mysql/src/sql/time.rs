//! Times of a table, whatever its columns have for them.

use jiff::Timestamp;
use postrider_core::layout::{Column, Identifier, TimeForm, Zone};

use super::name;
use crate::table::{Kind, Table};

/// A moment that is before all others, where NULL would swallow a comparison.
pub(crate) const LONG_AGO: &str = "timestamp'1970-01-01 00:00:00'";

/// A column that holds a time.
#[derive(Clone, Debug)]
pub(crate) struct TimeColumn {
    pub(crate) name: Identifier,
    kind: Kind,
    form: TimeForm,
    /// How far its zone is ahead of UTC.
    offset_s: i64,
}

impl TimeColumn {
    /// None where the layout maps no column.
    pub(crate) fn new(mapped: Option<&Column>, table: &Table, zone: Zone) -> Option<Self> {
        let Some(Column::Named(name, form)) = mapped else { return None };
        let offset_s = zone.local(Timestamp::UNIX_EPOCH) / 1_000_000;
        Some(Self { name: name.clone(), kind: table.kind(name), form: *form, offset_s })
    }

    /// Whether the database can read it as a time without failing on nonsense.
    pub(crate) fn is_comparable(&self) -> bool {
        match self.kind {
            Kind::Moment | Kind::Local | Kind::Date => true,
            Kind::Integer | Kind::Real => self.form != TimeForm::Text,
            _ => false,
        }
    }

    /// The same, if so.
    pub(crate) fn readable(mapped: Option<&Column>, table: &Table, zone: Zone) -> Option<Self> {
        Self::new(mapped, table, zone).filter(Self::is_comparable)
    }

    /// The column of the table `t`.
    pub(crate) fn column(&self) -> String {
        format!("t.{}", name(&self.name))
    }

    /// The moment that it holds, in UTC; null where that is none.
    pub(crate) fn moment(&self) -> String {
        let column = self.column();
        match (self.kind, self.microseconds()) {
            (Kind::Moment, _) => column,
            (Kind::Local | Kind::Date, _) if self.offset_s == 0 => format!("cast({column} as datetime(6))"),
            (Kind::Local | Kind::Date, _) => {
                format!("(cast({column} as datetime(6)) - interval {} second)", self.offset_s)
            }
            (Kind::Integer | Kind::Real, Some(unit)) => format!(
                "(case when {column} between 0 and 253402300799 * (1000000 div {unit}) \
                 then {LONG_AGO} + interval cast({column} * {unit} as signed) microsecond end)"
            ),
            _ => "cast(null as datetime(6))".into(),
        }
    }

    /// What the column holds at a moment.
    pub(crate) fn at(&self, moment: &str) -> String {
        let local = match self.offset_s {
            0 => moment.to_owned(),
            offset => format!("({moment} + interval {offset} second)"),
        };
        match (self.kind, self.microseconds()) {
            (Kind::Moment, _) => moment.to_owned(),
            (Kind::Local, _) => local,
            (Kind::Date, _) => format!("date({local})"),
            (_, Some(unit)) => format!("timestampdiff(microsecond, {LONG_AGO}, {moment}) div {unit}"),
            (_, None) => format!("date_format({local}, '%Y-%m-%d %H:%i:%s.%f')"),
        }
    }

    /// How many of them are one of its unit.
    fn microseconds(&self) -> Option<i64> {
        match self.form {
            TimeForm::Text => None,
            TimeForm::UnixS => Some(1_000_000),
            TimeForm::UnixMs => Some(1_000),
            TimeForm::UnixUs => Some(1),
        }
    }
}

/// The latest of some moments; those that are null count as none.
pub(crate) fn latest(moments: &[String]) -> String {
    let each: Vec<String> = moments.iter().map(|moment| format!("coalesce({moment}, {LONG_AGO})")).collect();
    match each.as_slice() {
        [one] => one.clone(),
        many => format!("greatest({})", many.join(", ")),
    }
}

/// Microseconds until a moment that is not null; zero where it has passed, at most some thirty years.
pub(crate) fn until(moment: &str, now: &str) -> String {
    format!("least(greatest(timestampdiff(microsecond, {now}, {moment}), 0), 1000000000000000)")
}
