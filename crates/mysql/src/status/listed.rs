//! What is written of rows, as one parameter.

use std::time::Duration;

use postrider_core::status::{OpenRow, Settling};
use postrider_core::{Layout, limits};
use serde::Serialize;

use crate::table::Table;

/// How long a row waits that goes back, and whose table refuses that: somebody has to mend the table.
pub(crate) const REFUSED_WAIT: Duration = Duration::from_secs(300);

/// One row as a list has it; what is none is left out, and so is NULL.
#[derive(Clone, Serialize)]
pub(crate) struct Listed<'a> {
    pub(crate) e: &'a str,
    pub(crate) v: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) w: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) r: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) a: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) x: Option<&'a str>,
    pub(crate) h: u8,
    pub(crate) d: u8,
}

impl<'a> Listed<'a> {
    pub(crate) fn held(row: &'a OpenRow) -> Self {
        Self { e: row.entry(), v: row.version, w: None, r: None, a: None, x: None, h: 0, d: 0 }
    }

    /// What was published has an id and a version only.
    pub(crate) fn all(settling: &'a Settling) -> Vec<Self> {
        let one = |(at, entry): (usize, &'a String)| Self {
            e: entry,
            v: settling.versions[at],
            w: settling.words.get(at).and_then(Option::as_deref),
            r: settling.retries.get(at).copied().flatten(),
            a: settling.after_us.get(at).copied().flatten(),
            x: settling.errors.get(at).and_then(Option::as_deref),
            h: settling.holds_key.get(at).is_some_and(|holds| *holds).into(),
            d: settling.dead.get(at).is_some_and(|dead| *dead).into(),
        };
        settling.entries.iter().enumerate().map(one).collect()
    }
}

/// A list as one parameter.
pub(crate) fn listed(rows: &[Listed<'_>]) -> String {
    serde_json::to_string(rows).unwrap_or_default()
}

/// How much of an error its column takes.
pub(crate) fn error_chars_max(layout: &Layout, table: &Table) -> usize {
    let column = table.mapped(layout.columns.error.as_ref());
    let most = column.and_then(|live| live.characters_max).and_then(|most| usize::try_from(most).ok());
    most.unwrap_or(usize::MAX).min(limits::REASON_CHARS_MAX)
}

/// What is said beside a row whose table does not take what became of it.
pub(crate) fn why_refused(is_published: bool, what: &str) -> String {
    if is_published {
        format!(
            "it was published, and the table does not take that: {what}; mend the table and give the row its word by hand \
             (reviving it publishes it again)"
        )
    } else {
        format!("the table does not take what became of this row: {what}")
    }
}

pub(crate) fn tell_of_refused(place: &str, part: &[Listed<'_>], what: &str) {
    tracing::warn!(
        place,
        entry = part.first().map_or("", |row| row.e),
        became = part.first().and_then(|row| row.w).unwrap_or("published"),
        "the table refuses what became of a row ({what}): it is kept in Postrider's own table, and not sent again before \
         somebody mends this. Let the constraint or trigger take the layout's words, or correct the layout"
    );
}
