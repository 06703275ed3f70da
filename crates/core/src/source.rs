//! Where the relay takes entries from: the hot path.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::route::{Gate, Holds, Router};
use crate::{Entry, Fault, Settlement};

/// Hands out entries and writes what became of them. One value is one holder: a relay of its own.
///
/// # Contract
/// Claiming
/// - **SRC-01** Only committed entries are handed out, and every committed entry is, sooner or later.
/// - **SRC-02** An entry has one holder at a time.
/// - **SRC-03** An entry that commits late with a low id is never skipped.
/// - **SRC-04** Where order is kept, a key's entries come in order, within a claim and across overlapping claims; none
///   goes to another holder while an earlier one is unsettled.
/// - **SRC-05** An entry that was postponed, retried or (with `on_dead = "hold"`) buried holds back the later ones of its
///   key until it is settled otherwise, across restarts and holders.
/// - **SRC-06** What the [`Ask`] holds is passed by, not handed out, and comes once its hold is gone, in order.
/// - **SRC-07** A claim has at most `entries_max` entries and stops at `bytes_max`, but hands out at least one.
/// - **SRC-08** A row that cannot be read as an event comes with its [`crate::entry::Flaw`]; it is not dropped and stops nothing.
///
/// Settling
/// - **SRC-09** Nothing is settled under a stale fence: [`SourceError::Fenced`], and nothing is written.
/// - **SRC-10** Settling again after a lost reply changes nothing twice.
/// - **SRC-11** A published entry is never handed out again; a dead one not until it is revived.
/// - **SRC-12** A retried or postponed entry comes again when its time is due, not before, with the count that was written.
/// - **SRC-13** A released entry is as if it had not been claimed: no count, no delay.
/// - **SRC-14** Settlements may come in any order and in parts; entries left unsettled are not lost.
///
/// Ending
/// - **SRC-15** `release` ends a claim: what was settled is durable, the rest is available at once, to anybody.
/// - **SRC-16** A holder that died holds nothing for longer than the lease.
/// - **SRC-17** `retire` gives up the lease, so that another holder need not wait for it to expire.
pub trait Source: Send + Sync {
    /// What a claim's way needs: a fence, or the connection with the open transaction.
    type Hold: Send;

    /// What this source can do.
    fn features(&self) -> SourceFeatures;

    /// Takes entries that are due and not held.
    fn claim(&self, ask: &Ask) -> impl Future<Output = Result<Claimed<Self::Hold>, SourceError>> + Send;

    /// Keeps a claim, and the lease it stands on, from expiring.
    fn extend(&self, hold: &mut Self::Hold) -> impl Future<Output = Result<(), SourceError>> + Send;

    /// Writes what became of entries of a claim, all in one statement: `(index in the claim, settlement)`.
    fn settle(
        &self,
        hold: &mut Self::Hold,
        settlements: &[(usize, Settlement)],
    ) -> impl Future<Output = Result<(), SourceError>> + Send;

    /// Ends a claim.
    fn release(&self, hold: Self::Hold) -> impl Future<Output = Result<(), SourceError>> + Send;

    /// Gives the lease up when a relay stops; every claim has been released before.
    fn retire(&self) -> impl Future<Output = Result<(), SourceError>> + Send;

    /// Resolves when there may be something to claim before the next poll; never, where the source cannot tell.
    fn wake(&self) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }
}

/// What a source can do; asked, not guessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceFeatures {
    /// Whether a key's entries come in order.
    pub ordered: bool,
    /// How settlements become durable.
    pub settles: Settles,
    /// Whether [`Source::wake`] ever resolves.
    pub wakes: bool,
    /// How long a holder keeps what it claimed without extending it; the relay extends at a third of it.
    pub lease_ttl: Duration,
}

/// How settlements become durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settles {
    /// Each by itself, in any order (`lease`, `cursor`).
    Each,
    /// All at the claim's end (`hold`): the relay releases claims early.
    AtRelease,
    /// Up to the first that is unsettled (`log`): what was published behind it comes again after a crash.
    Prefix,
}

/// What a relay asks for.
#[derive(Clone, Debug)]
pub struct Ask {
    /// Entries at most.
    pub entries_max: usize,
    /// Bytes at most; one entry is handed out however large it is.
    pub bytes_max: usize,
    /// What must not be handed out now.
    pub holds: Arc<Holds>,
    /// Where each kind goes.
    pub router: Arc<Router>,
}

impl Ask {
    /// The gate that each entry of this claim must pass.
    #[must_use]
    pub fn gate(&self) -> Gate<'_> {
        Gate::new(&self.holds, &self.router)
    }
}

/// What a claim brought.
#[derive(Debug)]
pub enum Claimed<H> {
    /// Entries, at least one.
    Batch(Claim<H>),
    /// Nothing to do.
    Nothing(Idle),
    /// Another relay holds the lease.
    Standby,
}

/// Entries in a relay's hands.
#[derive(Debug)]
pub struct Claim<H> {
    /// What the source needs to settle it.
    pub hold: H,
    /// The entries, in the order in which they are to be published.
    pub entries: Vec<Entry>,
    /// Whether it stopped at a limit, so that there is more.
    pub more: bool,
}

/// Why there was nothing to hand out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Idle {
    /// Whether the scan stopped at a limit: ask again at once.
    pub more: bool,
    /// When the next waiting entry is due.
    pub due_in: Option<Duration>,
    /// Whether an entry is due that waits for its turn alone: where retries are a job of their own, for its next run.
    pub due: bool,
    /// Ids that may still commit.
    pub gaps_open: u64,
    /// Whether a limit on what is parked has stopped the reading: `status` names the culprit.
    pub full: bool,
    /// Whether entries are in other hands, another relay's or a transaction's, and may come back.
    pub elsewhere: bool,
}

/// Four kinds, because the relay does and says different things.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// No answer, or one that says not now: the outcome is not known, and the same call may be made again.
    #[error("{0}")]
    Unreachable(#[source] Fault),
    /// The table, or a right on it, is not as it must be (any more). Nothing is lost by waiting: the same call may be made
    /// again, and succeeds once a person has mended it.
    #[error("{0}")]
    Unfit(#[source] Fault),
    /// The lease was lost: the claim is void, somebody else has its entries.
    #[error("the lease was lost to another relay")]
    Fenced,
    /// Going on would lose or repeat events: the relay stops until a person acts.
    #[error("{0}")]
    Broken(#[source] Fault),
}
