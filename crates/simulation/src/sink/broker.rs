//! The broker: a log that several relays' sinks write to, and the faults that befall them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use postrider_core::clock::{Clock, Instant};
use postrider_core::{Key, Text};

use super::faults::{Faults, Outage, Settings};
use crate::chance::Chance;
use crate::sink::SimSink;

/// A broker in memory. Clones are the same broker.
#[derive(Clone)]
pub struct Broker {
    shared: Arc<Shared>,
}

struct Shared {
    clock: Arc<dyn Clock>,
    settings: Settings,
    state: Mutex<State>,
}

pub(super) struct State {
    pub(super) chance: Chance,
    pub(super) faults: Faults,
    pub(super) outages: Vec<Outage>,
    pub(super) log: Vec<Record>,
}

/// One message that was durably accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The event.
    pub id: Text,
    /// Its key.
    pub key: Option<Key>,
    /// Where it went.
    pub topic: Text,
    /// Where within the topic.
    pub partition: u32,
    /// Whose sink wrote it.
    pub relay: Text,
    /// When, on the monotonic clock.
    pub at: Instant,
    /// A digest of the bytes that a consumer would read.
    pub bytes_hash: u64,
    /// When the receipt for this very write was handed over; none when its answer was lost.
    pub receipt_at: Option<Instant>,
}

impl Broker {
    /// An empty broker without faults.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, seed: u64) -> Self {
        Self::with_settings(clock, seed, Settings::default())
    }

    /// The same with other settings.
    #[must_use]
    pub fn with_settings(clock: Arc<dyn Clock>, seed: u64, settings: Settings) -> Self {
        let state = State {
            chance: Chance::new(seed),
            faults: Faults::default(),
            outages: Vec::new(),
            log: Vec::new(),
        };
        Self { shared: Arc::new(Shared { clock, settings, state: Mutex::new(state) }) }
    }

    /// A sink for one relay. A relay that starts again needs a new one: what a sink remembers dies with its process.
    pub fn sink(&self, relay: impl Into<Text>) -> SimSink {
        SimSink::new(self.clone(), relay.into())
    }

    /// Sets the faults from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.state().faults = faults;
    }

    /// Ends every outage, and begins this one, if any.
    pub fn set_outage(&self, outage: Option<Outage>) {
        self.state().outages = Vec::from_iter(outage);
    }

    /// Begins an outage beside others.
    pub fn begin_outage(&self, outage: Outage) {
        self.state().outages.push(outage);
    }

    /// Ends one outage that was begun like this.
    pub fn end_outage(&self, outage: &Outage) {
        let mut state = self.state();
        if let Some(index) = state.outages.iter().position(|other| other == outage) {
            state.outages.remove(index);
        }
    }

    /// Everything that was accepted, in the order in which it was.
    #[must_use]
    pub fn records(&self) -> Vec<Record> {
        self.state().log.clone()
    }

    /// The same without a copy.
    pub fn with_records<T>(&self, look: impl FnOnce(&[Record]) -> T) -> T {
        look(&self.state().log)
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    pub(super) fn clock(&self) -> &dyn Clock {
        &*self.shared.clock
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The outage that strikes a topic, and whether it is silent.
    pub(super) fn outage(&self, topic: &str) -> Option<&Outage> {
        self.outages.iter().find(|outage| outage.strikes(topic))
    }
}
