//! The intervals of the teams on MySQL at their true lengths: the real relay, set as their layouts have it, on simulated time.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use postrider_core::layout::OnDead;
use postrider_core::{Layout, State};
use postrider_relay::{Chore, Settings, Stop, Tend};
use postrider_simulation::clock::SimClock;
use postrider_simulation::sink::{Faults, Outage};
use postrider_simulation::source::{OutboxSettings, Way};

use crate::stage::Stage;

const SECOND: Duration = Duration::from_secs(1);
/// What a look, a claim and a publish take at most.
const SOON: Duration = Duration::from_millis(500);

fn stage(name: &str) -> (Stage, Layout) {
    let layout = Layout::built_in(name).unwrap();
    let ordered = layout.order == postrider_core::layout::Order::Key;
    let hold_dead = layout.on_dead == OnDead::Hold;
    let mut stage =
        Stage::with(OutboxSettings { way: Way::Lease, ordered, hold_dead, ..OutboxSettings::default() });
    stage.settings = Settings::of(&layout);
    (stage, layout)
}

/// How long after an append at an odd moment the relay comes, over several of them.
fn comes_at_its_interval(name: &str, interval: Duration) {
    let (mut stage, _) = stage(name);
    stage.start();
    stage.pass(interval / 2);
    for turn in 0..5 {
        stage.append(&format!("k{turn}-"), "orders");
        let before = stage.calls().len();
        stage.pass(interval / 2 - SOON);
        assert_eq!(stage.calls().len(), before, "{name}: it came before its time");
        stage.pass(SOON * 2);
        assert_eq!(stage.calls().len(), before + 1, "{name}: it did not come in time");
        stage.pass(interval / 2 - SOON);
    }
    assert_eq!(stage.count(State::Published), 5);
}

/// A5: Donation's table is looked at every 10 s.
#[test]
fn a5_donation_is_looked_at_every_ten_seconds() {
    comes_at_its_interval("donation", SECOND * 10);
}

/// E3: Ledger's table is looked at every 2 s.
#[test]
fn e3_ledger_is_looked_at_every_two_seconds() {
    comes_at_its_interval("ledger", SECOND * 2);
}

/// Tries of a message that fails each time: after each wait, at the next look behind it, and then no more.
fn tries_are_this_far_apart(name: &str, waits: &[u64]) {
    let (mut stage, layout) = stage(name);
    let look = match stage.settings.poll {
        postrider_relay::Poll::Every(span) => span,
        other => panic!("{name} has no interval of its own: {other:?}"),
    };
    stage.broker.set_faults(Faults { transient: 1.0, ..Faults::default() });
    let event = stage.append("k", "orders");
    stage.start();
    stage.pass(SECOND * 3600);
    let tries: Vec<Duration> = stage.calls().iter().map(|call| call.at).collect();
    assert_eq!(tries.len(), waits.len() + 1, "{name}: the first try and so many further ones");
    for (pair, wait) in tries.windows(2).zip(waits) {
        let (apart, wait) = (pair[1] - pair[0], Duration::from_secs(*wait));
        assert!(apart >= wait && apart <= wait + look + SOON, "{name}: {apart:?} instead of {wait:?}");
    }
    let row = stage.recorded(&event);
    assert_eq!((row.state, row.retries as usize), (State::Dead, waits.len()), "{name}");
    assert_eq!(layout.retry.retries_max as usize, waits.len());
}

/// A8: the next try after 30, 60 and 120 s, then DEAD_LETTER with three retries.
#[test]
fn a8_donations_tries_are_30_60_and_120_seconds_apart() {
    tries_are_this_far_apart("donation", &[30, 60, 120]);
}

/// E3: five retries two seconds apart, then FAILED with five.
#[test]
fn e3_ledgers_tries_are_two_seconds_apart() {
    tries_are_this_far_apart("ledger", &[2, 2, 2, 2, 2]);
}

/// A8: where a row asks for more, 240 s and on: twice as long each time.
#[test]
fn a8_a_row_with_more_retries_waits_twice_as_long_each_time() {
    let layout = Layout::built_in("donation").unwrap();
    let waits: Vec<u64> = (1..=9).map(|nth| layout.retry.backoff.wait(nth, 0.5).as_secs()).collect();
    assert_eq!(waits, [30, 60, 120, 240, 480, 960, 1920, 3840, 7680]);
}

/// E3: an outage of the broker that is far longer than all five retries together costs none of them.
#[test]
fn e3_an_outage_costs_no_attempt() {
    let (mut stage, _) = stage("ledger");
    for key in 0..20 {
        stage.append(&format!("account-{key}-"), "orders");
    }
    stage.broker.begin_outage(Outage::whole());
    stage.start();
    stage.pass(SECOND * 600);
    assert!(stage.outbox.recorded().iter().all(|row| row.retries == 0 && row.state != State::Dead));
    stage.broker.end_outage(&Outage::whole());
    stage.pass(SECOND * 120);
    assert_eq!(stage.count(State::Published), 20);
}

/// A9: every five minutes somebody looks for what a dead relay left, and gives it back.
#[test]
fn a9_what_a_dead_relay_left_goes_back_every_five_minutes() {
    let (mut stage, layout) = stage("donation");
    let every = layout.stalled.unwrap();
    assert_eq!(every, SECOND * 300);
    // Nothing is left behind yet.
    assert_eq!(reaped(&mut stage, every), 0);
    stage.append("k", "orders");
    stage.broker.set_faults(Faults { slow: 1.0, slow_max: SECOND * 20, ..Faults::default() });
    let relay = stage.start();
    while stage.calls().is_empty() {
        stage.pass(Duration::from_millis(10));
    }
    stage.executor.kill(relay);
    stage.pass(every - SECOND * 10);
    assert_eq!(reaped(&mut stage, every), 0, "its time has not come");
    stage.pass(SECOND * 10);
    assert_eq!(reaped(&mut stage, every), 1);
    assert_eq!(reaped(&mut stage, every), 0, "and then it has not, again");
}

/// What one turn of the chore gives back, if it is due; it takes a second.
fn reaped(stage: &mut Stage, every: Duration) -> u64 {
    let (done, store) = (Arc::new(Mutex::new(None)), Arc::new(stage.outbox.store()));
    let tend = Tend { store, chores: Vec::new(), clock: Arc::new(SimClock::new(&stage.timeline)) };
    let turn = done.clone();
    stage.executor.start(Box::pin(async move {
        let reaped = tend.take_turn(&Chore::Reap, every, &Stop::new()).await;
        *turn.lock().unwrap() = Some(reaped.unwrap());
    }));
    stage.pass(SECOND);
    done.lock().unwrap().expect("it is done within a second")
}
