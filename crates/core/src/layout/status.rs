//! The words of a status column.

use serde::{Deserialize, Serialize};

/// The words that a table has for the states of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Words {
    /// To be published.
    pub pending: String,
    /// In a relay's hands; none where the table has no word for it: then it stays pending and the lease is kept beside it.
    pub leased: Option<String>,
    /// Published; none only where published rows are deleted.
    pub published: Option<String>,
    /// Given up; none where the table has no word for it: then it stays pending, and that it is dead is kept beside it.
    pub dead: Option<String>,
    /// Waiting for its next try, where that has a word of its own.
    pub retry: Option<String>,
}

impl Words {
    /// The words of entries that are still to be published: pending and, where it has its own, waiting.
    pub fn open(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.pending.as_str()).chain(self.retry.as_deref())
    }

    /// The word for an entry that goes back after a failed try.
    #[must_use]
    pub fn waiting(&self) -> &str {
        self.retry.as_deref().unwrap_or(&self.pending)
    }

    /// Every word with the key that a layout file has for it.
    pub(super) fn given(&self) -> impl Iterator<Item = (&'static str, &str)> {
        [
            ("pending", Some(self.pending.as_str())),
            ("leased", self.leased.as_deref()),
            ("published", self.published.as_deref()),
            ("dead", self.dead.as_deref()),
            ("retry", self.retry.as_deref()),
        ]
        .into_iter()
        .filter_map(|(key, word)| word.map(|word| (key, word)))
    }
}
