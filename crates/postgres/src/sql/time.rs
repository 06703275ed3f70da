//! Times of a table, whatever its columns have for them, and the database's own clock.

use postrider_core::layout::{Column, Identifier, TimeForm, Zone};

use crate::table::{Kind, Table};

/// The database's clock, read once per statement. As a subquery an index can be searched by it. Without a schema, so that
/// tests can put another clock before it in the search path.
pub(crate) const NOW: &str = "(select clock_timestamp())";

/// A column that holds a time.
#[derive(Clone, Debug)]
pub(crate) struct TimeColumn {
    pub(crate) name: Identifier,
    kind: Kind,
    form: TimeForm,
    zone: String,
}

impl TimeColumn {
    /// None where the layout maps no column.
    pub(crate) fn new(mapped: Option<&Column>, table: &Table, zone: Zone) -> Option<Self> {
        let Some(Column::Named(name, form)) = mapped else { return None };
        let zone = match zone.to_string().as_str() {
            "UTC" => "'UTC'".to_owned(),
            offset => format!("interval '{offset}'"),
        };
        Some(Self { name: name.clone(), kind: table.kind(name), form: *form, zone })
    }

    /// Whether the database can read it as a time without failing on nonsense.
    pub(crate) fn is_comparable(&self) -> bool {
        match self.kind {
            Kind::Moment | Kind::Local | Kind::Date => true,
            Kind::Integer | Kind::Real => self.form != TimeForm::Text,
            _ => false,
        }
    }

    /// The moment that a mapped column holds, where the database can read it.
    pub(crate) fn readable(mapped: Option<&Column>, table: &Table, zone: Zone) -> Option<String> {
        Self::new(mapped, table, zone).filter(Self::is_comparable).map(|time| time.moment())
    }

    /// The column of the table `t`.
    pub(crate) fn column(&self) -> String {
        format!("t.{}", self.name.quoted())
    }

    /// The moment that it holds; null where that is none.
    pub(crate) fn moment(&self) -> String {
        let (column, zone) = (self.column(), &self.zone);
        match (self.kind, self.per_second()) {
            (Kind::Moment, _) => column,
            (Kind::Local, _) => format!("({column} at time zone {zone})"),
            (Kind::Date, _) => format!("({column}::timestamp at time zone {zone})"),
            (Kind::Integer | Kind::Real, Some(unit)) => format!(
                "(case when {column} between 0 and 253402300799 * {unit}::bigint then to_timestamp({column} / {unit}.0::float8) end)"
            ),
            _ => "null::timestamptz".into(),
        }
    }

    /// What the column holds at a moment.
    pub(crate) fn at(&self, moment: &str) -> String {
        let zone = &self.zone;
        match (self.kind, self.per_second()) {
            (Kind::Moment, _) => moment.to_owned(),
            (Kind::Local, _) => format!("({moment} at time zone {zone})"),
            (Kind::Date, _) => format!("({moment} at time zone {zone})::date"),
            (Kind::Text, Some(unit)) => {
                format!("(floor(extract(epoch from {moment}) * {unit})::bigint)::text")
            }
            (_, Some(unit)) => format!("floor(extract(epoch from {moment}) * {unit})::bigint"),
            (_, None) => format!("to_char({moment} at time zone {zone}, 'YYYY-MM-DD HH24:MI:SS.US')"),
        }
    }

    fn per_second(&self) -> Option<i64> {
        match self.form {
            TimeForm::Text => None,
            TimeForm::UnixS => Some(1),
            TimeForm::UnixMs => Some(1_000),
            TimeForm::UnixUs => Some(1_000_000),
        }
    }
}

/// Microseconds as an interval.
pub(crate) fn interval(microseconds: &str) -> String {
    format!("{microseconds} * interval '1 microsecond'")
}

/// The moment so many microseconds from now.
pub(crate) fn after(microseconds: &str) -> String {
    format!("({NOW} + {})", interval(microseconds))
}

/// Microseconds until a moment; zero where there is none or it has passed, at most some thirty years.
pub(crate) fn until(moment: &str) -> String {
    format!(
        "(least(greatest(extract(epoch from {moment}) - extract(epoch from {NOW}), 0), 1000000000) * 1000000)::bigint"
    )
}
