//! The Store suite: what `postrider_core::store::Store` promises, over the same harness as the Source suite.
//!
//! ```ignore
//! postrider_conformance::store_suite!(block_on, Harness::new());
//! ```

pub mod chores;
mod counter;
pub mod reports;
pub mod verbs;

/// Makes a test of every case: `store_suite!(block_on, harness)`, where `block_on` runs a future to its end and `harness` is a
/// [`SourceHarness`](crate::source::SourceHarness), evaluated anew for each case.
#[macro_export]
macro_rules! store_suite {
    ($block_on:path, $harness:expr) => {
        $crate::store_suite! { @ $block_on, $harness,
            verbs::sto_01_depth_counts_each_entry_once
            verbs::sto_01_depth_of_an_empty_outbox_is_zero
            verbs::sto_02_a_filter_chooses_what_it_says
            verbs::sto_02_verbs_choose_what_a_list_shows
            verbs::sto_02_show_tells_what_a_list_tells
            verbs::sto_03_a_dry_run_writes_nothing
            verbs::sto_04_revive_makes_dead_entries_pending
            verbs::sto_05_bury_makes_pending_entries_dead
            verbs::sto_05_bury_leaves_what_is_published_or_held
            chores::sto_06_prune_deletes_old_published_entries_only
            chores::sto_06_prune_works_in_batches
            chores::sto_06_what_was_pruned_disturbs_no_source
            chores::sto_07_reap_gives_back_what_a_dead_holder_left
            chores::sto_07_reap_leaves_what_is_held_or_waiting
            chores::sto_08_a_job_has_one_holder_at_a_time
            chores::sto_08_a_dead_holders_turn_ends
            chores::sto_08_a_late_end_of_turn_changes_nothing
            chores::sto_09_a_running_source_sees_what_was_revived
            chores::sto_09_a_running_source_sees_what_was_buried
            reports::sto_10_a_report_replaces_its_holders_older_one
            reports::sto_10_a_report_is_forgotten_after_a_day
        }
    };
    (@ $block_on:path, $harness:expr, $($part:ident :: $case:ident)+) => {
        $(
            #[test]
            fn $case() {
                let harness = $harness;
                $block_on($crate::store::$part::$case(&harness));
            }
        )+
    };
}

#[cfg(test)]
mod tests {
    /// A case that the macro forgets would never run.
    #[test]
    fn the_macro_names_every_case() {
        let named = |line: &str| line.trim().split_once("::sto_").map(|(_, name)| format!("sto_{name}"));
        let mut in_macro: Vec<String> = include_str!("store.rs").lines().filter_map(named).collect();
        in_macro.retain(|name| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'));
        let files = [
            include_str!("store/verbs.rs"),
            include_str!("store/chores.rs"),
            include_str!("store/reports.rs"),
        ];
        let in_files: Vec<String> = files.iter().flat_map(|file| crate::source::desk::cases(file)).collect();
        assert_eq!(in_macro, in_files);
        for number in 1..=10 {
            let prefix = format!("sto_{number:02}_");
            assert!(in_files.iter().any(|case| case.starts_with(&prefix)), "STO-{number:02} has no case");
        }
    }
}
