//! Which word of a status column means what.

use postrider_postgres::{DescribedColumn, Holds};

use super::columns::is_flag;

/// A state, and the words that are usual for it.
const USUAL: [(&str, &[&str]); 5] = [
    ("pending", &["PENDING", "NEW", "READY", "CREATED", "UNPUBLISHED", "UNSENT", "QUEUED"]),
    (
        "published",
        &["PUBLISHED", "SENT", "PROCESSED", "DONE", "COMPLETED", "DELIVERED", "DISPATCHED", "SUCCESS"],
    ),
    ("dead", &["DEAD", "DEAD_LETTER", "FAILED", "ERROR"]),
    ("leased", &["PROCESSING", "IN_PROGRESS", "LOCKED", "CLAIMED", "SENDING"]),
    ("retry", &["RETRY", "RETRYING"]),
];

/// What is known of the words of a status column.
pub(super) struct Sorted {
    /// The words by state.
    pub(super) found: Vec<(&'static str, String)>,
    /// Those that fit none.
    pub(super) left: Vec<String>,
    /// States that need a word, and that no word was seen for.
    pub(super) missing: Vec<&'static str>,
}

/// Sorts the words that were seen.
pub(super) fn words(status: &DescribedColumn) -> Sorted {
    if is_flag(status) {
        let found = vec![("pending", "false".into()), ("published", "true".into())];
        return Sorted { found, left: Vec::new(), missing: Vec::new() };
    }
    let mut known = status.words.clone();
    if status.holds == Holds::Boolean {
        known = vec!["false".into(), "true".into()];
    }
    known.extend(status.default.clone().filter(|word| !known.contains(word)));
    let mut found = Vec::new();
    for (state, usual) in USUAL {
        let word = usual.iter().find_map(|usual| known.iter().find(|word| word.to_uppercase() == *usual));
        found.extend(word.map(|word| (state, word.clone())));
    }
    let has = |state: &str| found.iter().any(|(has, _)| *has == state);
    let missing = ["pending", "published"].into_iter().filter(|state| !has(state)).collect();
    let left = known.into_iter().filter(|word| found.iter().all(|(_, taken)| taken != word)).collect();
    Sorted { found, left, missing }
}
