//! Short notation for batches.

use std::collections::BTreeMap;

use bytes::Bytes;
use jiff::Timestamp;
use postrider_core::sink::Message;
use postrider_core::{Envelope, Key};

/// Messages that own what they borrow from. `a1!` is event `a1` of key `a`, and leads; `-1` has no key.
pub(super) struct Letters(Vec<Letter>);

struct Letter {
    envelope: Envelope,
    key: Option<Key>,
    leads: bool,
}

/// A batch written down: `"a1! a2 b1! -1"`.
pub(super) fn letters(words: &str) -> Letters {
    Letters(words.split_whitespace().map(letter).collect())
}

/// An event of a key that says its id; what it is else does not matter.
#[must_use]
pub fn envelope(id: &str, key: &str) -> Envelope {
    Envelope {
        id: id.to_owned().into(),
        source: "/conformance".into(),
        event_type: "acme.letter.written.v1".into(),
        time: Timestamp::UNIX_EPOCH,
        content_type: None,
        aggregate_type: "Letter".into(),
        aggregate_id: key.to_owned().into(),
        partition_key: None,
        sequence: None,
        trace: None,
        extensions: BTreeMap::new(),
        data: Bytes::from(format!("{{\"says\":\"{id}\"}}")),
    }
}

fn letter(word: &str) -> Letter {
    let id = word.trim_end_matches('!');
    let key = &id[..1];
    let envelope = envelope(id, key);
    let key = (key != "-").then(|| Key::new("Letter", key.to_owned()));
    Letter { envelope, key, leads: word.ends_with('!') }
}

impl Letters {
    /// The same with other data in one of them.
    pub(super) fn with_data(mut self, id: &str, data: impl Into<Bytes>) -> Self {
        let index = self.index(id);
        self.0[index].envelope.data = data.into();
        self
    }

    /// A full batch: events of 26 keys in turn, the first of each leading.
    pub(super) fn many(count: usize) -> Self {
        const KEYS: usize = 26;
        let word = |index: usize| {
            let (key, leads) = (char::from(b'a' + (index % KEYS) as u8), if index < KEYS { "!" } else { "" });
            letter(&format!("{key}{}{leads}", index / KEYS))
        };
        Self((0..count).map(word).collect())
    }

    pub(super) fn index(&self, id: &str) -> usize {
        self.ids().position(|other| other == id).expect("the case names an event of its batch")
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|letter| &*letter.envelope.id)
    }

    pub(super) fn messages(&self) -> Vec<Message<'_>> {
        self.0
            .iter()
            .map(|letter| Message {
                envelope: &letter.envelope,
                topic: "letters",
                key: letter.key.as_ref(),
                leads: letter.leads,
            })
            .collect()
    }
}
