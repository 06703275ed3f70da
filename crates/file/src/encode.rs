//! Messages become lines.

use std::collections::HashSet;

use postrider_core::cloudevents::structured;
use postrider_core::sink::{Message, Permit};
use postrider_core::{Key, Refusal};

use crate::batch::{Batch, Line};
use crate::refusal;

/// Encodes a batch and asks for a permit for each message that is fit to be written.
pub(crate) fn encode(messages: &[Message<'_>], permit: &dyn Permit, payload_bytes_max: usize) -> Batch {
    const NAMES_BYTES: usize = 256;
    let bytes: usize = messages.iter().map(|message| NAMES_BYTES + message.envelope.bytes()).sum();
    let mut batch = Batch { buffer: Vec::with_capacity(bytes), lines: Vec::with_capacity(messages.len()) };
    let mut failed = HashSet::<&Key>::new();
    for (index, message) in messages.iter().enumerate() {
        let follows_failed = match message.key {
            Some(key) if message.leads => {
                failed.remove(key);
                false
            }
            Some(key) => failed.contains(key),
            None => false,
        };
        let refusal = if follows_failed {
            Some(Refusal::Withheld)
        } else {
            put(message, payload_bytes_max, &mut batch.buffer, || permit.ask(index)).err()
        };
        if let (Some(_), Some(key)) = (&refusal, message.key) {
            failed.insert(key);
        }
        let (key, leads, end) = (message.key.cloned(), message.leads, batch.buffer.len());
        batch.lines.push(Line { key, leads, end, refusal });
    }
    batch
}

/// Nothing may be attempted any more.
pub(crate) fn withhold(messages: &[Message<'_>]) -> Batch {
    let line = |message: &Message<'_>| Line {
        key: message.key.cloned(),
        leads: message.leads,
        end: 0,
        refusal: Some(Refusal::Withheld),
    };
    Batch { buffer: Vec::new(), lines: messages.iter().map(line).collect() }
}

fn put(
    message: &Message<'_>,
    payload_bytes_max: usize,
    buffer: &mut Vec<u8>,
    permitted: impl FnOnce() -> bool,
) -> Result<(), Refusal> {
    let payload_bytes = message.envelope.data.len();
    if payload_bytes > payload_bytes_max {
        return Err(refusal::too_large(payload_bytes, payload_bytes_max));
    }
    let start = buffer.len();
    structured::encode(message.envelope, buffer).map_err(|problem| refusal::not_encodable(&problem))?;
    buffer.push(b'\n');
    if !permitted() {
        buffer.truncate(start);
        return Err(Refusal::Withheld);
    }
    Ok(())
}
