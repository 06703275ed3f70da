//! Appending: what an outbox takes, and what each column of a new row holds. Shared by every database and driver.

mod slot;

use crate::layout::{Column, Numbers, Payload};
use crate::rows::is_unambiguous;
use crate::{EntryId, Envelope, Fault, Layout, Text, limits};

pub use slot::{Cell, RowIds, Slot, cell, slots};

/// What was appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The row's id.
    pub id: EntryId,
    /// The event's id: the envelope's, or the row's where the table counts and has no other column for it.
    pub event_id: Text,
    /// Whether an earlier append with the same idempotency key wrote it, so that this one wrote nothing.
    pub repeated: bool,
}

/// Why nothing was appended: the event must change, or the transaction must be tried again.
#[derive(Debug, thiserror::Error)]
pub enum AppendError<E> {
    /// The outbox does not take this event.
    #[error(transparent)]
    Refused(#[from] Fault),
    /// The database failed.
    #[error("the event was not appended")]
    Database(#[source] E),
}

/// Whether a table can keep everything that an envelope says; nothing is dropped silently (F5).
///
/// # Errors
/// What it cannot keep, and what to do.
pub fn accept(layout: &Layout, payload_bytes_max: usize, envelope: &Envelope) -> Result<(), Fault> {
    envelope.validate(layout.names, payload_bytes_max)?;
    let columns = &layout.columns;
    let lost = [
        ("a key of its own", "key", envelope.partition_key.is_some() && columns.key.is_none()),
        ("a content type", "content_type", !envelope.is_json() && columns.content_type.is_none()),
        ("a sequence", "sequence", envelope.sequence.is_some() && columns.sequence.is_none()),
        (
            "extension attributes",
            "extensions",
            !envelope.extensions.is_empty() && columns.extensions.is_none(),
        ),
    ];
    if let Some((what, key, _)) = lost.into_iter().find(|(_, _, lost)| *lost) {
        return Err(Fault::new(
            format!("event \"{}\"", envelope.event_type),
            format!("it has {what}, and layout \"{}\" has no column for it", layout.name),
            format!("Leave it out, or map columns.{key} in the layout"),
        ));
    }
    if layout.numbers == Numbers::Append && envelope.sequence.is_some() {
        return Err(Fault::new(
            format!("event \"{}\"", envelope.event_type),
            format!(
                "it has a sequence, and layout \"{}\" says that the append gives the numbers",
                layout.name
            ),
            "Leave it out, or take numbers = \"append\" out of the layout",
        ));
    }
    if is_one_column(&columns.aggregate_id, &columns.event_id) && envelope.aggregate_id != envelope.id {
        return Err(Fault::new(
            format!("event \"{}\"", envelope.event_type),
            format!(
                "its id and its aggregate id differ, and layout \"{}\" has one column for both",
                layout.name
            ),
            "Give both the same value",
        ));
    }
    if layout.columns.hash.is_some() && !is_unambiguous(&envelope.id, &envelope.event_type) {
        return Err(Fault::new(
            format!("event \"{}\"", envelope.event_type),
            "its id or its type has a |, by which its hash joins them: another event could have the same",
            "Choose an id and a type without a |",
        ));
    }
    if layout.payload == Payload::Json && !envelope.is_json() {
        return Err(Fault::new(
            format!("event \"{}\"", envelope.event_type),
            format!(
                "its content type is {}, and layout \"{}\" keeps JSON",
                envelope.content_type(),
                layout.name
            ),
            "Append JSON, or set payload = \"bytes\" in the layout",
        ));
    }
    Ok(())
}

fn is_one_column(one: &Option<Column>, other: &Option<Column>) -> bool {
    let name = |column: &Option<Column>| column.as_ref().and_then(Column::name).cloned();
    name(one).is_some_and(|one| Some(one) == name(other))
}

/// Refuses a layout whose appends give numbers, on a database where they do not.
///
/// # Errors
/// Where it says so.
pub fn gives_no_numbers(layout: &Layout, database: &str) -> Result<(), Fault> {
    if layout.numbers == Numbers::Writer {
        return Ok(());
    }
    Err(Fault::new(
        format!("layout \"{}\"", layout.name),
        format!("numbers = \"append\" is not in this build yet on {database}"),
        "Take it out, and give each event its sequence in your own transaction",
    ))
}

/// Whether a text may be an idempotency key.
///
/// # Errors
/// Why not.
pub fn accept_key(key: &str) -> Result<(), Fault> {
    if key.is_empty() || key.len() > limits::KEY_BYTES_MAX {
        return Err(Fault::new(
            "idempotency key",
            format!("it has {} bytes, and from 1 to {} are allowed", key.len(), limits::KEY_BYTES_MAX),
            "Use the request's id, or a hash of it",
        ));
    }
    Ok(())
}

/// What is told where several statements belong together and nothing holds them so.
#[must_use]
pub fn no_transaction(what: &str) -> Fault {
    Fault::new(
        "append",
        format!("{what} cannot be appended without a transaction"),
        "Open one, write your own rows and append in it, then commit",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn envelope(id: &str, aggregate_id: &str) -> Envelope {
        Envelope {
            id: id.into(),
            source: "/x".into(),
            event_type: "DONATED".into(),
            time: jiff::Timestamp::UNIX_EPOCH,
            content_type: None,
            aggregate_type: "Donation".into(),
            aggregate_id: aggregate_id.into(),
            partition_key: None,
            sequence: None,
            trace: None,
            extensions: std::collections::BTreeMap::new(),
            data: "{}".into(),
        }
    }

    /// F5: what would be dropped without a word is refused.
    #[test]
    fn one_column_for_two_ids_takes_one_id() {
        let donation = Layout::built_in("donation").unwrap();
        accept(&donation, 100, &envelope("r-1", "r-1")).unwrap();
        let said = accept(&donation, 100, &envelope("r-1", "r-2")).unwrap_err().to_string();
        assert!(said.contains("one column for both"), "{said}");
        accept(&Layout::built_in("ledger").unwrap(), 100, &envelope("r-1", "r-2")).unwrap();
    }

    /// E4, F5: where the append gives numbers, the writer gives none, and there is a place for them.
    #[test]
    fn numbers_are_given_by_one_of_them() {
        let mut ledger = Layout::built_in("ledger").unwrap();
        let numbered = Envelope { sequence: Some(1), ..envelope("1", "1") };
        accept(&ledger, 100, &numbered).unwrap();
        assert!(gives_no_numbers(&ledger, "SQLite").is_ok());
        ledger.numbers = Numbers::Append;
        let said = accept(&ledger, 100, &numbered).unwrap_err().to_string();
        assert!(said.contains("the append gives the numbers"), "{said}");
        let said = gives_no_numbers(&ledger, "SQLite").unwrap_err().to_string();
        assert!(said.contains("on SQLite"), "{said}");
        ledger.columns.sequence = None;
        let said = ledger.validate("x").unwrap_err().to_string();
        assert!(said.contains("columns.sequence"), "{said}");
        let text = include_str!("../../../layouts/ledger.toml")
            .replace("order = \"key\"", "order = \"key\"\nnumbers = \"append\"");
        assert_eq!(Layout::parse("x", text.as_bytes()).unwrap().numbers, Numbers::Append);
    }
}
