//! What a running relay has in hand. The verbs that change it are in the files named after them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use futures_channel::mpsc;
use futures_util::stream::FuturesUnordered;
use postrider_core::clock::{BoxFuture, Instant};
use postrider_core::plan::{Planner, TopicNo};
use postrider_core::route::Destination;
use postrider_core::source::{Source, SourceFeatures};
use postrider_core::{Fault, Settlement, Verdict};

use crate::breakers::{Breakers, Changed};
use crate::claims::{Claims, Ticket};
use crate::end::Ending;
use crate::keys::Keys;
use crate::lanes::{Lane, SinkNo};
use crate::observe::Step;
use crate::pace::Pace;
use crate::publish::{ShipmentNo, Shipments};
use crate::received::Received;
use crate::relay::{Relay, Summary};
use crate::wake::Woke;

pub(crate) struct Engine<'r, S: Source> {
    pub(crate) relay: &'r Relay<S>,
    pub(crate) features: SourceFeatures,
    pub(crate) planner: Planner<'r>,
    pub(crate) claims: Claims<S::Hold>,
    pub(crate) keys: Keys,
    pub(crate) lanes: Vec<Lane>,
    pub(crate) breakers: Arc<Mutex<Breakers>>,
    pub(crate) shipments: Shipments,
    pub(crate) work: FuturesUnordered<BoxFuture<'r, Woke<S::Hold>>>,
    /// What was done before it was waited for.
    pub(crate) early: VecDeque<Woke<S::Hold>>,
    pub(crate) verdicts: mpsc::UnboundedReceiver<(ShipmentNo, Vec<(usize, Verdict)>)>,
    pub(crate) hand: mpsc::UnboundedSender<(ShipmentNo, Vec<(usize, Verdict)>)>,
    pub(crate) pace: Pace,
    pub(crate) claiming: bool,
    /// Something went back to the source while a claim was under way, which may have been answered before that.
    pub(crate) went_back: bool,
    pub(crate) standby: Option<bool>,
    /// Whether the source's reading is stopped by a limit on what is parked.
    pub(crate) full: bool,
    /// Whether nothing is left but ids that may still commit.
    pub(crate) waits_for_commits: bool,
    pub(crate) waits_for_others: bool,
    /// Since when the broker has given nothing but faults.
    pub(crate) away_since: Option<Instant>,
    pub(crate) received: Received,
    pub(crate) ending: Ending,
    pub(crate) summary: Summary,
    sinks_of_topics: Vec<SinkNo>,
}

impl<'r, S: Source> Engine<'r, S> {
    pub(crate) fn new(relay: &'r Relay<S>) -> Result<Self, Fault> {
        if relay.sinks.is_empty() {
            return Err(Fault::new("configuration", "there is no sink", "add a [[sink]] with a url"));
        }
        let (hand, verdicts) = mpsc::unbounded();
        let lanes = relay.sinks.iter().map(|(_, sink)| Lane::new(sink.features())).collect();
        let breakers =
            Breakers::new(relay.settings.breaker.clone(), relay.sinks.len(), relay.settings.batch_entries);
        Ok(Self {
            relay,
            features: relay.source.features(),
            planner: Planner::new(&relay.router),
            claims: Claims::new(),
            keys: Keys::default(),
            lanes,
            breakers: Arc::new(Mutex::new(breakers)),
            shipments: Shipments::default(),
            work: FuturesUnordered::new(),
            early: VecDeque::new(),
            verdicts,
            hand,
            pace: Pace::new(relay.settings.poll, relay.clock.instant()),
            claiming: false,
            went_back: false,
            standby: None,
            full: false,
            waits_for_commits: false,
            waits_for_others: false,
            away_since: None,
            received: Received::default(),
            ending: Ending::default(),
            summary: Summary::default(),
            sinks_of_topics: Vec::new(),
        })
    }

    /// Takes up work and lets it begin at once: a source that works in a thread of its own is busy from here on.
    pub(crate) fn begin(&mut self, mut work: BoxFuture<'r, Woke<S::Hold>>) {
        match work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => self.work.push(Box::pin(std::future::ready(done))),
            // It is polled again with the engine's own waker before that waits for anything.
            Poll::Pending => self.work.push(work),
        }
    }

    pub(crate) fn now(&self) -> Instant {
        self.relay.clock.instant()
    }

    pub(crate) fn saw(&self, step: &Step<'_>) {
        self.relay.observer.saw(step);
    }

    pub(crate) fn breakers(&self) -> MutexGuard<'_, Breakers> {
        self.breakers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The sink behind a topic; `None` when the route names one that is not configured.
    pub(crate) fn sink_of(&mut self, topic: TopicNo) -> Option<SinkNo> {
        while self.sinks_of_topics.len() <= topic.0 {
            let destination = self.planner.destination(TopicNo(self.sinks_of_topics.len()));
            let sink = self.relay.sinks.iter().position(|(name, _)| *name == destination.sink);
            self.sinks_of_topics.push(SinkNo(sink.unwrap_or(usize::MAX)));
            self.breakers().know(topic);
        }
        Some(self.sinks_of_topics[topic.0]).filter(|sink| sink.0 != usize::MAX)
    }

    pub(crate) fn destination(&self, topic: TopicNo) -> &Destination {
        self.planner.destination(topic)
    }

    pub(crate) fn sink_name(&self, sink: SinkNo) -> &str {
        &self.relay.sinks[sink.0].0
    }

    /// Notes what will be written for an entry, if its claim is still there.
    pub(crate) fn decide(&mut self, ticket: Ticket, settlement: Settlement) {
        self.decide_at(ticket, settlement, self.now());
    }

    /// The same, for whoever has just looked at the clock.
    pub(crate) fn decide_at(&mut self, ticket: Ticket, settlement: Settlement, now: Instant) {
        if let Some(claim) = self.claims.get_mut(ticket.claim) {
            claim.decide(ticket.index, settlement, now);
        }
    }

    /// Gives an entry back unattempted, and with it whatever waits behind it: the source knows when they may come again.
    pub(crate) fn give_back(&mut self, ticket: Ticket) {
        self.decide(ticket, Settlement::Released);
        if let Some(key) = ticket.key {
            for behind in self.keys.break_off(key) {
                self.decide(behind, Settlement::Released);
            }
        }
    }

    /// Says which breakers have changed.
    pub(crate) fn say_circuits(&mut self) {
        let changes = self.breakers().changes(self.now());
        for change in changes {
            match change {
                Changed::Sink(sink, circuit, reason) => {
                    let reason = reason.as_ref().map(|reason| &*reason.0);
                    self.saw(&Step::Circuit { sink: self.sink_name(sink), topic: None, circuit, reason });
                }
                Changed::Topic(topic, circuit, reason) => {
                    let to = self.destination(topic);
                    let reason = reason.as_ref().map(|reason| &*reason.0);
                    self.saw(&Step::Circuit { sink: &to.sink, topic: Some(&to.topic), circuit, reason });
                }
            }
        }
    }
}
