//! Only what the message itself failed is counted.

use postrider_core::State;

use crate::evidence::Evidence;

pub(super) fn check(evidence: &Evidence) -> Result<(), String> {
    for written in evidence.committed() {
        let Some(stored) = evidence.stored.get(&written.event) else { continue };
        let own = evidence.own_failures.get(&written.event).copied().unwrap_or(0);
        // The last failed try of a dead entry schedules no retry.
        let counted = stored.retries + u32::from(stored.state == State::Dead && !written.poison);
        if counted > own {
            return Err(format!(
                "{} failed {own} times by itself, and {counted} were counted",
                written.event
            ));
        }
    }
    Ok(())
}
