//! An entry is in one relay's hands at a time.

use crate::evidence::Evidence;

pub(super) fn check(evidence: &Evidence) -> Result<(), String> {
    match evidence.overlaps.first() {
        Some(overlap) => Err(overlap.clone()),
        None => Ok(()),
    }
}
