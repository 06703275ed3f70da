//! Applications that write: each locks the aggregates it changes, appends, thinks, and commits or does not.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use postrider_core::Envelope;
use postrider_core::clock::{BoxFuture, Clock};

use crate::chance::Chance;
use crate::evidence::Written;
use crate::scenario::Scenario;
use crate::source::Outbox;
use crate::world::is_poison;

/// What all writers of a world share.
#[derive(Clone, Default)]
pub struct Ledger {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    written: BTreeMap<i64, Written>,
    locked: HashSet<u64>,
    events: u64,
    busy: u64,
    entry_bytes_most: usize,
}

impl Ledger {
    /// Everything that was tried.
    #[must_use]
    pub fn written(&self) -> Vec<Written> {
        self.lock().written.values().cloned().collect()
    }

    /// Whether no writer has anything left to do.
    #[must_use]
    pub fn idle(&self) -> bool {
        self.lock().busy == 0
    }

    /// The largest entry.
    #[must_use]
    pub fn entry_bytes_most(&self) -> usize {
        self.lock().entry_bytes_most
    }

    fn note(&self, id: i64, written: Written, bytes: usize) {
        let mut state = self.lock();
        state.entry_bytes_most = state.entry_bytes_most.max(bytes);
        state.written.insert(id, Written { place: u64::try_from(id).unwrap_or(0), ..written });
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A writer of a world, as a task.
pub fn writer(
    scenario: &Scenario,
    ledger: &Ledger,
    outbox: &Outbox,
    clock: Arc<dyn Clock>,
    mut chance: Chance,
) -> BoxFuture<'static, ()> {
    let (scenario, ledger, outbox) = (scenario.clone(), ledger.clone(), outbox.clone());
    ledger.lock().busy += 1;
    Box::pin(async move {
        let pause = scenario.calm_at.mul_f64(2.0) / u32::try_from(scenario.events).unwrap_or(1).max(1);
        while ledger.lock().events < scenario.events {
            transact(&scenario, &ledger, &outbox, &*clock, &mut chance).await;
            clock.sleep(pause.mul_f64(chance.unit())).await;
        }
        ledger.lock().busy -= 1;
    })
}

async fn transact(
    scenario: &Scenario,
    ledger: &Ledger,
    outbox: &Outbox,
    clock: &dyn Clock,
    chance: &mut Chance,
) {
    let think = scenario.transaction_max.mul_f64(chance.unit() * chance.unit());
    let mut transaction = outbox.begin();
    let mut mine: Vec<(i64, u64)> = Vec::new();
    for _ in 0..chance.between(1, 3) {
        let key = chance.below(scenario.keys);
        let held = mine.iter().any(|(_, other)| *other == key);
        if !held && !ledger.lock().locked.insert(key) {
            continue;
        }
        let written = write(scenario, ledger, chance, key);
        let envelope = envelope(&written, chance);
        let bytes = 512 + envelope.bytes();
        let id = transaction.append(envelope);
        ledger.note(id, written, bytes);
        mine.push((id, key));
        if chance.probability(0.3) {
            clock.sleep(think / 3).await;
        }
    }
    if think > Duration::from_millis(1) {
        clock.sleep(think).await;
    }
    if chance.probability(scenario.rollbacks) {
        drop(transaction);
    } else {
        transaction.commit();
        for (id, _) in &mine {
            if let Some(written) = ledger.lock().written.get_mut(id) {
                written.committed = true;
            }
        }
    }
    for (_, key) in mine {
        ledger.lock().locked.remove(&key);
    }
}

fn write(scenario: &Scenario, ledger: &Ledger, chance: &mut Chance, key: u64) -> Written {
    let mut state = ledger.lock();
    state.events += 1;
    Written {
        event: format!("e{}", state.events),
        key: format!("k{key}"),
        topic: format!("t{}", chance.below(scenario.topics as u64)),
        place: 0,
        committed: false,
        poison: is_poison(scenario, state.events),
    }
}

fn envelope(written: &Written, chance: &mut Chance) -> Envelope {
    let padding = "x".repeat(usize::try_from(chance.below(400)).unwrap_or(0));
    Envelope {
        id: written.event.as_str().into(),
        source: "/simulation".into(),
        event_type: format!("sim.{}.happened.v1", written.topic).into(),
        time: jiff::Timestamp::UNIX_EPOCH,
        content_type: None,
        aggregate_type: "K".into(),
        aggregate_id: written.key.as_str().into(),
        partition_key: None,
        sequence: None,
        trace: None,
        extensions: BTreeMap::new(),
        data: Bytes::from(format!("{{\"event\":\"{}\",\"padding\":\"{padding}\"}}", written.event)),
    }
}
