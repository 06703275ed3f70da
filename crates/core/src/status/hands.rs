//! What a relay has in its hands.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{OpenRow, Rank};
use crate::Key;

/// The rows of a relay's open claims, by their ids: whatever the table says, it does not take them from itself.
#[derive(Clone, Debug, Default)]
pub struct Hands(Arc<Mutex<Rows>>);

#[derive(Debug, Default)]
struct Rows {
    held: HashSet<String>,
    /// What was given back since somebody asked.
    back: Vec<(Option<Key>, Rank)>,
}

impl Hands {
    /// Rows that were handed out.
    pub fn take<'r>(&self, rows: impl IntoIterator<Item = &'r OpenRow>) {
        self.all().held.extend(rows.into_iter().map(|row| row.entry().to_owned()));
    }

    /// These are done with.
    pub fn let_go<'r>(&self, rows: impl IntoIterator<Item = &'r OpenRow>) {
        let mut all = self.all();
        for row in rows {
            all.held.remove(row.entry());
        }
    }

    /// These are to be handed out again.
    pub fn give_back<'r>(&self, rows: impl IntoIterator<Item = &'r OpenRow>) {
        let mut all = self.all();
        for row in rows {
            all.back.push((row.key.clone(), row.rank.clone()));
            all.held.remove(row.entry());
        }
    }

    /// What was given back since this was asked the last time.
    #[must_use]
    pub fn given_back(&self) -> Vec<(Option<Key>, Rank)> {
        std::mem::take(&mut self.all().back)
    }

    /// Whether a row is in one of the open claims.
    #[must_use]
    pub fn have(&self, entry: &str) -> bool {
        self.all().held.contains(entry)
    }

    fn all(&self) -> MutexGuard<'_, Rows> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
