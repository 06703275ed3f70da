//! Appending: what an outbox takes, and what each column of a new row holds. Shared by every database and driver.

mod slot;

use crate::layout::Payload;
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
