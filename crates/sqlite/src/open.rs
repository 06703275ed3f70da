//! Claims that are not ended.

use jiff::Timestamp;
use postrider_core::EntryId;

use crate::scan::{Found, own_id};

/// A claim that is not ended.
pub(crate) struct Open {
    pub(crate) rows: Vec<OpenRow>,
    pub(crate) until: Timestamp,
}

pub(crate) struct OpenRow {
    pub(crate) id: EntryId,
    pub(crate) retries: u32,
    /// The version that the claim gave it.
    pub(crate) version: i64,
    pub(crate) settled: bool,
}

impl Open {
    pub(crate) fn new(found: &Found, until: Timestamp) -> Self {
        let rows = found.entries.iter().zip(&found.versions).map(|(entry, version)| OpenRow {
            id: own_id(&entry.id),
            retries: entry.retries,
            version: version % i64::MAX + 1,
            settled: false,
        });
        Self { rows: rows.collect(), until }
    }

    /// Rows that are not settled, with their place in the claim.
    pub(crate) fn left(&self) -> impl Iterator<Item = (usize, &OpenRow)> {
        self.rows.iter().enumerate().filter(|(_, row)| !row.settled)
    }
}
