//! Which word of a status column means what.

use postrider_postgres::{DescribedColumn, Holds};

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

/// The words by state, and those that fit none.
type Sorted = (Vec<(&'static str, String)>, Vec<String>);

/// Sorts the words; an error says which state has none.
pub(super) fn words(status: &DescribedColumn) -> Result<Sorted, String> {
    if status.holds == Holds::Boolean {
        return Ok((vec![("pending", "false".into()), ("published", "true".into())], Vec::new()));
    }
    let mut known = status.words.clone();
    known.extend(status.default.clone().filter(|word| !status.words.contains(word)));
    let mut found = Vec::new();
    for (state, usual) in USUAL {
        let word = usual.iter().find_map(|usual| known.iter().find(|word| word.to_uppercase() == *usual));
        found.extend(word.map(|word| (state, word.clone())));
    }
    let missing: Vec<_> = ["pending", "published", "dead"]
        .into_iter()
        .filter(|state| found.iter().all(|(has, _)| has != state))
        .collect();
    if !missing.is_empty() {
        let seen = if known.is_empty() {
            "no word is known".to_owned()
        } else {
            format!("known are {}", known.join(", "))
        };
        return Err(format!(
            "column \"{}\": {seen}, and none that usually means {}",
            status.name,
            missing.join(" or ")
        ));
    }
    let left = known.into_iter().filter(|word| found.iter().all(|(_, taken)| taken != word)).collect();
    Ok((found, left))
}
