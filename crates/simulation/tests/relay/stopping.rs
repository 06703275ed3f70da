//! Stopping is a state (F4).

use std::time::Duration;

use postrider_core::State;
use postrider_core::layout::RetryRuns;
use postrider_relay::Ended;
use postrider_simulation::sink::{Faults, Outage};
use postrider_simulation::source::{OutboxSettings, Way};

use crate::stage::Stage;

const SECOND: Duration = Duration::from_secs(1);
const WAYS: [Way; 4] = [Way::Cursor, Way::Lease, Way::Hold, Way::Log];

/// F4: what is in flight is finished, what is queued is released, and nobody waits for a lease to expire.
#[test]
fn a_stopped_relay_leaves_nothing_behind() {
    for way in WAYS {
        let mut stage = Stage::new(way);
        stage.settings.batch_entries = 5;
        stage.broker.set_faults(Faults { latency_max: SECOND * 4, ..Faults::default() });
        for key in 0..100 {
            stage.append(&format!("k{key}"), "orders");
        }
        let first = stage.start();
        stage.pass(SECOND * 3);
        stage.stop.stop();
        stage.pass(SECOND * 15);
        assert!(!stage.executor.alive(first), "{way:?}: it stops within its time");
        let summary = stage.ended.lock().unwrap().clone().unwrap();
        assert_eq!((summary.ended, summary.abandoned), (Ended::Stopped, 0), "{way:?}");
        assert_eq!(stage.count(State::Leased), 0, "{way:?}: nothing is left in its hands");
        let published = stage.count(State::Published);
        assert_eq!(stage.accepted().len(), published, "{way:?}: what was accepted is settled");
        assert!(published < 100, "{way:?}: there was something left to release");

        stage.broker.set_faults(Faults::default());
        stage.stop = postrider_relay::Stop::new();
        stage.start();
        stage.pass(SECOND);
        assert_eq!(stage.accepted().len(), 100, "{way:?}: the next one starts at once, and repeats nothing");
    }
}

/// F4: a broker that never answers does not keep a relay from stopping; what is in doubt is sent again later.
#[test]
fn a_silent_broker_does_not_hold_up_a_stop() {
    for way in WAYS {
        let mut stage = Stage::new(way);
        stage.settings.publish_deadline = SECOND * 300;
        stage.broker.begin_outage(Outage::whole().silently());
        stage.append("k", "orders");
        let relay = stage.start();
        stage.pass(SECOND);
        stage.stop.stop();
        stage.pass(stage.settings.stop_timeout);
        assert!(!stage.executor.alive(relay), "{way:?}");
        assert_eq!(stage.count(State::Published), 0, "{way:?}");
        assert_eq!(stage.count(State::Pending), 1, "{way:?}");
    }
}

/// `--until-empty`: it ends by itself, and says so when the broker stayed away.
#[test]
fn until_empty_ends_by_itself() {
    let mut stage = Stage::new(Way::Cursor);
    stage.settings.until_empty = Some(SECOND * 10);
    stage.append("k", "orders");
    stage.start();
    stage.pass(SECOND);
    assert_eq!(stage.ended.lock().unwrap().clone().map(|summary| summary.ended), Some(Ended::Empty));
    assert_eq!(stage.accepted().len(), 1);

    let mut stage = Stage::new(Way::Cursor);
    stage.settings.until_empty = Some(SECOND * 10);
    stage.append("k", "orders");
    stage.broker.begin_outage(Outage::whole());
    stage.start();
    stage.pass(SECOND * 9);
    assert!(stage.ended.lock().unwrap().is_none(), "it waits for the broker as long as it was told");
    stage.pass(SECOND * 5);
    assert_eq!(stage.ended.lock().unwrap().clone().map(|summary| summary.ended), Some(Ended::BrokerAway));
    assert_eq!(stage.count(State::Pending), 1);
}

/// B8: what is due and waits for the next run of the retries is waited for, with everything that is parked behind it; what is
/// dead, or not due yet, is left.
#[test]
fn until_empty_waits_for_the_next_run_of_the_retries() {
    let retry_runs = Some(RetryRuns { every: SECOND * 5, entries: 5 });
    let mut stage = Stage::with(OutboxSettings { retry_runs, ..OutboxSettings::default() });
    stage.settings.until_empty = Some(SECOND * 300);
    let events: Vec<String> =
        (0..40).map(|number| stage.append(&format!("k{}-", number % 20), "orders")).collect();
    stage.broker.set_faults(Faults {
        poison: [events[7].clone().into()].into(),
        poison_in_company: true,
        ..Faults::default()
    });
    stage.start();
    stage.pass(SECOND);
    assert!(stage.ended.lock().unwrap().is_none(), "its neighbours are due, and wait for the next run");
    stage.pass(SECOND * 200);
    assert_eq!(stage.ended.lock().unwrap().clone().map(|summary| summary.ended), Some(Ended::Empty));
    assert_eq!((stage.count(State::Published), stage.count(State::Dead)), (38, 1), "one is behind the dead");
    assert_eq!(stage.accepted().len(), 38);
}

/// A topic that came back with fewer events than its trials is no reason to stay.
#[test]
fn until_empty_ends_with_a_circuit_that_is_half_open() {
    let mut stage = Stage::new(Way::Cursor);
    stage.settings.until_empty = Some(SECOND * 300);
    stage.broker.begin_outage(Outage::of_topic("orders"));
    stage.append("a", "orders");
    stage.append("b", "orders");
    stage.start();
    stage.pass(SECOND * 20);
    stage.broker.end_outage(&Outage::of_topic("orders"));
    stage.pass(SECOND * 120);
    assert_eq!(stage.accepted().len(), 2);
    assert_eq!(stage.ended.lock().unwrap().clone().map(|summary| summary.ended), Some(Ended::Empty));
}

/// A relay that stood still past its lease asks for it before it sends anything more: what it had queued, another has sent.
#[test]
fn a_relay_that_was_paused_past_its_lease_sends_nothing_of_what_it_had_queued() {
    for way in [Way::Cursor, Way::Lease, Way::Log] {
        let mut stage = Stage::new(way);
        stage.settings.batch_entries = 4;
        stage.broker.set_faults(Faults { latency_max: SECOND * 4, ..Faults::default() });
        for key in 0..60 {
            stage.append(&format!("k{key}"), "orders");
        }
        let paused = stage.start_as("paused");
        stage.pass(SECOND * 2);
        stage.executor.pause(paused, true);
        stage.broker.set_faults(Faults::default());
        stage.start_as("other");
        stage.pass(SECOND * 30);
        assert_eq!(stage.count(State::Published), 60, "{way:?}: the other took over");
        let before = stage.calls().len();
        stage.executor.pause(paused, false);
        stage.pass(SECOND * 30);
        let late: Vec<_> =
            stage.calls().split_off(before).into_iter().filter(|call| call.relay == "paused").collect();
        assert!(late.is_empty(), "{way:?}: it sent {late:?} under a lease that it had lost");
    }
}
