//! What the broker has received of claims that were lost: it is not sent again when it comes again.
//!
//! A lease that runs out during an outage of the database, or a connection that is lost, voids a claim whose messages may have
//! their receipts already. The source hands such entries out again, soon and mostly to the same process, which knows better.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use postrider_core::clock::Instant;
use postrider_core::limits::RECEIVED_ENTRIES_MAX;
use postrider_core::{Entry, EntryId};

/// Leases after whose time a receipt is forgotten: by then the entry has come again, or is settled by somebody else. Whoever makes
/// it pending once more after that wants it sent once more.
const LEASES_KEPT: u32 = 3;

/// Receipts of lost claims.
#[derive(Debug, Default)]
pub(crate) struct Received {
    entries: HashMap<EntryId, u64>,
    until: Instant,
}

impl Received {
    /// Keeps that an entry was received.
    pub(crate) fn keep(&mut self, entry: &Entry, now: Instant, lease_ttl: Duration) {
        self.forget(now);
        if self.entries.len() < RECEIVED_ENTRIES_MAX {
            self.entries.insert(entry.id.clone(), content(entry));
            self.until = now + lease_ttl * LEASES_KEPT;
        }
    }

    /// Whether this very entry was received; said once.
    pub(crate) fn take(&mut self, entry: &Entry, now: Instant) -> bool {
        if self.entries.is_empty() {
            return false;
        }
        self.forget(now);
        // A row of that id that holds something else is another event.
        self.entries.remove(&entry.id).is_some_and(|received| received == content(entry))
    }

    fn forget(&mut self, now: Instant) {
        if now >= self.until {
            self.entries.clear();
        }
    }
}

/// All that a consumer sees of it, as one number.
fn content(entry: &Entry) -> u64 {
    let envelope = &entry.envelope;
    let mut hasher = DefaultHasher::new();
    let texts = [
        &envelope.id,
        &envelope.source,
        &envelope.event_type,
        &envelope.aggregate_type,
        &envelope.aggregate_id,
    ];
    texts.into_iter().for_each(|text| (**text).hash(&mut hasher));
    envelope.partition_key.as_deref().hash(&mut hasher);
    envelope.content_type.as_deref().hash(&mut hasher);
    envelope.time.as_microsecond().hash(&mut hasher);
    envelope.sequence.hash(&mut hasher);
    for (name, value) in &envelope.extensions {
        (**name).hash(&mut hasher);
        (**value).hash(&mut hasher);
    }
    envelope.data.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use postrider_core::Envelope;

    use super::*;

    const TTL: Duration = Duration::from_secs(10);

    fn entry(id: i64, data: &'static [u8]) -> Entry {
        let envelope = Envelope {
            id: "e".into(),
            source: "/test".into(),
            event_type: "t".into(),
            time: jiff::Timestamp::UNIX_EPOCH,
            content_type: None,
            aggregate_type: "K".into(),
            aggregate_id: "1".into(),
            partition_key: None,
            sequence: None,
            trace: None,
            extensions: BTreeMap::new(),
            data: data.into(),
        };
        Entry { id: id.into(), envelope, key: None, retries: 0, retries_max: None, flaw: None }
    }

    /// F8: only the same row with the same content counts as received, once, and not for long.
    #[test]
    fn what_was_received_is_known_again_for_a_while() {
        let (mut received, start) = (Received::default(), Instant::default());
        received.keep(&entry(1, b"{}"), start, TTL);
        received.keep(&entry(2, b"{}"), start, TTL);
        received.keep(&entry(3, b"{}"), start, TTL);
        assert!(received.take(&entry(1, b"{}"), start + TTL));
        assert!(!received.take(&entry(1, b"{}"), start + TTL), "said once");
        assert!(!received.take(&entry(2, b"[]"), start + TTL), "another event");
        assert!(!received.take(&entry(3, b"{}"), start + TTL * 3), "too long ago");
        for id in 0..2 * i64::try_from(RECEIVED_ENTRIES_MAX).unwrap() {
            received.keep(&entry(id, b"{}"), start + TTL * 3, TTL);
        }
        assert_eq!(received.entries.len(), RECEIVED_ENTRIES_MAX);
    }
}
