//! Brokers that are away, and what that costs.

use std::time::Duration;

use postrider_core::{State, retry};
use postrider_simulation::sink::{Faults, Outage};
use postrider_simulation::source::Way;

use crate::stage::Stage;

const SECOND: Duration = Duration::from_secs(1);
const WAYS: [Way; 4] = [Way::Cursor, Way::Lease, Way::Hold, Way::Log];

/// C3, E3, F8: an outage longer than all retries together costs none of them, by any way of claiming.
#[test]
fn an_outage_longer_than_all_retries_costs_none() {
    for way in WAYS {
        let mut stage = Stage::new(way);
        stage.settings.retry = retry::Policy { retries_max: 1, backoff: retry::Backoff::Steps(vec![SECOND]) };
        for key in 0..40 {
            stage.append(&format!("k{key}"), "orders");
        }
        stage.broker.begin_outage(Outage::whole());
        stage.start();
        stage.pass(SECOND * 3600);
        assert_eq!(stage.count(State::Pending) + stage.count(State::Leased), 40, "{way:?}");
        assert!(stage.outbox.recorded().iter().all(|row| row.retries == 0), "{way:?}");
        stage.broker.end_outage(&Outage::whole());
        stage.pass(SECOND * 60);
        assert_eq!(stage.count(State::Published), 40, "{way:?}");
        assert_eq!(stage.accepted().len(), 40, "{way:?}: an outage that refuses makes no duplicates");
    }
}

/// B7: recovery starts with the breaker's three trials and then doubles.
#[test]
fn recovery_starts_with_the_trials_and_then_grows() {
    let mut stage = Stage::new(Way::Cursor);
    for key in 0..200 {
        stage.append(&format!("k{key}"), "orders");
    }
    stage.broker.begin_outage(Outage::whole());
    stage.start();
    stage.pass(SECOND * 20);
    stage.broker.end_outage(&Outage::whole());
    let before = stage.calls().len();
    stage.pass(SECOND * 60);
    assert_eq!(stage.accepted().len(), 200);
    let sizes: Vec<usize> = stage.calls()[before..].iter().map(|call| call.attempted).collect();
    assert_eq!(sizes[0], 3, "the trials: {sizes:?}");
    assert!(sizes.iter().take(4).zip([3, 3, 6, 12]).all(|(size, most)| *size <= most), "too fast: {sizes:?}");
    // A simulated claim looks at 16 rows at most.
    assert!(sizes[4..sizes.len() - 1].iter().all(|size| *size == 16), "it never got going again: {sizes:?}");
}

/// B7: an open circuit is left alone for its whole time, and only trials go out when it is over.
#[test]
fn an_open_circuit_is_left_alone() {
    let mut stage = Stage::new(Way::Lease);
    for key in 0..100 {
        stage.append(&format!("k{key}"), "orders");
    }
    stage.broker.begin_outage(Outage::whole());
    stage.start();
    stage.pass(SECOND * 5);
    let (opened, _) = (stage.calls().len(), stage.pass(SECOND * 24));
    assert_eq!(stage.calls().len(), opened, "it was asked while it was open");
    stage.pass(SECOND * 60);
    let trials = &stage.calls()[opened..];
    assert!(!trials.is_empty() && trials.iter().all(|call| call.attempted <= 3), "{trials:?}");
    assert!(trials.windows(2).all(|pair| pair[1].at - pair[0].at >= SECOND * 30), "{trials:?}");
}

/// F2: a broken topic holds back only what goes there, and what it held comes in order, once.
#[test]
fn a_broken_topic_holds_back_only_what_goes_there() {
    for way in WAYS {
        let mut stage = Stage::new(way);
        stage.settings.batch_entries = 10;
        stage.broker.begin_outage(Outage::of_topic("payments"));
        let mut payments = Vec::new();
        for number in 0..60 {
            stage.append(&format!("o{number}"), "orders");
            payments.push(stage.append(&format!("p{}", number % 3), "payments"));
        }
        stage.start();
        stage.pass(SECOND * 20);
        assert_eq!(stage.accepted().iter().filter(|event| event.starts_with('o')).count(), 60, "{way:?}");
        stage.broker.end_outage(&Outage::of_topic("payments"));
        stage.pass(SECOND * 120);
        for key in ["p0", "p1", "p2"] {
            let of = |event: &&String| event.starts_with(key);
            let arrived: Vec<_> = stage.accepted().into_iter().filter(|event| of(&event)).collect();
            let written: Vec<_> = payments.iter().filter(of).cloned().collect();
            assert_eq!(arrived, written, "{way:?}: each once, in order");
        }
    }
}

/// F2: a broken topic leaves an entry before every key that goes there. What comes behind, however much, is one range: nothing
/// more is kept one by one, and another topic flows on, after a takeover too.
#[test]
fn rows_behind_a_broken_topic_are_not_kept_one_by_one() {
    let mut stage = Stage::new(Way::Cursor);
    stage.broker.begin_outage(Outage::of_topic("payments"));
    let mut payments = Vec::new();
    let mut relay = stage.start_as("first");
    for (round, name) in ["second", "third", "fourth"].into_iter().enumerate() {
        for number in 0..300 {
            payments.push(stage.append(&format!("p{}-", number % 3), "payments"));
        }
        for number in 0..20 {
            stage.append(&format!("o{number}"), "orders");
        }
        stage.pass(SECOND * 100);
        let orders = stage.accepted().iter().filter(|event| event.starts_with('o')).count();
        assert_eq!(orders, 20 * (round + 1), "the other topic flows on");
        // What was in hand when a trial failed is kept, a simulated claim of 16 rows or two.
        assert!(stage.outbox.exceptions() <= 100, "{} are kept one by one", stage.outbox.exceptions());
        stage.executor.kill(relay);
        relay = stage.start_as(name);
    }
    stage.broker.end_outage(&Outage::of_topic("payments"));
    stage.pass(SECOND * 300);
    for key in ["p0-", "p1-", "p2-"] {
        let of = |event: &&String| event.starts_with(key);
        let arrived: Vec<_> = stage.accepted().into_iter().filter(|event| of(&event)).collect();
        let written: Vec<_> = payments.iter().filter(of).cloned().collect();
        assert_eq!(arrived, written, "each once, in order");
    }
}

/// What was refused in company is sent again in halves, in order, until the culprit stands alone: it dies, nobody else.
#[test]
fn a_company_is_halved_until_the_culprit_stands_alone() {
    let mut stage = Stage::new(Way::Cursor);
    let events: Vec<String> = (0..32).map(|key| stage.append(&format!("k{key}-"), "orders")).collect();
    let culprit = events[21].clone();
    stage.broker.set_faults(Faults {
        poison: [culprit.clone().into()].into(),
        poison_in_company: true,
        ..Faults::default()
    });
    stage.start();
    stage.pass(SECOND * 60);
    assert_eq!(stage.recorded(&culprit).state, State::Dead);
    assert_eq!(stage.count(State::Dead), 1, "only the culprit");
    assert_eq!(stage.count(State::Published), 31);
    assert!(stage.outbox.recorded().iter().all(|row| row.retries == 0), "nobody was blamed for it");
}
