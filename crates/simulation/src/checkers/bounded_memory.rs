//! What a relay holds is bounded by one number of bytes, and one entry.

use crate::evidence::Evidence;

pub(super) fn check(evidence: &Evidence) -> Result<(), String> {
    let most = evidence.scenario.in_flight_bytes + evidence.entry_bytes_most;
    if evidence.bytes_held_most > most {
        return Err(format!("a relay held {} bytes of {most}", evidence.bytes_held_most));
    }
    Ok(())
}
