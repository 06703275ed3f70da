//! What the driver's rows hold, for core's decoder.

use std::error::Error;

use postrider_core::EntryId;
use postrider_core::rows::Value;
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, Type};

/// Microseconds from 1970 to 2000, where PostgreSQL's times begin.
pub(crate) const EPOCH_US: i64 = 946_684_800_000_000;

/// The bytes of a value as the server sent them.
struct Raw<'a>(&'a [u8]);

impl<'a> FromSql<'a> for Raw<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(raw))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

/// The values of a row, by their columns.
pub(crate) fn values<'r>(row: &'r Row) -> impl FnMut(usize) -> Result<Value<'r>, tokio_postgres::Error> {
    |at| value(row, at)
}

/// The value in one column. Types that it does not know are selected as text (`table::Kind::select`).
pub(crate) fn value(row: &Row, at: usize) -> Result<Value<'_>, tokio_postgres::Error> {
    let Some(Raw(bytes)) = row.try_get::<_, Option<Raw<'_>>>(at)? else { return Ok(Value::Null) };
    Ok(match *row.columns()[at].type_() {
        Type::INT8 => Value::Integer(i64::from_be_bytes(fixed(bytes))),
        Type::INT4 => Value::Integer(i64::from(i32::from_be_bytes(fixed(bytes)))),
        Type::INT2 => Value::Integer(i64::from(i16::from_be_bytes(fixed(bytes)))),
        Type::FLOAT8 => Value::Real(f64::from_be_bytes(fixed(bytes))),
        Type::FLOAT4 => Value::Real(f64::from(f32::from_be_bytes(fixed(bytes)))),
        Type::TIMESTAMPTZ => Value::Time(since_1970(bytes)),
        Type::TIMESTAMP => Value::Local(since_1970(bytes)),
        Type::UUID => Value::Uuid(fixed(bytes)),
        Type::BYTEA => Value::Blob(bytes),
        // A version comes first.
        Type::JSONB => Value::Text(bytes.get(1..).unwrap_or_default()),
        _ => Value::Text(bytes),
    })
}

/// The id in a column; none where it is none by which the row could be found again.
pub(crate) fn id(row: &Row, at: usize) -> Result<Option<EntryId>, tokio_postgres::Error> {
    Ok(match value(row, at)? {
        Value::Integer(id) => Some(EntryId::Int(id)),
        Value::Text(text) => std::str::from_utf8(text).ok().map(|text| EntryId::Text(text.into())),
        value @ Value::Uuid(_) => {
            let mut rows = postrider_core::rows::RawRows::default();
            rows.read(0, None, |at| {
                Ok::<_, tokio_postgres::Error>(if at == 0 { value } else { Value::Null })
            })?;
            let text = rows.seal().get(0).map(|row| row.share(postrider_core::rows::Field::Id));
            text.and_then(|text| postrider_core::Text::try_from(text).ok()).map(EntryId::Text)
        }
        _ => None,
    })
}

/// A text, whatever the column's type: a statement copied it from a row that anybody may have written.
pub(crate) fn lenient(row: &Row, at: usize) -> Result<Option<String>, tokio_postgres::Error> {
    Ok(match value(row, at)? {
        Value::Text(text) => Some(String::from_utf8_lossy(text).into_owned()),
        Value::Integer(number) => Some(number.to_string()),
        _ => None,
    })
}

/// Infinity is no time of any calendar: it stays as far out as it is.
fn since_1970(bytes: &[u8]) -> i64 {
    i64::from_be_bytes(fixed(bytes)).saturating_add(EPOCH_US)
}

fn fixed<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.try_into().unwrap_or([0; N])
}
