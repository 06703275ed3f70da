//! The Source and Store suites over the simulated outbox, in all four ways of claiming.

#[path = "sink/time.rs"]
mod time;

use std::sync::Arc;
use std::time::Duration;

use postrider_conformance::source::SourceHarness;
use postrider_core::clock::Clock;
use postrider_core::store::Store;
use postrider_core::{EntryId, Envelope};
use postrider_simulation::chance::Chance;
use postrider_simulation::clock::SimClock;
use postrider_simulation::source::{Flaw, Outbox, OutboxSettings, SimSource, Way, Writer};
use time::{block_on, timeline};

struct Harness {
    outbox: Outbox,
    clock: SimClock,
    settings: OutboxSettings,
}

impl Harness {
    fn new(way: Way) -> Self {
        Self::with(OutboxSettings { way, ..OutboxSettings::default() })
    }

    fn letting_the_dead_lie(way: Way) -> Self {
        Self::with(OutboxSettings { way, hold_dead: false, ..OutboxSettings::default() })
    }

    fn unordered(way: Way) -> Self {
        Self::with(OutboxSettings { way, ordered: false, ..OutboxSettings::default() })
    }

    fn broken(way: Way, flaw: Flaw) -> Self {
        Self::with(OutboxSettings { way, flaw: Some(flaw), ..OutboxSettings::default() })
    }

    fn with(settings: OutboxSettings) -> Self {
        let clock = SimClock::new(&timeline());
        let outbox = Outbox::new(Arc::new(clock.clone()), settings, Chance::new(1));
        Self { outbox, clock, settings }
    }

    fn write(&self, envelopes: Vec<Envelope>) -> (Writer, Vec<EntryId>) {
        let mut writer = self.outbox.begin();
        let ids = envelopes.into_iter().map(|envelope| writer.append(envelope).into()).collect();
        (writer, ids)
    }
}

impl SourceHarness for Harness {
    type Source = SimSource;
    type Transaction = Writer;

    async fn open(&self, holder: &str) -> SimSource {
        self.outbox.source(holder)
    }

    async fn store(&self) -> Box<dyn Store> {
        Box::new(self.outbox.store())
    }

    async fn append(&self, envelopes: Vec<Envelope>) -> Vec<EntryId> {
        let (writer, ids) = self.write(envelopes);
        writer.commit();
        ids
    }

    async fn append_and_roll_back(&self, envelopes: Vec<Envelope>) {
        drop(self.write(envelopes));
    }

    async fn begin(&self, envelopes: Vec<Envelope>) -> Option<Writer> {
        Some(self.write(envelopes).0)
    }

    async fn commit(&self, transaction: Writer) {
        transaction.commit();
    }

    async fn roll_back(&self, transaction: Writer) {
        drop(transaction);
    }

    fn clock(&self) -> &dyn Clock {
        &self.clock
    }

    async fn pass(&self, span: Duration) {
        self.clock.sleep(span).await;
    }

    async fn corrupt(&self, id: &EntryId) -> bool {
        id.int().map(|id| self.outbox.corrupt(id)).is_some()
    }

    fn lose_next_reply(&self) -> bool {
        self.outbox.lose_next_reply();
        true
    }

    fn holds_dead(&self) -> bool {
        self.settings.hold_dead
    }
}

macro_rules! suites {
    ($name:ident, $harness:expr) => {
        mod $name {
            use super::*;
            mod source {
                use super::*;
                postrider_conformance::source_suite!(block_on, $harness);
            }
            mod store {
                use super::*;
                postrider_conformance::store_suite!(block_on, $harness);
            }
        }
    };
}

suites!(cursor, Harness::new(Way::Cursor));
suites!(cursor_letting_the_dead_lie, Harness::letting_the_dead_lie(Way::Cursor));
suites!(lease, Harness::new(Way::Lease));
suites!(lease_letting_the_dead_lie, Harness::letting_the_dead_lie(Way::Lease));
suites!(lease_unordered, Harness::unordered(Way::Lease));
suites!(hold, Harness::new(Way::Hold));
suites!(hold_unordered, Harness::unordered(Way::Hold));
suites!(log, Harness::new(Way::Log));

/// What is broken is found out: the tests of the tests.
mod broken {
    use super::*;
    use postrider_conformance::source::{claiming, ending, holding, settling};

    macro_rules! caught {
        ($($name:ident: $way:ident, $flaw:ident, $case:path;)+) => {
            $(
                #[test]
                #[should_panic]
                fn $name() {
                    block_on($case(&Harness::broken(Way::$way, Flaw::$flaw)));
                }
            )+
        };
    }

    caught! {
        gaps_forgotten: Cursor, GapsForgotten, claiming::src_03_a_late_commit_with_a_low_id_is_not_skipped;
        gaps_not_persisted: Cursor, GapsNotPersisted, claiming::src_03_a_late_commit_is_not_skipped_by_the_next_holder;
        gaps_closed_too_early: Cursor, GapsClosedTooEarly, claiming::src_03_a_late_commit_with_a_low_id_is_not_skipped;
        stale_settle_by_lease: Lease, StaleSettle, settling::src_09_a_stale_claim_settles_nothing;
        stale_settle_by_cursor: Cursor, StaleSettle, settling::src_09_a_stale_claim_settles_nothing;
        release_forgotten_by_cursor: Cursor, ReleaseForgotten, ending::src_15_a_release_gives_the_rest_back_at_once;
        release_forgotten_by_lease: Lease, ReleaseForgotten, settling::src_13_a_released_entry_comes_again_at_once;
        retry_overtakes_by_lease: Lease, RetryOvertakes, holding::src_05_a_retried_entry_holds_its_key;
        retry_overtakes_by_cursor: Cursor, RetryOvertakes, holding::src_05_a_held_key_stays_held_for_the_next_holder;
    }
}
