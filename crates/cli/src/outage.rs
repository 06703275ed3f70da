//! An outage of the database in the log: said at once, then ever more rarely, and how long it was when it is over.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use postrider_core::clock::Instant;

/// When the same trouble is told again: first after this long, then twice as long each time, at most after the latter.
const AGAIN: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(600));
/// Different troubles of one outage that are told; a further one waits for its turn with the others.
const TROUBLES_MAX: usize = 8;

/// An outage that is over.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Over {
    pub(crate) lasted: Duration,
    /// What somebody has mended; empty where the database was away by itself.
    pub(crate) mended: Vec<String>,
}

/// What was told of the outage that lasts.
#[derive(Default)]
pub(crate) struct Outage(Mutex<Option<Away>>);

struct Away {
    since: Instant,
    troubles: Vec<String>,
    /// What a person had to mend.
    faults: Vec<String>,
    again_at: Instant,
    again_in: Duration,
}

impl Outage {
    /// Whether a trouble is to be told, and how long the outage has lasted by now. A fault is one that does not pass by itself.
    pub(crate) fn tells(&self, trouble: &str, fault: Option<&str>, now: Instant) -> Option<Duration> {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let away = slot.get_or_insert_with(|| Away {
            since: now,
            troubles: Vec::new(),
            faults: Vec::new(),
            again_at: now + AGAIN.0,
            again_in: AGAIN.0,
        });
        if let Some(fault) = fault
            .filter(|fault| away.faults.len() < TROUBLES_MAX && away.faults.iter().all(|told| told != fault))
        {
            away.faults.push(fault.to_owned());
        }
        let is_news = away.troubles.len() < TROUBLES_MAX && away.troubles.iter().all(|told| told != trouble);
        if is_news {
            away.troubles.push(trouble.to_owned());
        } else if now >= away.again_at {
            away.again_in = (away.again_in * 2).min(AGAIN.1);
            away.again_at = now + away.again_in;
        } else {
            return None;
        }
        Some(now.since(away.since))
    }

    /// It is over: how long it was, and what was mended.
    pub(crate) fn ends(&self, now: Instant) -> Option<Over> {
        let away = self.0.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        Some(Over { lasted: now.since(away.since), mended: away.faults })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// F8: an outage is told at once, again at growing intervals, and its length at its end.
    #[test]
    fn an_outage_is_told_ever_more_rarely() {
        let (outage, start) = (Outage::default(), Instant::default());
        let at = |second: u64| start + Duration::from_secs(second);
        let told: Vec<u64> =
            (0..3600).filter(|second| outage.tells("refused", None, at(*second)).is_some()).collect();
        assert_eq!(told, [0, 30, 90, 210, 450, 930, 1530, 2130, 2730, 3330]);
        assert!(outage.tells("starting up", None, at(3600)).is_some(), "something new is told at once");
        assert!(outage.tells("starting up", None, at(3600)).is_none());
        assert_eq!(outage.ends(at(3600)), Some(Over { lasted: Duration::from_secs(3600), mended: vec![] }));
        assert_eq!(outage.ends(at(3600)), None);
        assert_eq!(outage.tells("refused", None, at(3600)), Some(Duration::ZERO));
    }

    /// F5: what a person had to mend is known at the end, once each.
    #[test]
    fn what_was_mended_is_known_at_the_end() {
        let (outage, now) = (Outage::default(), Instant::default());
        for fault in [Some("no column"), None, Some("no right"), Some("no column")] {
            outage.tells(fault.unwrap_or("refused"), fault, now);
        }
        assert_eq!(outage.ends(now).unwrap().mended, ["no column", "no right"]);
    }
}
