//! Where the ids of new rows come from, when a table has no other column for the event's id.

use postrider_core::{Fault, Layout};

/// Who gives a new row its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowIds {
    /// The event: its id is the row's.
    Event,
    /// The table, which counts: the row's id becomes the event's.
    Table,
    /// Nobody: the column holds numbers, and the table hands none out.
    Nobody,
}

impl RowIds {
    /// Judges the id column by how it is declared and whether it is the primary key, alone.
    pub(crate) fn of(declared: &str, is_only_key: bool) -> Self {
        // Only this spelling makes the column SQLite's own row id, which it fills in.
        if declared.eq_ignore_ascii_case("integer") && is_only_key {
            Self::Table
        } else if declared.to_ascii_uppercase().contains("INT") {
            Self::Nobody
        } else {
            Self::Event
        }
    }
}

pub(crate) fn nobody(layout: &Layout) -> Fault {
    Fault::new(
        format!("table \"{}\"", layout.table),
        "its ids are numbers that SQLite does not hand out, and it has no other column for an event's id",
        "Declare the id `integer primary key`, or add a text column and map it as columns.event_id",
    )
}
