//! Where a cursor begins on a table that has rows already.

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
