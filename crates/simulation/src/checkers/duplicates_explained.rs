//! A duplicate carries the same bytes, and comes only from a crash or a lost reply (F8).

use std::collections::HashMap;

use crate::evidence::Evidence;
use crate::scenario::Faults;

pub(super) fn check(evidence: &Evidence) -> Result<(), String> {
    let scenario = &evidence.scenario;
    // A message that fails by itself may take neighbours with it that were written: their answers are lost.
    let own_faults = scenario.transient > 0.0 || scenario.poison > 0.0;
    let excuse = scenario.faults != Faults::default() || !scenario.blows.is_empty() || own_faults;
    let mut seen: HashMap<&str, u64> = HashMap::new();
    for accepted in &evidence.accepted {
        let Some(bytes) = seen.insert(&accepted.event, accepted.bytes) else { continue };
        if bytes != accepted.bytes {
            return Err(format!("{} came twice with different bytes", accepted.event));
        }
        if !excuse {
            return Err(format!("{} came twice in a world without faults", accepted.event));
        }
    }
    Ok(())
}
