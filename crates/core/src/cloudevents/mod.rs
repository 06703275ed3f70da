//! CloudEvents 1.0 on the wire: one JSON object ([`structured`]), or headers and a body ([`binary`]).
//!
//! Our extension attributes are `aggregatetype`, `aggregateid`, `partitionkey`, `sequence` (as text: CloudEvents'
//! integers have 32 bits), `traceparent` and `tracestate`. `subject` and `dataschema`, which an
//! [`Envelope`](crate::Envelope) has no field for, are kept among its extensions.

pub mod binary;
pub(crate) mod id_member;
pub(crate) mod json;
pub mod structured;

mod attributes;
#[cfg(test)]
pub(crate) mod examples;

use crate::limits;

/// Why something is no CloudEvent, or cannot become one. It never quotes a payload.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(String);

/// An extension's name is short, has lower-case letters and digits only, and is not the name of anything else.
pub(crate) fn check_extension(name: &str) -> Result<(), Malformed> {
    const BYTES_MAX: usize = limits::EXTENSION_NAME_BYTES_MAX;
    if name.len() > BYTES_MAX {
        return Err(Malformed(format!("an extension attribute's name is longer than {BYTES_MAX} bytes")));
    }
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    if name.is_empty() || !name.bytes().all(plain) {
        return Err(Malformed(format!(
            "extension attribute {name:?} is not named in lower-case letters and digits"
        )));
    }
    if attributes::is_reserved(name) {
        return Err(Malformed(format!("extension attribute {name:?} has the name of another attribute")));
    }
    Ok(())
}
