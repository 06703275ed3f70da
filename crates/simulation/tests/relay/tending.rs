//! The chores, by one instance at a time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use postrider_core::State;
use postrider_core::source::SourceError;
use postrider_relay::{Chore, Stop, Tend};
use postrider_simulation::clock::SimClock;
use postrider_simulation::source::Way;

use crate::stage::Stage;

const SECOND: Duration = Duration::from_secs(1);

/// B9, B17: of several instances one does a chore, at its interval; published entries go when their time is over, others stay.
#[test]
fn one_instance_prunes_and_only_what_is_published() {
    let mut stage = Stage::new(Way::Cursor);
    for key in 0..5 {
        stage.append(&format!("k{key}"), "orders");
    }
    stage.start();
    stage.pass(SECOND);
    assert_eq!(stage.count(State::Published), 5);
    stage.stop.stop();
    stage.pass(SECOND);
    stage.append("late", "orders");

    let turns: Arc<Mutex<Vec<Result<u64, SourceError>>>> = Arc::default();
    for _ in 0..3 {
        let tend = Tend {
            store: Arc::new(stage.outbox.store()),
            chores: Vec::new(),
            clock: Arc::new(SimClock::new(&stage.timeline)),
        };
        let turns = turns.clone();
        stage.executor.start(Box::pin(async move {
            let chore = Chore::Prune { keep: Duration::ZERO };
            let turn = tend.take_turn(&chore, SECOND * 60, &Stop::new()).await;
            turns.lock().unwrap().push(turn);
        }));
    }
    stage.pass(SECOND);
    let mut pruned: Vec<u64> = turns.lock().unwrap().drain(..).map(|turn| turn.unwrap()).collect();
    pruned.sort_unstable();
    assert_eq!(pruned, [0, 0, 5], "one did it, the others found it done");
    assert_eq!((stage.count(State::Published), stage.count(State::Pending)), (0, 1));
}
