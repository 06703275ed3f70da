//! A duplicate carries the same bytes, and comes only from a crash or a lost reply (F8).

use std::collections::HashMap;

use crate::evidence::Evidence;
use crate::scenario::Faults;

pub(super) fn check(evidence: &Evidence) -> Result<(), String> {
    let scenario = &evidence.scenario;
    // A message that is lost although its partition answers others takes its neighbours with it.
    let excuse =
        scenario.faults != Faults::default() || !scenario.blows.is_empty() || scenario.transient > 0.0;
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
