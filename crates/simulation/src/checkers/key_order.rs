//! Once duplicates are dropped by id, each key's events are in order in each topic; nothing passes a dead one that holds (F2).

use std::collections::{HashMap, HashSet};

use postrider_core::State;

use crate::evidence::Evidence;

pub(super) fn check(evidence: &Evidence) -> Result<(), String> {
    let by_event = evidence.by_event();
    let mut last: HashMap<(&str, &str), (u64, &str)> = HashMap::new();
    for accepted in evidence.firsts() {
        let Some(written) = by_event.get(&*accepted.event) else { continue };
        let before = last.insert((&written.key, &written.topic), (written.place, &written.event));
        if let Some((place, event)) = before
            && place > written.place
        {
            return Err(format!(
                "key {}, topic {}: {} (number {}) came after {event} (number {place})",
                written.key, written.topic, written.event, written.place
            ));
        }
    }
    if evidence.scenario.hold_dead { nothing_passes_the_dead(evidence, &last) } else { Ok(()) }
}

fn nothing_passes_the_dead(
    evidence: &Evidence,
    last: &HashMap<(&str, &str), (u64, &str)>,
) -> Result<(), String> {
    // One whose reply was lost may be accepted and dead: then nothing passed it.
    let accepted: HashSet<&str> = evidence.accepted.iter().map(|accepted| &*accepted.event).collect();
    for dead in evidence.committed() {
        let is_dead = evidence.stored.get(&dead.event).is_some_and(|stored| stored.state == State::Dead);
        if is_dead
            && !accepted.contains(&*dead.event)
            && let Some((place, event)) = last.get(&(&*dead.key, &*dead.topic))
            && *place > dead.place
        {
            return Err(format!(
                "key {}: {event} passed {}, which is dead and holds its key",
                dead.key, dead.event
            ));
        }
    }
    Ok(())
}
