//! The claims that a relay has open.

use std::collections::BTreeMap;
use std::sync::Arc;

use postrider_core::clock::Instant;
use postrider_core::plan::TopicNo;
use postrider_core::{Entry, Settlement};

use crate::keys::KeyNo;

/// A claim's number: later claims have higher ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ClaimNo(pub(crate) u64);

/// One entry of one claim on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    pub(crate) claim: ClaimNo,
    pub(crate) index: usize,
    pub(crate) key: Option<KeyNo>,
    pub(crate) topic: TopicNo,
    /// It is its key's turn: nothing waits before it.
    pub(crate) next: bool,
}

#[derive(Debug)]
pub(crate) struct Claims<H> {
    open: BTreeMap<ClaimNo, OpenClaim<H>>,
    next: u64,
    bytes: usize,
}

#[derive(Debug)]
pub(crate) struct OpenClaim<H> {
    /// What the source needs; away while the source has it.
    pub(crate) hold: Option<H>,
    pub(crate) entries: Arc<Vec<Entry>>,
    keys: Vec<Option<KeyNo>>,
    /// Decided and not yet handed to the source.
    pub(crate) decided: Vec<(usize, Settlement)>,
    pub(crate) decided_since: Option<Instant>,
    /// Entries without a decision.
    undecided: usize,
    /// Entries not settled durably.
    pub(crate) unsettled: usize,
    /// Until when the lease stands for sure, by this relay's own clock.
    pub(crate) valid_until: Instant,
    pub(crate) extend_at: Instant,
    /// When a failed call may be made again.
    pub(crate) again_at: Option<Instant>,
    /// Lost to another relay: nothing of it is written any more; it stays until its last message is answered.
    pub(crate) void: bool,
    bytes: usize,
}

impl<H> Claims<H> {
    pub(crate) fn new() -> Self {
        Self { open: BTreeMap::new(), next: 0, bytes: 0 }
    }

    /// Takes in what a source handed out.
    pub(crate) fn open(
        &mut self,
        hold: H,
        entries: Vec<Entry>,
        valid_until: Instant,
        extend_at: Instant,
    ) -> ClaimNo {
        let number = ClaimNo(self.next);
        self.next += 1;
        let bytes = entries.iter().map(Entry::bytes).sum();
        self.bytes += bytes;
        let count = entries.len();
        let claim = OpenClaim {
            hold: Some(hold),
            entries: Arc::new(entries),
            keys: Vec::new(),
            decided: Vec::with_capacity(count),
            decided_since: None,
            undecided: count,
            unsettled: count,
            valid_until,
            extend_at,
            again_at: None,
            void: false,
            bytes,
        };
        self.open.insert(number, claim);
        number
    }

    /// Notes the keys of a claim's entries.
    pub(crate) fn enter(&mut self, number: ClaimNo, keys: Vec<Option<KeyNo>>) {
        if let Some(claim) = self.open.get_mut(&number) {
            claim.keys = keys;
        }
    }

    /// Ends a claim and hands over the keys of what was not settled.
    pub(crate) fn close(&mut self, number: ClaimNo) -> Vec<KeyNo> {
        let Some(claim) = self.open.remove(&number) else { return Vec::new() };
        self.bytes -= claim.bytes;
        claim.keys.into_iter().flatten().collect()
    }

    pub(crate) fn get(&self, number: ClaimNo) -> Option<&OpenClaim<H>> {
        self.open.get(&number)
    }

    pub(crate) fn get_mut(&mut self, number: ClaimNo) -> Option<&mut OpenClaim<H>> {
        self.open.get_mut(&number)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (ClaimNo, &OpenClaim<H>)> {
        self.open.iter().map(|(number, claim)| (*number, claim))
    }

    pub(crate) fn numbers(&self) -> Vec<ClaimNo> {
        self.open.keys().copied().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Bytes held in open claims.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl<H> OpenClaim<H> {
    /// Notes what will be written for an entry.
    pub(crate) fn decide(&mut self, index: usize, settlement: Settlement, now: Instant) {
        self.undecided -= 1;
        self.decided.push((index, settlement));
        self.decided_since.get_or_insert(now);
    }

    /// Whether every entry has a decision.
    pub(crate) fn complete(&self) -> bool {
        self.undecided == 0
    }

    /// Notes that entries are settled durably, and hands over their keys.
    pub(crate) fn settled(&mut self, settlements: &[(usize, Settlement)]) -> Vec<KeyNo> {
        self.unsettled -= settlements.len();
        settlements.iter().filter_map(|(index, _)| self.keys[*index].take()).collect()
    }
}
