//! What a relay has in its hands.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is known of a row that was handed out.
#[derive(Clone, Debug)]
pub struct OpenRow {
    /// The row's id.
    pub entry: String,
    /// Retries scheduled before this try.
    pub retries: u32,
    /// The version that the claim gave it; zero where the table has none.
    pub version: i64,
    /// Whether what became of it is written.
    pub settled: bool,
}

/// The rows of a relay's open claims, by their ids: whatever the table says, it does not take them from itself.
#[derive(Clone, Debug, Default)]
pub struct Hands(Arc<Mutex<HashSet<String>>>);

impl Hands {
    /// Rows that were handed out.
    pub fn take<'r>(&self, rows: impl IntoIterator<Item = &'r OpenRow>) {
        self.all().extend(rows.into_iter().map(|row| row.entry.clone()));
    }

    /// Rows that are settled, or whose claim has ended.
    pub fn let_go<'r>(&self, rows: impl IntoIterator<Item = &'r OpenRow>) {
        let mut all = self.all();
        for row in rows {
            all.remove(&row.entry);
        }
    }

    /// Whether a row is in one of the open claims.
    #[must_use]
    pub fn have(&self, entry: &str) -> bool {
        self.all().contains(entry)
    }

    fn all(&self) -> MutexGuard<'_, HashSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
