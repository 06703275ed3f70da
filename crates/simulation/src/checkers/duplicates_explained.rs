//! A duplicate carries the same bytes, and comes only from a crash or a lost reply (F8).

use std::collections::HashMap;

use crate::evidence::Evidence;
use crate::scenario::Faults;

pub(super) fn check(evidence: &Evidence) -> Result<(), String> {
    let excuse = evidence.scenario.faults != Faults::default() || !evidence.scenario.blows.is_empty();
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
