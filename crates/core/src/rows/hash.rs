//! The writer's proof of what it wrote.

use sha2::{Digest, Sha256};

/// Lower-case hex SHA-256 of the event's id, its type and its payload, joined by `|` (A4).
///
/// ```
/// use postrider_core::rows::content_hash;
/// let hash = content_hash("r-1", "DONATED", b"{}");
/// assert_eq!(hash, "ca4e2f1b5e11783984084b734b1295659d627adc16d78379b17c7cb2bcccf819");
/// ```
#[must_use]
pub fn content_hash(id: &str, event_type: &str, payload: &[u8]) -> String {
    let mut hash = Sha256::new();
    for part in [id.as_bytes(), b"|", event_type.as_bytes(), b"|", payload] {
        hash.update(part);
    }
    let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or('0');
    hash.finalize().iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Whether no other event's parts, joined, could be the same text.
#[must_use]
pub fn is_unambiguous(id: &str, event_type: &str) -> bool {
    !id.contains('|') && !event_type.contains('|')
}
