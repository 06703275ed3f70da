//! The real relay in a simulated world: a few hundred seeds here, ten thousand in `cargo xtask soak`.

use std::collections::BTreeSet;

use postrider_simulation::checkers;
use postrider_simulation::evidence::Evidence;
use postrider_simulation::scenario::{Faults, Scenario};
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
    let seed = std::env::var("POSTRIDER_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
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

/// A checker, and what it must notice.
type Tampering<'a> = (&'a str, &'a dyn Fn(&mut Evidence));

/// Every checker notices when an honest world's evidence is tampered with.
#[test]
fn every_checker_notices_tampered_evidence() {
    let honest = (0..).map(|seed| live(&Scenario::draw(seed), Way::Cursor, None)).find(|evidence| {
        let scenario = &evidence.scenario;
        let calm = scenario.blows.is_empty() && scenario.faults == Faults::default();
        calm && scenario.poison == 0.0 && scenario.transient == 0.0 && evidence.accepted.len() > 20
    });
    let honest = honest.expect("one world in some is calm");
    assert!(checkers::faults(&honest).is_empty());
    let first = honest.accepted[0].event.clone();
    let tamper: [Tampering<'_>; 9] = [
        ("no_loss", &|evidence| {
            evidence.accepted.remove(0);
            evidence.stored.remove(&first);
        }),
        ("no_loss", &|evidence| evidence.written.iter_mut().for_each(|written| written.committed = false)),
        ("key_order", &|evidence| evidence.accepted.reverse()),
        ("single_holder", &|evidence| evidence.overlaps.push("two had it".into())),
        ("no_false_receipt", &|evidence| drop(evidence.accepted.remove(0))),
        ("retries_bounded", &|evidence| {
            let most = evidence.scenario.retry.retries_max;
            evidence.stored.get_mut(&first).expect("it is stored").retries = most + 1;
        }),
        ("outage_costs_no_retry", &|evidence| {
            evidence.stored.get_mut(&first).expect("it is stored").retries = 1;
        }),
        ("bounded_memory", &|evidence| evidence.bytes_held_most = usize::MAX),
        ("duplicates_explained", &|evidence| evidence.accepted.push(evidence.accepted[0].clone())),
    ];
    for (checker, tamper) in tamper {
        let mut evidence = honest.clone();
        tamper(&mut evidence);
        let faults = checkers::faults(&evidence);
        assert!(faults.iter().any(|fault| fault.starts_with(checker)), "{checker} was silent: {faults:?}");
    }
    let unfinished = Evidence { finished: false, ..honest };
    assert!(checkers::faults(&unfinished).iter().any(|fault| fault.starts_with("liveness")));
}
