//! The Sink suite over the simulated sink, and what it must keep to when everything fails at once.

#![expect(clippy::unwrap_used, reason = "a test fails by it")]

mod sink;

use std::sync::Arc;
use std::time::Duration;

use postrider_conformance::sink::{SinkHarness, Stored, Trouble};
use postrider_core::clock::Clock;
use postrider_simulation::clock::SimClock;
use postrider_simulation::sink::{Broker, Faults, Outage, SimSink};
use sink::time::{block_on, timeline};

postrider_conformance::sink_suite!(block_on, Harness::new());

struct Harness {
    broker: Broker,
    clock: SimClock,
}

impl Harness {
    fn new() -> Self {
        let clock = SimClock::new(&timeline());
        Self { broker: Broker::new(Arc::new(clock.clone()), 1), clock }
    }
}

impl SinkHarness for Harness {
    type Sink = SimSink;

    async fn open(&self) -> SimSink {
        self.broker.sink("relay")
    }

    async fn stored(&self) -> Vec<Stored> {
        let stored = |record: postrider_simulation::sink::Record| Stored {
            id: record.id.to_string(),
            key: record.key.map(|key| key.id.to_string()),
            bytes: record.bytes_hash.to_le_bytes().to_vec(),
        };
        self.broker.records().into_iter().map(stored).collect()
    }

    fn clock(&self) -> &dyn Clock {
        &self.clock
    }

    async fn pass(&self, span: Duration) {
        self.clock.sleep(span).await;
    }

    fn payload_bytes_max(&self) -> usize {
        postrider_core::limits::PAYLOAD_BYTES
    }

    fn trouble(&self, trouble: Trouble) -> bool {
        match trouble {
            Trouble::Unreachable => self.broker.set_outage(Some(Outage::whole())),
            Trouble::Silence => self.broker.set_outage(Some(Outage::whole().silently())),
            Trouble::ReplyLostAfterWrite => {
                self.broker.set_faults(Faults { reply_lost_after_write: 1.0, ..Faults::default() });
            }
            Trouble::ReplyLostBeforeWrite => {
                self.broker.set_faults(Faults { reply_lost_before_write: 1.0, ..Faults::default() });
            }
        }
        true
    }

    fn mend(&self) {
        self.broker.set_outage(None);
        self.broker.set_faults(Faults::default());
    }
}
