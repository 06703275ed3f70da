//! What waits, and for whom.

use std::time::Duration;

use postrider_core::{State, retry};
use postrider_simulation::sink::Faults;
use postrider_simulation::source::Way;

use crate::stage::Stage;

const SECOND: Duration = Duration::from_secs(1);

/// F2: an entry that waits for its retry holds back its own key, and no other.
#[test]
fn a_blocked_key_holds_back_only_itself() {
    for way in [Way::Cursor, Way::Lease, Way::Hold, Way::Log] {
        let mut stage = Stage::new(way);
        stage.settings.batch_entries = 8;
        stage.settings.retry =
            retry::Policy { retries_max: 5, backoff: retry::Backoff::Steps(vec![SECOND * 60]) };
        // A message that always fails for a reason that may pass.
        stage.broker.set_faults(Faults { transient: 1.0, ..Faults::default() });
        let blocked = stage.append("blocked", "orders");
        stage.start();
        stage.pass(SECOND);
        stage.broker.set_faults(Faults::default());
        let behind: Vec<String> = (0..100).map(|_| stage.append("blocked", "orders")).collect();
        for other in 0..50 {
            stage.append(&format!("free{other}-"), "orders");
        }
        stage.pass(SECOND * 10);
        let accepted = stage.accepted();
        assert_eq!(accepted.len(), 50, "{way:?}: the others flow on");
        assert!(accepted.iter().all(|event| event.starts_with("free")), "{way:?}");
        stage.pass(SECOND * 120);
        let arrived: Vec<String> =
            stage.accepted().into_iter().filter(|event| event.starts_with("blocked")).collect();
        let written: Vec<String> = std::iter::once(blocked.clone()).chain(behind).collect();
        assert_eq!(arrived, written, "{way:?}: in order, once");
        assert_eq!(stage.recorded(&blocked).state, State::Published, "{way:?}");
    }
}

/// D4, C3: the first try and `retries_max` further ones, then dead with that count.
#[test]
fn a_message_that_keeps_failing_dies_after_its_retries() {
    for way in [Way::Cursor, Way::Lease, Way::Hold, Way::Log] {
        let mut stage = Stage::new(way);
        let waits = [1, 2, 4, 8, 16].map(Duration::from_secs).to_vec();
        stage.settings.retry = retry::Policy { retries_max: 5, backoff: retry::Backoff::Steps(waits) };
        stage.broker.set_faults(Faults { transient: 1.0, ..Faults::default() });
        let event = stage.append("k", "orders");
        stage.start();
        stage.pass(SECOND * 300);
        let times: Vec<u64> = stage.calls().iter().map(|call| call.at.as_secs()).collect();
        assert_eq!(times, [0, 1, 3, 7, 15, 31], "{way:?}: six tries, at the waits of the policy");
        let row = stage.recorded(&event);
        assert_eq!((row.state, row.retries), (State::Dead, 5), "{way:?}");
    }
}

/// Memory is bounded by bytes, not by how much waits.
#[test]
fn what_is_in_hand_is_bounded_by_bytes() {
    let mut stage = Stage::new(Way::Cursor);
    stage.settings.in_flight_bytes = 4_000;
    for key in 0..300 {
        stage.append(&format!("k{key}"), "orders");
    }
    stage.broker.set_faults(Faults { latency_max: SECOND, ..Faults::default() });
    stage.start();
    let mut most = 0;
    for _ in 0..600 {
        stage.pass(SECOND / 4);
        most = most.max(stage.count(State::Leased));
    }
    assert_eq!(stage.accepted().len(), 300);
    // An entry here counts for some 550 bytes.
    assert!(stage.calls().iter().all(|call| call.events.len() <= 8), "more than the bytes allow");
    assert!(most <= 8, "{most} in hand");
}
