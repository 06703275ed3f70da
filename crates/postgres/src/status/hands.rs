//! What a relay has in its hands.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::OpenRow;

/// The rows of a relay's open claims, by their ids: whatever the table says, it does not take them from itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hands(Arc<Mutex<HashSet<String>>>);

impl Hands {
    pub(crate) fn take<'r>(&self, rows: impl IntoIterator<Item = &'r OpenRow>) {
        self.all().extend(rows.into_iter().map(|row| row.entry.clone()));
    }

    pub(crate) fn let_go<'r>(&self, rows: impl IntoIterator<Item = &'r OpenRow>) {
        let mut all = self.all();
        for row in rows {
            all.remove(&row.entry);
        }
    }

    pub(crate) fn have(&self, entry: &str) -> bool {
        self.all().contains(entry)
    }

    fn all(&self) -> MutexGuard<'_, HashSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
