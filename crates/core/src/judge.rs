//! From a verdict to what is written and what the breakers hear: one pure table.

use std::time::Duration;

use crate::retry::{Next, Policy};
use crate::verdict::{Reason, Refusal, Rejection, Scope, Silence};
use crate::{Entry, Settlement, Verdict};

/// What a verdict means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// What is written for the entry.
    pub settlement: Settlement,
    /// What the breakers hear.
    pub signal: Signal,
}

/// What a verdict says of the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// It works.
    Success,
    /// This much of it does not.
    Failure(Scope),
    /// Nothing: the message's own fault, or it was never attempted.
    Silent,
}

/// Judges one verdict. `chance` is in `0.0..1.0` and spreads retries.
#[must_use]
pub fn judge(entry: &Entry, verdict: &Verdict, policy: &Policy, chance: f64) -> Judgement {
    let at_once = |reason: &Reason| Settlement::Postponed { after: Duration::ZERO, reason: reason.clone() };
    let refusal = match verdict {
        Verdict::Receipt => return Judgement { settlement: Settlement::Published, signal: Signal::Success },
        Verdict::Refusal(refusal) => refusal,
    };
    let (settlement, signal) = match refusal {
        Refusal::Busy { scope, reason } | Refusal::Unknown(Silence::Broker { scope, reason }) => {
            (at_once(reason), Signal::Failure(*scope))
        }
        Refusal::Transient(reason) | Refusal::Unknown(Silence::Own(reason)) => {
            (count(entry, reason, policy, chance), Signal::Silent)
        }
        // The company is sent again in halves; nobody in it is to blame yet.
        Refusal::Rejected(Rejection { reason, in_company: true }) => (at_once(reason), Signal::Silent),
        Refusal::Rejected(Rejection { reason, in_company: false }) => {
            (Settlement::Dead { retries: entry.retries, reason: reason.clone() }, Signal::Silent)
        }
        Refusal::Unknown(Silence::Purged) => (at_once(&refusal.reason()), Signal::Silent),
        Refusal::Withheld => (Settlement::Released, Signal::Silent),
    };
    Judgement { settlement, signal }
}

/// A failed try: counted, and given up when the policy says so.
fn count(entry: &Entry, reason: &Reason, policy: &Policy, chance: f64) -> Settlement {
    let reason = reason.clone();
    match policy.next(entry.retries, entry.retries_max, chance) {
        Next::Retry { retries, after } => Settlement::Retried { retries, after, reason },
        Next::GiveUp => Settlement::Dead { retries: entry.retries, reason },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EntryId;
    use crate::envelope::Envelope;

    fn entry(retries: u32) -> Entry {
        let envelope = Envelope {
            id: "e".into(),
            source: "/s".into(),
            event_type: "t".into(),
            time: jiff::Timestamp::UNIX_EPOCH,
            content_type: None,
            aggregate_type: "A".into(),
            aggregate_id: "1".into(),
            partition_key: None,
            sequence: None,
            trace: None,
            extensions: std::collections::BTreeMap::new(),
            data: bytes::Bytes::new(),
        };
        Entry { id: EntryId::Int(1), envelope, key: None, retries, retries_max: None, flaw: None }
    }

    fn judged(retries: u32, refusal: Refusal) -> Judgement {
        judge(
            &entry(retries),
            &Verdict::Refusal(refusal),
            &Policy { retries_max: 2, ..Policy::default() },
            0.0,
        )
    }

    fn why() -> Reason {
        Reason::new("why")
    }

    /// An outage counts nothing, however many retries are behind the entry, and feeds its own scope's breaker.
    #[test]
    fn an_outage_costs_no_retry() {
        for scope in [Scope::Partition, Scope::Topic, Scope::Sink] {
            for refusal in [
                Refusal::Busy { scope, reason: why() },
                Refusal::Unknown(Silence::Broker { scope, reason: why() }),
            ] {
                let judgement = judged(2, refusal);
                assert_eq!(
                    judgement.settlement,
                    Settlement::Postponed { after: Duration::ZERO, reason: why() }
                );
                assert_eq!(judgement.signal, Signal::Failure(scope));
            }
        }
    }

    #[test]
    fn a_failed_try_is_counted_until_none_is_left() {
        for refusal in [Refusal::Transient(why()), Refusal::Unknown(Silence::Own(why()))] {
            assert!(matches!(judged(1, refusal.clone()).settlement, Settlement::Retried { retries: 2, .. }));
            assert_eq!(judged(2, refusal.clone()).settlement, Settlement::Dead { retries: 2, reason: why() });
            assert_eq!(judged(2, refusal).signal, Signal::Silent);
        }
    }

    #[test]
    fn a_rejected_message_is_dead_only_when_it_stood_alone() {
        let alone = judged(0, Refusal::Rejected(Rejection { reason: why(), in_company: false }));
        assert_eq!(alone.settlement, Settlement::Dead { retries: 0, reason: why() });
        let company = judged(0, Refusal::Rejected(Rejection { reason: why(), in_company: true }));
        assert!(matches!(company.settlement, Settlement::Postponed { .. }));
        assert_eq!(company.signal, Signal::Silent);
    }

    #[test]
    fn neighbours_count_nothing_and_feed_no_breaker() {
        let purged = judged(2, Refusal::Unknown(Silence::Purged));
        assert!(matches!(purged.settlement, Settlement::Postponed { .. }));
        assert_eq!(purged.signal, Signal::Silent);
        assert_eq!(judged(2, Refusal::Withheld).settlement, Settlement::Released);
    }
}
