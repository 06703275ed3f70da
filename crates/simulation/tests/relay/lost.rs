//! What becomes of a claim that is lost after its messages were received.

use std::sync::Arc;
use std::time::Duration;

use postrider_core::State;
use postrider_core::route::Router;
use postrider_core::source::{Ask, Source};
use postrider_simulation::sink::Faults;
use postrider_simulation::source::{Trouble, Way};

use crate::stage::Stage;

const SECOND: Duration = Duration::from_secs(1);

/// F8: a relay that loses its lease after receipts, because the database was away, does not send again what it knows to be
/// received, when it comes again; it settles it.
#[test]
fn what_was_received_of_a_lost_claim_is_settled_and_not_sent_again() {
    for way in [Way::Cursor, Way::Lease] {
        let mut stage = Stage::new(way);
        for key in 0..10 {
            stage.append(&format!("k{key}-"), "orders");
        }
        stage.broker.set_faults(Faults { latency_max: SECOND, ..Faults::default() });
        let one = stage.start_as("one");
        while stage.calls().is_empty() {
            stage.pass(Duration::from_millis(1));
        }
        stage.outbox.set_trouble(Trouble { away: true, ..Trouble::default() });
        stage.pass(SECOND * 3);
        assert_eq!(stage.accepted().len(), 10, "{way:?}: received, and not to be written");
        assert_eq!(stage.count(State::Published), 0, "{way:?}");
        // Somebody else takes the lease when it has run out, and dies at once.
        stage.executor.pause(one, true);
        stage.pass(SECOND * 12);
        stage.outbox.set_trouble(Trouble::default());
        let other = stage.outbox.source("two");
        let two = stage.executor.start(Box::pin(async move {
            let router = Arc::new(Router::new(vec![], "broker", "{domain}"));
            let ask = Ask { entries_max: 1, bytes_max: 1 << 20, holds: Arc::default(), router };
            let claimed = other.claim(&ask).await;
            assert!(claimed.is_ok());
            std::future::pending::<()>().await;
        }));
        stage.pass(SECOND);
        stage.executor.kill(two);
        stage.executor.pause(one, false);
        stage.pass(SECOND * 25);
        assert_eq!(stage.count(State::Published), 10, "{way:?}: settled");
        assert_eq!(stage.accepted().len(), 10, "{way:?}: each was sent once");
    }
}
