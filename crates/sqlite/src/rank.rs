//! Where a row stands in the order of its table.

use std::cmp::Ordering;

use postrider_core::EntryId;
use rusqlite::Row;
use rusqlite::types::{Value, ValueRef};

use crate::ids;

/// What a row is ordered by before its id, and its id. Compares as SQLite does.
#[derive(Clone, Debug)]
pub(crate) struct Rank {
    pub(crate) lead: Value,
    pub(crate) id: EntryId,
}

impl Rank {
    /// Reads the columns `lead` (if the table is ordered by one) and `id`.
    pub(crate) fn read(row: &Row<'_>, lead: Option<usize>, id: usize) -> rusqlite::Result<Option<Self>> {
        let lead = lead.map_or(Ok(Value::Null), |at| row.get_ref(at).map(own))?;
        Ok(ids::id(row.get_ref(id)?).map(|id| Self { lead, id }))
    }

    /// Whether this row comes before another.
    pub(crate) fn is_before(&self, other: &Self) -> bool {
        compare(&self.lead, &other.lead).then_with(|| self.id.cmp(&other.id)) == Ordering::Less
    }
}

fn own(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Integer(number),
        ValueRef::Real(number) => Value::Real(number),
        ValueRef::Text(text) => Value::Text(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => Value::Blob(bytes.to_vec()),
    }
}

/// NULL, then numbers, then text, then bytes.
fn compare(one: &Value, other: &Value) -> Ordering {
    let class = |value: &Value| match value {
        Value::Null => 0,
        Value::Integer(_) | Value::Real(_) => 1,
        Value::Text(_) => 2,
        Value::Blob(_) => 3,
    };
    match (one, other) {
        (Value::Integer(one), Value::Integer(other)) => one.cmp(other),
        (Value::Real(one), Value::Real(other)) => one.total_cmp(other),
        (Value::Integer(one), Value::Real(other)) => (*one as f64).total_cmp(other),
        (Value::Real(one), Value::Integer(other)) => one.total_cmp(&(*other as f64)),
        (Value::Text(one), Value::Text(other)) => one.cmp(other),
        (Value::Blob(one), Value::Blob(other)) => one.cmp(other),
        _ => class(one).cmp(&class(other)),
    }
}
