//! Stopping is a state: what was claimed is settled or released before a relay ends.

use std::time::Duration;

use postrider_core::Fault;
use postrider_core::clock::Instant;
use postrider_core::source::Source;

use crate::engine::Engine;
use crate::lanes::SinkNo;
use crate::relay::{Ended, Summary};

#[derive(Debug, Default)]
pub(crate) struct Ending {
    since: Option<Instant>,
    ended: Ended,
    fault: Option<Fault>,
    purged: bool,
}

impl Ending {
    pub(crate) fn stopping(&self) -> bool {
        self.since.is_some()
    }

    fn begin(&mut self, ended: Ended, now: Instant) {
        if self.since.is_none() {
            self.since = Some(now);
            self.ended = ended;
        }
    }

    /// Nothing is left to do.
    pub(crate) fn empty(&mut self, now: Instant) {
        self.begin(Ended::Empty, now);
    }

    /// Going on would lose or repeat events.
    pub(crate) fn fail(&mut self, fault: Fault, now: Instant) {
        self.begin(Ended::Stopped, now);
        self.fault.get_or_insert(fault);
    }

    /// When the next part of stopping is due: first what is in flight is purged, then the relay ends whatever is left.
    pub(crate) fn next_due(&self, stop_timeout: Duration) -> Option<Instant> {
        let since = self.since?;
        Some(if self.purged { since + stop_timeout } else { since + stop_timeout * 3 / 4 })
    }
}

impl<S: Source> Engine<'_, S> {
    /// Begins to stop: what is not sent goes back.
    pub(crate) fn stop(&mut self) {
        let now = self.now();
        self.ending.begin(Ended::Stopped, now);
    }

    /// Whether the relay is done, after taking the next step towards it.
    pub(crate) fn ended(&mut self) -> bool {
        let now = self.now();
        if let (Some(patience), Some(until)) = (self.relay.settings.until_empty, self.away_until())
            && until <= now
            && !patience.is_zero()
        {
            self.ending.begin(Ended::BrokerAway, now);
        }
        self.abort_overdue(now);
        let Some(since) = self.ending.since else { return false };
        self.give_everything_back();
        let stop_timeout = self.relay.settings.stop_timeout;
        if !self.ending.purged && now >= since + stop_timeout * 3 / 4 {
            self.ending.purged = true;
            for shipment in self.shipments.open.values() {
                shipment.abort.abort();
            }
        }
        let idle = self.claims.is_empty() && !self.claiming && self.shipments.open.is_empty();
        idle || now >= since + stop_timeout
    }

    /// Closes the source and the sinks, and says what was done.
    pub(crate) async fn finish(self) -> Result<Summary, Fault> {
        let Self { relay, claims, ending, mut summary, work, .. } = self;
        drop(work);
        summary.abandoned = claims.iter().map(|(_, claim)| claim.unsettled).sum();
        summary.ended = ending.ended;
        for (_, sink) in &relay.sinks {
            sink.drain(relay.settings.stop_timeout / 4).await;
        }
        // A lease that cannot be given up runs out by itself.
        let _ = relay.source.retire().await;
        match ending.fault {
            Some(fault) => Err(fault),
            None => Ok(summary),
        }
    }

    fn give_everything_back(&mut self) {
        for lane in 0..self.lanes.len() {
            for ticket in std::mem::take(&mut self.lanes[lane].ready) {
                self.give_back(ticket);
            }
        }
        for ticket in self.keys.take_all_waiting() {
            self.decide(ticket, postrider_core::Settlement::Released);
        }
    }

    /// A sink that does not keep its deadline is given up, so that nothing waits for ever.
    fn abort_overdue(&mut self, now: Instant) {
        for shipment in self.shipments.open.values() {
            if shipment.overdue_at <= now {
                shipment.abort.abort();
            }
        }
    }

    /// When a relay that runs until empty gives up on a broker that is away.
    pub(crate) fn away_until(&self) -> Option<Instant> {
        Some(self.away_since? + self.relay.settings.until_empty?)
    }

    /// Whether there is room for another claim. A sliver would make claims of one entry: better to wait until there is some.
    pub(crate) fn has_room(&self) -> bool {
        let bytes_max = self.relay.settings.in_flight_bytes;
        self.claims.is_empty() || bytes_max.saturating_sub(self.claims.bytes()) >= bytes_max / 8
    }

    /// Whether every sink is left alone, so that there is no use in claiming.
    pub(crate) fn all_left_alone(&self) -> bool {
        let now = self.now();
        let mut breakers = self.breakers();
        (0..self.lanes.len()).all(|no| {
            breakers.sink_allowance(SinkNo(no), now).is_some_and(|most| most <= self.lanes[no].ready.len())
        })
    }
}
