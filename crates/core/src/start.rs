//! Where a cursor begins on a table that has rows already.

use std::fmt;

use crate::Fault;
use crate::layout::{Layout, Way};

/// Where a cursor begins on a table that has rows already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// With the first row.
    Beginning,
    /// With the first row written from now on.
    Now,
    /// Behind the row with this id.
    After(i64),
}

impl Start {
    /// Whether there is anything that begins: a status table itself says which rows are to be published.
    ///
    /// # Errors
    /// When the layout's way is no cursor.
    pub fn fits(self, layout: &Layout, place: &str) -> Result<(), Fault> {
        if matches!(layout.way, Way::Cursor | Way::Log) {
            return Ok(());
        }
        Err(Fault::new(
            place,
            format!(
                "start = {self} is set, and way = \"{}\" begins nowhere: the rows themselves say which of them are to be published",
                layout.way.word()
            ),
            "Leave start out. Rows that are not to be published are marked as published, or deleted, before the relay starts.",
        ))
    }
}

/// As a configuration spells it.
impl fmt::Display for Start {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Beginning => f.write_str("\"beginning\""),
            Self::Now => f.write_str("\"now\""),
            Self::After(id) => write!(f, "{id}"),
        }
    }
}
