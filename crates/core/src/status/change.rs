//! What is written of each settlement.

use std::time::Duration;

use super::OpenRow;
use crate::layout::{OnDead, Order};
use crate::{Layout, Settlement};

/// A hundred years: no calendar runs out.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 3_600);

/// One row that goes back, or is given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The row's id.
    pub entry: String,
    /// The version that it must still have.
    pub version: i64,
    /// The table's word for what it is now; none where the table has no status.
    pub word: Option<String>,
    /// Retries scheduled so far; none leaves the number as it is.
    pub retries: Option<u32>,
    /// When it is due; none leaves that as it is.
    pub after: Option<Duration>,
    /// What was wrong, as far as its column takes it; none leaves that as it is.
    pub error: Option<String>,
    /// Whether it is given up.
    pub dead: bool,
    /// Whether it holds back its key from now on.
    pub holds_key: bool,
}

/// The settlements of one call, sorted.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// Published: the row's id and the version that it must still have.
    pub published: Vec<(String, i64)>,
    /// What goes back, or is given up.
    pub returned: Vec<Change>,
}

impl Changes {
    /// Sorts settlements; an error's text is cut to so many characters.
    pub fn sort<'s>(
        layout: &Layout,
        error_chars_max: usize,
        settlements: impl Iterator<Item = (&'s OpenRow, &'s Settlement)>,
    ) -> Self {
        let mut changes = Self::default();
        for (row, settlement) in settlements {
            match change(layout, error_chars_max, row, settlement) {
                None => changes.published.push((row.entry.clone(), row.version)),
                Some(change) => changes.returned.push(change),
            }
        }
        changes
    }

    /// Whether something is given up.
    #[must_use]
    pub fn buries(&self) -> bool {
        self.returned.iter().any(|change| change.dead)
    }
}

fn change(layout: &Layout, chars_max: usize, row: &OpenRow, settlement: &Settlement) -> Option<Change> {
    let (retries, after, reason, dead) = match settlement {
        Settlement::Published => return None,
        Settlement::Released => (None, None, None, false),
        Settlement::Postponed { after, reason } => (None, Some(*after), Some(reason), false),
        Settlement::Retried { retries, after, reason } => (Some(*retries), Some(*after), Some(reason), false),
        Settlement::Dead { retries, reason } => (Some(*retries), None, Some(reason), true),
    };
    let tried = retries.unwrap_or(row.retries) > 0;
    let word = layout.status.as_ref().map(|words| match &words.dead {
        Some(word) if dead => word.as_str(),
        _ if tried => words.waiting(),
        _ => &words.pending,
    });
    Some(Change {
        entry: row.entry.clone(),
        version: row.version,
        word: word.map(str::to_owned),
        retries,
        after: after.map(|after| after.min(LONGEST)),
        error: reason.map(|reason| reason.0.chars().take(chars_max).collect()),
        dead,
        holds_key: dead && layout.order == Order::Key && layout.on_dead == OnDead::Hold,
    })
}
