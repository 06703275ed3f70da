//! Times of a table, whatever its columns have for them, and the database's own clock.

use postrider_core::layout::{Column, Identifier, TimeForm, Zone};

use super::literal;
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
    /// The zone has a name, and so perhaps hours that come twice or not at all.
    folds: bool,
}

impl TimeColumn {
    /// None where the layout maps no column.
    pub(crate) fn new(mapped: Option<&Column>, table: &Table, zone: Zone) -> Option<Self> {
        let Some(Column::Named(name, form)) = mapped else { return None };
        Some(Self {
            name: name.clone(),
            kind: table.kind(name),
            form: *form,
            zone: zone_sql(zone),
            folds: zone.name().is_some() && matches!(table.kind(name), Kind::Local | Kind::Date),
        })
    }

    /// The column as it is selected: where only the database knows the zone, it says the moment itself.
    pub(crate) fn select(&self) -> String {
        if self.folds { self.moment() } else { self.kind.select(&self.column()) }
    }

    /// That the moment has come. An index can be searched by it: where an hour may come twice, by a time that is surely past it.
    pub(crate) fn has_come(&self) -> String {
        let (column, at) = (self.column(), self.at(NOW));
        if self.folds {
            format!("{column} <= {at} + interval '{SHIFT_MAX}' and {} <= {NOW}", self.moment())
        } else {
            format!("{column} <= {at}")
        }
    }

    /// That the moment is to come.
    pub(crate) fn is_to_come(&self) -> String {
        let (column, at) = (self.column(), self.at(NOW));
        if self.folds {
            format!("{column} > {at} - interval '{SHIFT_MAX}' and {} > {NOW}", self.moment())
        } else {
            format!("{column} > {at}")
        }
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
            (Kind::Local | Kind::Date, _) if self.folds => earlier(&format!("{column}::timestamp"), zone),
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

/// No clock is ever set back or forward by more.
const SHIFT_MAX: &str = "3 hours";

/// A zone as `at time zone` takes it.
pub(crate) fn zone_sql(zone: Zone) -> String {
    match (zone.name(), zone.to_string().as_str()) {
        (Some(name), _) => literal(name),
        (None, "UTC") => "'UTC'".to_owned(),
        (None, offset) => format!("interval '{offset}'"),
    }
}

/// The moment of a time in a zone with a name. In the hour that comes twice it is the earlier one: whoever waits for it waits
/// too short rather than an hour too long. One in an hour that does not come is as much later as the clock was set forward.
fn earlier(local: &str, zone: &str) -> String {
    let hour = "interval '1 hour'";
    format!("least({local} at time zone {zone}, (({local} - {hour}) at time zone {zone}) + {hour})")
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
