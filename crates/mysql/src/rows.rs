//! What the driver's rows hold, for core's decoder.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use mysql_async::Row;
use mysql_async::consts::ColumnType;
use postrider_core::EntryId;
use postrider_core::rows::Value;

/// The number of the character set that stands for bytes.
const BINARY: u16 = 63;

/// The values of a row, by their columns.
pub(crate) fn values<'r>(row: &'r Row) -> impl FnMut(usize) -> Result<Value<'r>, std::convert::Infallible> {
    |at| Ok(value(row, at))
}

/// The value in one column.
pub(crate) fn value(row: &Row, at: usize) -> Value<'_> {
    use mysql_async::Value as Found;
    let (Some(found), Some(column)) = (row.as_ref(at), row.columns_ref().get(at)) else { return Value::Null };
    match found {
        Found::Bytes(bytes) if column.character_set() == BINARY && holds_bytes(column.column_type()) => {
            Value::Blob(bytes)
        }
        Found::Bytes(bytes) => Value::Text(bytes),
        Found::Int(number) => Value::Integer(*number),
        Found::UInt(number) => i64::try_from(*number).map_or(Value::Null, Value::Integer),
        Found::Float(number) => Value::Real(f64::from(*number)),
        Found::Double(number) => Value::Real(*number),
        Found::Date(year, month, day, hour, minute, second, us) => {
            let date = [*month, *day, *hour, *minute, *second];
            match (microseconds(*year, date, *us), column.column_type()) {
                (Some(us), ColumnType::MYSQL_TYPE_TIMESTAMP) => Value::Time(us),
                (Some(us), _) => Value::Local(us),
                // A date of noughts, which old settings allow, is none.
                (None, _) => Value::Null,
            }
        }
        Found::NULL | Found::Time(..) => Value::Null,
    }
}

/// Numbers and documents have no character set either, and are texts.
fn holds_bytes(kind: ColumnType) -> bool {
    use ColumnType::*;
    matches!(
        kind,
        MYSQL_TYPE_BLOB
            | MYSQL_TYPE_TINY_BLOB
            | MYSQL_TYPE_MEDIUM_BLOB
            | MYSQL_TYPE_LONG_BLOB
            | MYSQL_TYPE_STRING
            | MYSQL_TYPE_VAR_STRING
            | MYSQL_TYPE_VARCHAR
            | MYSQL_TYPE_BIT
    )
}

/// Microseconds since 1970 as if it were UTC.
fn microseconds(year: u16, [month, day, hour, minute, second]: [u8; 5], us: u32) -> Option<i64> {
    let small = |part: u8| i8::try_from(part).ok();
    let nanoseconds = i32::try_from(us).ok()?.checked_mul(1_000)?;
    let civil = DateTime::new(
        i16::try_from(year).ok()?,
        small(month)?,
        small(day)?,
        small(hour)?,
        small(minute)?,
        small(second)?,
        nanoseconds,
    );
    Some(TimeZone::UTC.to_timestamp(civil.ok()?).ok()?.as_microsecond())
}

/// The id in a column; none where it is none by which the row could be found again.
pub(crate) fn id(row: &Row, at: usize) -> Option<EntryId> {
    match value(row, at) {
        Value::Integer(id) => Some(EntryId::Int(id)),
        Value::Text(text) => std::str::from_utf8(text).ok().map(|text| EntryId::Text(text.into())),
        _ => None,
    }
}

/// A text, whatever the column's type.
pub(crate) fn text(row: &Row, at: usize) -> Option<String> {
    match value(row, at) {
        Value::Text(text) | Value::Blob(text) => Some(String::from_utf8_lossy(text).into_owned()),
        Value::Integer(number) => Some(number.to_string()),
        _ => None,
    }
}

/// A whole number; one that a database made of decimals comes as a text.
pub(crate) fn number(row: &Row, at: usize) -> Option<i64> {
    match value(row, at) {
        Value::Integer(number) => Some(number),
        Value::Text(text) => std::str::from_utf8(text).ok()?.parse().ok(),
        _ => None,
    }
}

/// A count as a table has it: NULL and nonsense read as none.
pub(crate) fn count(row: &Row, at: usize) -> Option<u32> {
    number(row, at).and_then(|number| u32::try_from(number).ok())
}

/// Whether a condition holds.
pub(crate) fn holds(row: &Row, at: usize) -> bool {
    number(row, at).is_some_and(|number| number != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_of_noughts_is_none() {
        assert_eq!(microseconds(1970, [1, 1, 0, 0, 1], 5), Some(1_000_005));
        assert_eq!(microseconds(0, [0, 0, 0, 0, 0], 0), None);
    }
}
