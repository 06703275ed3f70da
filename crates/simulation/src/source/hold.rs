//! What a claim stands on.

use std::collections::HashSet;

use jiff::Timestamp;
use postrider_core::Settlement;
use postrider_core::source::SourceError;

use super::database::{Database, later};
use super::{SimSource, Way};

/// A claim of a [`SimSource`].
#[derive(Debug)]
pub struct SimHold {
    pub(super) fence: i64,
    pub(super) token: u64,
    /// The entries' ids, in the claim's order.
    pub(super) ids: Vec<i64>,
    /// What the open transaction has written (`hold`).
    pub(super) uncommitted: Vec<(i64, Settlement)>,
    /// What this claim has written already: not finding it in its hands any more is no loss.
    pub(super) settled: HashSet<i64>,
}

pub(super) fn extend(
    source: &SimSource,
    database: &mut Database,
    now: Timestamp,
    hold: &SimHold,
) -> Result<(), SourceError> {
    let settings = source.outbox.settings;
    if settings.ordered || matches!(settings.way, Way::Cursor | Way::Log) {
        if !database.stands(hold.fence) {
            return Err(SourceError::Fenced);
        }
        database.renew_lease(now, settings.lease_ttl);
    }
    let mut lost = false;
    for id in &hold.ids {
        let Some(row) = database.rows.get_mut(id) else { continue };
        match &mut row.status.lease {
            Some(lease) if lease.token == hold.token => lease.expires = later(now, settings.lease_ttl),
            // This holder may have settled it and claimed it anew; only another's hands mean that it is lost.
            Some(lease) => lost |= lease.session != source.session,
            None => {}
        }
    }
    if lost { Err(SourceError::Fenced) } else { Ok(()) }
}
