//! What `check` finds when it compares a layout with the live table.

use crate::Fault;

/// Something that `check` found.
#[derive(Debug)]
pub struct Finding {
    /// How much it matters.
    pub weight: Weight,
    /// What it is, where, and what to do.
    pub fault: Fault,
}

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// It cannot run like this.
    Fault,
    /// It runs, but could run better.
    Advice,
    /// Something to know.
    Note,
}
