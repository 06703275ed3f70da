//! The team's own tables beside an outbox, by column.
//!
//! Without them a cursor keeps its position, its retries and its dead letters in Postrider's own tables. What a team's table
//! has no column for is kept there too (B6).

use std::time::Duration;

use serde::Deserialize;

use super::Identifier;

/// The team's own tables beside the outbox, in the outbox's schema.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SideTables {
    /// Where the position is kept.
    pub position: Option<PositionTable>,
    /// Where entries are kept whose send failed.
    pub failed: Option<FailedTable>,
    /// Where dead entries of a status table are written down.
    pub dead: Option<DeadTable>,
}

/// `[position.table]`: append-only. The latest row is the one with the highest id, never by clock (B4).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PositionTable {
    /// The table.
    pub name: Identifier,
    /// Its columns.
    pub columns: PositionColumns,
}

/// The columns of a [`PositionTable`].
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PositionColumns {
    /// The row's id, which the table gives and which grows.
    pub id: Identifier,
    /// The outbox id up to which everything was attempted.
    pub position: Identifier,
    /// When it was written; none means that the table fills it in, or has none.
    pub time: Option<Identifier>,
}

/// `[retry.table]`: an entry whose send failed is kept here whole, until it is published (then its row is deleted) or for a
/// person: it is dead once its retries are used up (B6, B8).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FailedTable {
    /// The table.
    pub name: Identifier,
    /// Its columns.
    pub columns: FailedColumns,
}

/// The columns of a [`FailedTable`]. A part that the outbox has and this table has not is kept beside it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FailedColumns {
    /// The row's id, which the table gives.
    pub id: Identifier,
    /// The event's id.
    pub event_id: Identifier,
    /// The event's type.
    #[serde(rename = "type")]
    pub event_type: Identifier,
    /// Who says so.
    pub source: Option<Identifier>,
    /// The aggregate's type.
    pub aggregate_type: Option<Identifier>,
    /// The aggregate's id.
    pub aggregate_id: Option<Identifier>,
    /// The data.
    pub payload: Identifier,
    /// Retries that failed: 0 when the row is written, so one less than were scheduled. At the policy's `retries_max` it is
    /// dead; one that can never succeed is written with that number at once (B8).
    pub retries: Identifier,
    /// What was last wrong.
    pub error: Option<Identifier>,
    /// When it failed first.
    pub failed_at: Option<Identifier>,
    /// When the next try is due.
    pub not_before: Identifier,
}

/// `[dead.table]`: a dead entry is written down here as well, in the transaction that makes it dead (A10).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeadTable {
    /// The table.
    pub name: Identifier,
    /// Its columns.
    pub columns: DeadColumns,
}

/// The columns of a [`DeadTable`]; what is none is not written.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeadColumns {
    /// The outbox row's id.
    pub entry: Identifier,
    /// The event's id.
    pub event_id: Option<Identifier>,
    /// The event's type.
    #[serde(rename = "type")]
    pub event_type: Option<Identifier>,
    /// The data.
    pub payload: Option<Identifier>,
    /// What was wrong.
    pub error: Option<Identifier>,
    /// When it was given up.
    pub time: Option<Identifier>,
}

impl DeadTable {
    /// Every column with the key that a layout file has for it.
    pub fn given(&self) -> impl Iterator<Item = (&'static str, &Identifier)> {
        let columns = &self.columns;
        [
            ("entry", Some(&columns.entry)),
            ("event_id", columns.event_id.as_ref()),
            ("type", columns.event_type.as_ref()),
            ("payload", columns.payload.as_ref()),
            ("error", columns.error.as_ref()),
            ("time", columns.time.as_ref()),
        ]
        .into_iter()
        .filter_map(|(key, column)| column.map(|column| (key, column)))
    }
}

impl PositionTable {
    /// Every column with the key that a layout file has for it.
    pub fn given(&self) -> impl Iterator<Item = (&'static str, &Identifier)> {
        let columns = &self.columns;
        [("id", Some(&columns.id)), ("position", Some(&columns.position)), ("time", columns.time.as_ref())]
            .into_iter()
            .filter_map(|(key, column)| column.map(|column| (key, column)))
    }
}

impl FailedTable {
    /// Every column with the key that a layout file has for it.
    pub fn given(&self) -> impl Iterator<Item = (&'static str, &Identifier)> {
        let columns = &self.columns;
        [
            ("id", Some(&columns.id)),
            ("event_id", Some(&columns.event_id)),
            ("type", Some(&columns.event_type)),
            ("source", columns.source.as_ref()),
            ("aggregate_type", columns.aggregate_type.as_ref()),
            ("aggregate_id", columns.aggregate_id.as_ref()),
            ("payload", Some(&columns.payload)),
            ("retries", Some(&columns.retries)),
            ("error", columns.error.as_ref()),
            ("failed_at", columns.failed_at.as_ref()),
            ("not_before", Some(&columns.not_before)),
        ]
        .into_iter()
        .filter_map(|(key, column)| column.map(|column| (key, column)))
    }
}

/// A job of its own for retries (B8): `[retry] interval` and `batch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryRuns {
    /// How often due retries are looked for.
    pub every: Duration,
    /// How many at once, at most.
    pub entries: usize,
}
