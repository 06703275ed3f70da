//! The first try and `retries_max` further ones; whoever is dead used them all, unless it was poison.

use postrider_core::State;

use crate::evidence::Evidence;

pub(super) fn check(evidence: &Evidence) -> Result<(), String> {
    let most = evidence.scenario.retry.retries_max;
    for written in evidence.committed() {
        let Some(stored) = evidence.stored.get(&written.event) else { continue };
        if stored.retries > most {
            return Err(format!("{} has {} retries of {most}", written.event, stored.retries));
        }
        if stored.state == State::Dead && !written.poison && stored.retries < most {
            return Err(format!("{} is dead after {} retries of {most}", written.event, stored.retries));
        }
    }
    Ok(())
}
