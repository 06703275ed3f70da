//! What the sink knows of its topics and their partitions, and whose turn it is there.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use postrider_core::clock::Instant;
use postrider_core::{Refusal, Text};

use crate::limit::Limit;
use crate::state::{NARROW, SHARED};

/// A producer that has had no receipt from a partition for so long is new to it again: the broker may have forgotten it.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60 * 60);
/// Older knowledge is asked for anew, while it is used on.
const STALE_AFTER: Duration = Duration::from_secs(60);

pub(crate) struct Topic {
    pub name: Text,
    /// The line of producers that it goes through: the first is shared.
    pub line: usize,
    /// The line that it goes through when it is well.
    pub home: usize,
    pub limit: Limit,
    pub known: Known,
    /// It is being asked for.
    pub asking: bool,
    pub partitions: Vec<Partition>,
    /// A new set of partitions, which waits for what is in flight.
    pub next: Option<Vec<Partition>>,
    /// Calls that have messages for it to hand over: each waits for those before it.
    pub turns: VecDeque<u64>,
    pub in_flight: usize,
    pub receipt_at: Option<Instant>,
    /// Partitions that refused or were silent, and have given no receipt since.
    pub owing: BTreeSet<usize>,
    /// Messages that were refused together with others: until the culprit is found each travels alone.
    pub suspects: usize,
    /// Whether a culprit was found among them.
    pub culprit: bool,
}

/// What is known of a topic.
pub(crate) enum Known {
    /// Nothing, or nothing that can be trusted after what has happened.
    Nothing,
    /// Its partitions.
    Since(Instant),
    /// Why nothing can be sent there.
    Fault { refusal: Refusal, at: Instant },
}

/// One partition of a topic.
#[derive(Default)]
pub(crate) struct Partition {
    /// Why nothing can be sent there.
    pub fault: Option<Refusal>,
    /// How many of its replicas are in sync, and how many there are.
    pub in_sync: usize,
    pub replicas: usize,
    pub in_flight: usize,
    /// The producer that last had a receipt from it.
    pub known_to: u64,
    pub receipt_at: Option<Instant>,
    /// Since when its oldest message in flight waits, at most.
    pub waits_since: Instant,
}

/// Whether a topic can be sent to.
pub(crate) enum Standing {
    Ready,
    /// It must be asked for first.
    Ask,
    /// Something is under way.
    Wait,
    Refused(Refusal),
}

impl Topic {
    pub(crate) fn new(name: Text) -> Self {
        Self {
            name,
            line: SHARED,
            home: SHARED,
            limit: Limit::default(),
            known: Known::Nothing,
            asking: false,
            partitions: Vec::new(),
            next: None,
            turns: VecDeque::new(),
            in_flight: 0,
            receipt_at: None,
            owing: BTreeSet::new(),
            suspects: 0,
            culprit: false,
        }
    }

    /// Whether a call that began then may send to it.
    pub(crate) fn standing(&self, begun: Instant) -> Standing {
        match &self.known {
            // A refusal answers the calls that waited for it; a later one asks again.
            Known::Fault { refusal, at } if *at >= begun => Standing::Refused(refusal.clone()),
            Known::Nothing | Known::Fault { .. } if self.asking => Standing::Wait,
            Known::Nothing | Known::Fault { .. } => Standing::Ask,
            Known::Since(_) if self.next.is_some() => Standing::Wait,
            Known::Since(_) => Standing::Ready,
        }
    }

    /// Whether it is time to ask for it in passing.
    pub(crate) fn is_stale(&self, now: Instant) -> bool {
        matches!(self.known, Known::Since(at) if now.since(at) > STALE_AFTER) && !self.asking
    }

    /// It has been asked for. Another number of partitions waits until nothing is in flight: keys change their places.
    pub(crate) fn learn(&mut self, partitions: Vec<Partition>, now: Instant) {
        self.known = Known::Since(now);
        if partitions.len() == self.partitions.len() {
            self.next = None;
            for (known, new) in self.partitions.iter_mut().zip(partitions) {
                known.fault = new.fault;
                (known.in_sync, known.replicas) = (new.in_sync, new.replicas);
            }
        } else {
            self.next = Some(partitions);
            self.settle();
        }
    }

    /// Takes over a new set of partitions, and a new home, once nothing is in flight; whether it did.
    pub(crate) fn settle(&mut self) -> bool {
        if self.in_flight > 0 {
            return false;
        }
        let moves = self.is_at_home() && self.line != self.home;
        if moves {
            self.line = self.home;
        }
        let Some(partitions) = self.next.take() else { return moves };
        self.partitions = partitions;
        self.owing.clear();
        true
    }

    /// It has no line of its own: it is not in trouble.
    pub(crate) fn is_at_home(&self) -> bool {
        self.line == SHARED || self.line == NARROW
    }

    /// It goes through the producer of its home again: it gives receipts, and nothing of it is in flight.
    pub(crate) fn is_well(&self) -> bool {
        self.owing.is_empty() && self.suspects == 0 && self.in_flight == 0
    }
}

impl Partition {
    /// Whether the producer has state there, so that the broker refuses what comes out of sequence.
    pub(crate) fn knows(&self, generation: u64, now: Instant) -> bool {
        self.known_to == generation && self.receipt_at.is_some_and(|at| now.since(at) < FORGOTTEN_AFTER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> Instant {
        Instant(Duration::from_secs(secs))
    }

    fn partitions(count: usize) -> Vec<Partition> {
        (0..count).map(|_| Partition::default()).collect()
    }

    /// Order: a broker forgets a producer in time, and takes any sequence from it then.
    #[test]
    fn a_producer_is_new_to_a_partition_without_a_receipt_and_again_after_an_hour() {
        let mut partition = Partition::default();
        assert!(!partition.knows(1, at(0)));
        partition.known_to = 1;
        partition.receipt_at = Some(at(10));
        assert!(partition.knows(1, at(11)) && !partition.knows(2, at(11)));
        assert!(partition.knows(1, at(3_609)) && !partition.knows(1, at(3_610)));
    }

    /// Order: a key that changes its partition waits until nothing is in flight.
    #[test]
    fn another_number_of_partitions_waits_for_what_is_in_flight() {
        let mut topic = Topic::new("t".into());
        topic.learn(partitions(3), at(1));
        assert!(matches!(topic.standing(at(1)), Standing::Ready));
        topic.in_flight = 1;
        topic.learn(partitions(6), at(2));
        assert!(matches!(topic.standing(at(2)), Standing::Wait));
        assert!(!topic.settle() && topic.partitions.len() == 3);
        topic.in_flight = 0;
        assert!(topic.settle() && topic.partitions.len() == 6);
        assert!(matches!(topic.standing(at(2)), Standing::Ready));
    }

    #[test]
    fn a_refusal_answers_those_who_waited_and_nobody_later() {
        let mut topic = Topic::new("t".into());
        assert!(matches!(topic.standing(at(1)), Standing::Ask));
        topic.asking = true;
        assert!(matches!(topic.standing(at(1)), Standing::Wait));
        topic.asking = false;
        topic.known = Known::Fault { refusal: Refusal::Withheld, at: at(2) };
        assert!(matches!(topic.standing(at(1)), Standing::Refused(_)));
        assert!(matches!(topic.standing(at(3)), Standing::Ask));
    }

    #[test]
    fn what_is_known_is_asked_for_anew_in_passing() {
        let mut topic = Topic::new("t".into());
        topic.learn(partitions(1), at(0));
        assert!(!topic.is_stale(at(60)) && topic.is_stale(at(61)));
    }
}
