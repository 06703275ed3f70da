//! Every committed event is with the broker, or still in the outbox; no other event is anywhere (F8).

use std::collections::HashSet;

use postrider_core::State;

use crate::evidence::Evidence;

pub(super) fn check(evidence: &Evidence) -> Result<(), String> {
    let accepted: HashSet<&str> = evidence.accepted.iter().map(|accepted| &*accepted.event).collect();
    for written in evidence.committed() {
        let kept = matches!(
            evidence.stored.get(&written.event).map(|stored| stored.state),
            Some(State::Pending | State::Leased | State::Dead)
        );
        if !accepted.contains(&*written.event) && !kept {
            return Err(format!(
                "{} was committed, and is neither published nor in the outbox",
                written.event
            ));
        }
    }
    let by_event = evidence.by_event();
    match accepted.iter().find(|event| !by_event.get(*event).is_some_and(|written| written.committed)) {
        Some(ghost) => Err(format!("{ghost} was published and never committed")),
        None => Ok(()),
    }
}
