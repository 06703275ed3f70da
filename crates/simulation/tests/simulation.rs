//! The real relay in a simulated world: a few hundred seeds here, ten thousand in `cargo xtask soak`.

use std::collections::BTreeSet;

use postrider_simulation::checkers;
use postrider_simulation::scenario::Scenario;
use postrider_simulation::source::{Flaw, Way};
use postrider_simulation::witness::Lie;
use postrider_simulation::world::{Broken, live, live_traced};

const WAYS: [Way; 4] = [Way::Cursor, Way::Lease, Way::Hold, Way::Log];

/// Seeds per run: `POSTRIDER_SEEDS` sets it.
fn seeds() -> u64 {
    std::env::var("POSTRIDER_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(300)
}

/// The way is a part of the seed, so that one number replays a world.
fn way(seed: u64) -> Way {
    WAYS[usize::try_from(seed % 4).expect("a small number")]
}

/// F2, F8, B10, E3: nothing is lost, nothing is invented, every key in order, whatever happens.
#[test]
fn every_seed_keeps_every_promise() {
    let first: u64 =
        std::env::var("POSTRIDER_FIRST_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    for seed in first..first + seeds() {
        let evidence = live(&Scenario::draw(seed), way(seed), None);
        let faults = checkers::faults(&evidence);
        assert!(
            faults.is_empty(),
            "seed {seed} ({:?}) broke a promise:\n  {}\nreplay it with: cargo xtask sim {seed}",
            way(seed),
            faults.join("\n  ")
        );
    }
}

/// `cargo xtask sim SEED`: one world, with what it was and what became of it.
#[test]
fn replay() {
    let Some(seed) = std::env::var("POSTRIDER_SEED").ok().and_then(|text| text.parse().ok()) else { return };
    let scenario = Scenario::draw(seed);
    println!("{:?}\n{scenario:#?}", way(seed));
    let evidence = live_traced(&scenario, way(seed));
    evidence.steps.iter().for_each(|step| println!("{step}"));
    println!(
        "{} events written, {} accepted, finished: {}",
        evidence.written.len(),
        evidence.accepted.len(),
        evidence.finished
    );
    let faults = checkers::faults(&evidence);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The same seed gives the same world, to the last record.
#[test]
fn a_seed_can_be_repeated() {
    for seed in 0..20 {
        let scenario = Scenario::draw(seed);
        let (one, other) = (live(&scenario, way(seed), None), live(&scenario, way(seed), None));
        assert_eq!(one.accepted, other.accepted, "seed {seed}");
        assert_eq!(one.stored, other.stored, "seed {seed}");
    }
}

/// A broken relay must be noticed by the right checker, within a number of seeds.
fn assert_noticed(broken: Broken, way: Way, by: &str) {
    let mut others = BTreeSet::new();
    for seed in 0..200 {
        let evidence = live(&Scenario::draw(seed), way, Some(broken));
        for fault in checkers::faults(&evidence) {
            if fault.starts_with(by) {
                return;
            }
            others.extend(fault.split(':').next().map(str::to_string));
        }
    }
    panic!("{broken:?} was not noticed by {by}, only by {others:?}");
}

#[test]
fn settling_before_the_receipt_is_noticed() {
    assert_noticed(Broken::Belief(Lie::SettledBeforeReceipt), Way::Cursor, "no_false_receipt");
}

#[test]
fn unknown_taken_for_success_is_noticed() {
    assert_noticed(Broken::Belief(Lie::UnknownIsSuccess), Way::Lease, "no_false_receipt");
}

#[test]
fn an_outage_that_uses_up_retries_is_noticed() {
    assert_noticed(Broken::Belief(Lie::OutageCounts), Way::Cursor, "outage_costs_no_retry");
}

#[test]
fn a_release_that_is_forgotten_is_noticed() {
    assert_noticed(Broken::Source(Flaw::ReleaseForgotten), Way::Lease, "liveness");
}

#[test]
fn a_stale_settle_is_noticed() {
    assert_noticed(Broken::Source(Flaw::StaleSettle), Way::Lease, "single_holder");
}

#[test]
fn a_retry_that_overtakes_its_key_is_noticed() {
    assert_noticed(Broken::Source(Flaw::RetryOvertakes), Way::Lease, "key_order");
}

#[test]
fn forgotten_gaps_are_noticed() {
    assert_noticed(Broken::Source(Flaw::GapsForgotten), Way::Cursor, "no_loss");
}

#[test]
fn gaps_that_are_not_persisted_are_noticed() {
    assert_noticed(Broken::Source(Flaw::GapsNotPersisted), Way::Cursor, "no_loss");
}

#[test]
fn gaps_closed_too_early_are_noticed() {
    assert_noticed(Broken::Source(Flaw::GapsClosedTooEarly), Way::Cursor, "no_loss");
}
