//! The Source suite: what `postrider_core::source::Source` promises, case by case.
//!
//! An adapter implements [`SourceHarness`] and names the suite once; each MUST then shows up as a test of its own:
//!
//! ```ignore
//! postrider_conformance::source_suite!(block_on, Harness::new());
//! ```

pub mod claiming;
pub(crate) mod desk;
pub mod ending;
pub mod holding;
pub mod settling;

use std::future::Future;
use std::time::Duration;

use postrider_core::clock::Clock;
use postrider_core::source::Source;
use postrider_core::store::Store;
use postrider_core::{EntryId, Envelope};

/// What an adapter lends to the suites: an outbox of its own, that is empty when the harness is made.
pub trait SourceHarness: Sync {
    /// The source under test.
    type Source: Source;
    /// A writer's transaction that has appended and is still open.
    type Transaction: Send;

    /// Opens a source for a holder; called again, another one on the same outbox.
    fn open(&self, holder: &str) -> impl Future<Output = Self::Source> + Send;

    /// Opens a store on the same outbox.
    fn store(&self) -> impl Future<Output = Box<dyn Store>> + Send;

    /// Ends a holder as `kill -9` would: nothing is released, nothing is retired.
    fn kill(&self, source: Self::Source) -> impl Future<Output = ()> + Send {
        drop(source);
        std::future::ready(())
    }

    /// Appends events in one transaction and commits it.
    fn append(&self, envelopes: Vec<Envelope>) -> impl Future<Output = Vec<EntryId>> + Send;

    /// Appends events in one transaction and rolls it back.
    fn append_and_roll_back(&self, envelopes: Vec<Envelope>) -> impl Future<Output = ()> + Send;

    /// Appends events in a transaction that stays open while others write; none where the database has one writer only.
    fn begin(&self, envelopes: Vec<Envelope>) -> impl Future<Output = Option<Self::Transaction>> + Send;

    /// Commits it.
    fn commit(&self, transaction: Self::Transaction) -> impl Future<Output = ()> + Send;

    /// Rolls it back.
    fn roll_back(&self, transaction: Self::Transaction) -> impl Future<Output = ()> + Send;

    /// The database's clock.
    fn clock(&self) -> &dyn Clock;

    /// Lets time pass on it, and on the sources' own.
    fn pass(&self, span: Duration) -> impl Future<Output = ()> + Send;

    /// Makes a row unreadable as an event; false where the table's own constraints forbid it.
    fn corrupt(&self, id: &EntryId) -> impl Future<Output = bool> + Send;

    /// Loses the reply of the next settle or release, whose work is done; false where that cannot be arranged.
    fn lose_next_reply(&self) -> bool;

    /// Whether a dead entry holds its key.
    fn holds_dead(&self) -> bool;
}

/// Makes a test of every case: `source_suite!(block_on, harness)`, where `block_on` runs a future to its end and `harness`
/// is evaluated anew for each case.
#[macro_export]
macro_rules! source_suite {
    ($block_on:path, $harness:expr) => {
        $crate::source_suite! { @ $block_on, $harness,
            claiming::src_01_every_committed_entry_is_handed_out_once
            claiming::src_01_what_was_rolled_back_is_not_handed_out
            claiming::src_02_an_entry_has_one_holder
            claiming::src_02_an_extended_claim_stays_with_its_holder
            claiming::src_03_a_late_commit_with_a_low_id_is_not_skipped
            claiming::src_03_a_late_commit_is_not_skipped_by_the_next_holder
            claiming::src_03_a_rolled_back_id_stops_nothing
            claiming::src_04_a_keys_entries_come_in_order_across_claims
            claiming::src_04_no_entry_goes_to_another_while_an_earlier_one_is_unsettled
            claiming::src_07_a_claim_keeps_to_its_limits
            claiming::src_08_an_unreadable_row_comes_with_its_flaw
            holding::src_05_a_retried_entry_holds_its_key
            holding::src_05_a_postponed_entry_holds_its_key
            holding::src_05_a_dead_entry_holds_its_key_or_lets_it_go_on
            holding::src_05_a_held_key_stays_held_for_the_next_holder
            holding::src_06_a_held_key_is_passed_by_and_comes_later
            holding::src_06_a_held_route_is_passed_by_and_comes_later
            holding::src_06_an_allowance_lets_that_many_pass
            holding::src_06_what_was_passed_by_is_not_lost_with_its_holder
            settling::src_09_a_stale_claim_settles_nothing
            settling::src_10_settling_again_changes_nothing
            settling::src_10_a_lost_reply_changes_nothing_twice
            settling::src_11_what_is_published_never_comes_again
            settling::src_11_what_is_dead_comes_when_it_is_revived
            settling::src_12_a_retried_entry_comes_when_it_is_due
            settling::src_12_a_postponed_entry_keeps_its_count
            settling::src_13_a_released_entry_comes_again_at_once
            settling::src_13_a_released_entry_comes_before_its_followers
            settling::src_14_settlements_come_in_parts_and_in_any_order
            settling::src_14_what_is_left_unsettled_is_not_lost
            ending::src_15_a_release_gives_the_rest_back_at_once
            ending::src_15_what_was_settled_outlives_its_holder
            ending::src_16_a_dead_holder_holds_nothing_for_longer_than_its_lease
            ending::src_17_a_retired_holder_makes_nobody_wait
        }
    };
    (@ $block_on:path, $harness:expr, $($part:ident :: $case:ident)+) => {
        $(
            #[test]
            fn $case() {
                let harness = $harness;
                $block_on($crate::source::$part::$case(&harness));
            }
        )+
    };
}

#[cfg(test)]
mod tests {
    /// A case that the macro forgets would never run.
    #[test]
    fn the_macro_names_every_case() {
        let named = |line: &str| line.trim().split_once("::src_").map(|(_, name)| format!("src_{name}"));
        let mut in_macro: Vec<String> = include_str!("source.rs").lines().filter_map(named).collect();
        in_macro.retain(|name| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'));
        let files = [
            include_str!("source/claiming.rs"),
            include_str!("source/holding.rs"),
            include_str!("source/settling.rs"),
            include_str!("source/ending.rs"),
        ];
        let in_files: Vec<String> = files.iter().flat_map(|file| crate::source::desk::cases(file)).collect();
        assert_eq!(in_macro, in_files);
        for number in 1..=17 {
            let prefix = format!("src_{number:02}_");
            assert!(in_files.iter().any(|case| case.starts_with(&prefix)), "SRC-{number:02} has no case");
        }
    }
}
