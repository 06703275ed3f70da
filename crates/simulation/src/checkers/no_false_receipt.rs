//! What the outbox calls published is with the broker.

use std::collections::HashSet;

use postrider_core::State;

use crate::evidence::Evidence;

pub(super) fn check(evidence: &Evidence) -> Result<(), String> {
    let accepted: HashSet<&str> = evidence.accepted.iter().map(|accepted| &*accepted.event).collect();
    let lie = evidence
        .stored
        .iter()
        .filter(|(event, stored)| stored.state == State::Published && !accepted.contains(&***event))
        .map(|(event, _)| event)
        .min();
    match lie {
        Some(event) => Err(format!("{event} is marked published, and the broker does not have it")),
        None => Ok(()),
    }
}
