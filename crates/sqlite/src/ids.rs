//! Ids of rows, as SQLite and JSON have them.

use std::fmt::Write;

use postrider_core::EntryId;
use rusqlite::types::{Value, ValueRef};

/// The id in a column; none where it is neither a number nor a text, so that the row could not be found again by it.
pub(crate) fn id(value: ValueRef<'_>) -> Option<EntryId> {
    match value {
        ValueRef::Integer(id) => Some(EntryId::Int(id)),
        ValueRef::Text(text) => std::str::from_utf8(text).ok().map(|text| EntryId::Text(text.into())),
        ValueRef::Null | ValueRef::Real(_) | ValueRef::Blob(_) => None,
    }
}

/// The id as a parameter.
pub(crate) fn value(id: &EntryId) -> Value {
    match id {
        EntryId::Int(id) => Value::Integer(*id),
        EntryId::Text(id) => Value::Text(id.to_string()),
    }
}

/// Many ids in one parameter, for `json_each`.
pub(crate) fn json<'a>(ids: impl IntoIterator<Item = &'a EntryId>) -> String {
    let mut json = String::from("[");
    for id in ids {
        if json.len() > 1 {
            json.push(',');
        }
        push(&mut json, id);
    }
    json.push(']');
    json
}

/// One id as JSON.
pub(crate) fn push(json: &mut String, id: &EntryId) {
    match id {
        EntryId::Int(id) => drop(write!(json, "{id}")),
        EntryId::Text(id) => push_text(json, id),
    }
}

/// A text as JSON.
pub(crate) fn push_text(json: &mut String, text: &str) {
    json.push_str(&serde_json::Value::from(text).to_string());
}
