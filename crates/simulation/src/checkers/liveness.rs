//! When the faults stop, the outbox empties: what is left is dead, or held behind the dead.

use std::collections::HashMap;

use postrider_core::State;

use crate::evidence::Evidence;

pub(super) fn check(evidence: &Evidence) -> Result<(), String> {
    if let Some(failure) = evidence.failures.first() {
        return Err(format!("a relay ended: {failure}"));
    }
    let mut first_dead: HashMap<&str, u64> = HashMap::new();
    for written in evidence.committed().filter(|_| evidence.scenario.hold_dead) {
        if evidence.stored.get(&written.event).is_some_and(|stored| stored.state == State::Dead) {
            let first = first_dead.entry(&written.key).or_insert(written.place);
            *first = (*first).min(written.place);
        }
    }
    for written in evidence.committed() {
        let done = matches!(
            evidence.stored.get(&written.event).map(|stored| stored.state),
            Some(State::Published | State::Dead) | None
        );
        let held = first_dead.get(&*written.key).is_some_and(|dead| *dead < written.place);
        if !done && !held {
            return Err(format!("{} is still waiting long after the last fault", written.event));
        }
    }
    if evidence.finished { Ok(()) } else { Err("the world did not come to rest".into()) }
}
