//! What the ways over status tables share: looking for rows, and reading those that were taken. What is decided over rows is in
//! `core/src/status/`.

mod late;
mod listed;
mod owners;
mod scan;

pub(crate) use listed::{Listed, REFUSED_WAIT, error_chars_max, listed, tell_of_refused, why_refused};
pub(crate) use owners::{LIST, Listing, Owners, list, may_list};
pub(crate) use scan::{Pulse, Scanner, place};
