//! Where the ids of new rows come from, when a table has no other column for the event's id.

use postrider_core::append::RowIds;
use postrider_core::{Fault, Layout};

/// Judges the id column by how it is declared and whether it is the primary key, alone.
pub(crate) fn row_ids(declared: &str, is_only_key: bool) -> RowIds {
    // Only this spelling makes the column SQLite's own row id, which it fills in.
    if declared.eq_ignore_ascii_case("integer") && is_only_key {
        RowIds::Table
    } else if declared.to_ascii_uppercase().contains("INT") {
        RowIds::Nobody
    } else {
        RowIds::Event
    }
}

pub(crate) fn nobody(layout: &Layout) -> Fault {
    Fault::new(
        format!("table \"{}\"", layout.table),
        "its ids are numbers that SQLite does not hand out, and it has no other column for an event's id",
        "Declare the id `integer primary key`, or add a text column and map it as columns.event_id",
    )
}
