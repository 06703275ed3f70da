//! Publish: from the lanes to the sinks.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures_channel::mpsc;
use futures_util::future::{AbortHandle, abortable};
use postrider_core::clock::{Clock, Instant};
use postrider_core::plan::TopicNo;
use postrider_core::sink::{Message, Permit, Verdicts};
use postrider_core::source::Source;
use postrider_core::{Entry, Text, Verdict, point};

use crate::breakers::Breakers;
use crate::claims::{ClaimNo, Ticket};
use crate::engine::Engine;
use crate::keys::KeyNo;
use crate::lanes::SinkNo;
use crate::observe::Step;
use crate::wake::Woke;

/// A publish call's number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ShipmentNo(u64);

#[derive(Debug, Default)]
pub(crate) struct Shipments {
    pub(crate) open: BTreeMap<ShipmentNo, Shipment>,
    next: u64,
}

/// One publish call under way.
#[derive(Debug)]
pub(crate) struct Shipment {
    pub(crate) sink: SinkNo,
    pub(crate) tickets: Vec<Ticket>,
    pub(crate) answered: Vec<bool>,
    pub(crate) receipts: usize,
    /// Verdicts that speak of the broker's faults.
    pub(crate) faults: usize,
    /// Messages that were sent and got no answer.
    pub(crate) unanswered: usize,
    /// Messages of a topic that were refused together.
    pub(crate) companies: HashMap<TopicNo, usize>,
    pub(crate) granted: Arc<[AtomicBool]>,
    /// It was said that an open circuit stopped it.
    pub(crate) halted: bool,
    pub(crate) abort: AbortHandle,
    /// When a sink that does not keep its deadline is given up.
    pub(crate) overdue_at: Instant,
}

/// A ticket and whether its key's stream starts anew with it.
type Loaded = (Ticket, bool);

impl<'r, S: Source> Engine<'r, S> {
    /// Fills every sink that has room.
    pub(crate) fn publish(&mut self) {
        self.say_circuits();
        for sink in (0..self.lanes.len()).map(SinkNo) {
            while self.lanes[sink.0].has_room() && !self.lanes[sink.0].ready.is_empty() {
                let load = self.load(sink);
                if load.is_empty() {
                    break;
                }
                self.ship(sink, load);
            }
        }
    }

    /// Takes from a lane what may go now, in order. What may not go at all goes back to the source.
    fn load(&mut self, sink: SinkNo) -> Vec<Loaded> {
        let now = self.now();
        let calm = self.breakers().calm();
        let allowance = self.breakers().sink_allowance(sink, now);
        if !calm && self.breakers().sink_open(sink, now) {
            self.halt(sink);
            return Vec::new();
        }
        let features = self.lanes[sink.0].features;
        let most = self
            .relay
            .settings
            .batch_entries
            .min(features.batch_entries_max)
            .min(allowance.unwrap_or(usize::MAX));
        let mut load: Vec<Loaded> = Vec::with_capacity(most.min(self.lanes[sink.0].ready.len()));
        let counts_kept = !calm || !self.lanes[sink.0].companies.is_empty();
        let mut aside = Aside { counts_kept, ..Aside::default() };
        while load.len() < most {
            let Some(ticket) = self.lanes[sink.0].ready.pop_front() else { break };
            match self.standing(ticket, now, calm) {
                Standing::Gone => self.decide(ticket, postrider_core::Settlement::Released),
                Standing::Stale => {
                    self.lanes[sink.0].ready.push_front(ticket);
                    break;
                }
                Standing::Broken => self.give_back(ticket),
                Standing::Good if aside.keeps(ticket, self.room(sink, ticket.topic, now, calm)) => {
                    aside.put(ticket)
                }
                Standing::Good => self.load_key(ticket, features.ordered_stream, &mut load, &mut aside, most),
            }
        }
        for ticket in aside.tickets.into_iter().rev() {
            self.lanes[sink.0].ready.push_front(ticket);
        }
        load
    }

    /// Whether a ticket may still be published.
    fn standing(&self, ticket: Ticket, now: Instant, calm: bool) -> Standing {
        match self.claims.get(ticket.claim) {
            None => return Standing::Gone,
            Some(claim) if claim.void => return Standing::Gone,
            // A relay that was paused asks for its lease before it goes on.
            Some(claim) if claim.valid_until <= now => return Standing::Stale,
            Some(_) => {}
        }
        let broken = ticket.key.is_some_and(|key| self.keys.is_broken(key));
        if broken || (!calm && self.breakers().topic_allowance(ticket.topic, now) == Some(0)) {
            return Standing::Broken;
        }
        Standing::Good
    }

    /// Loads a ticket, or lets it wait behind the message of its key that is in flight.
    fn load_key(
        &mut self,
        ticket: Ticket,
        stream: bool,
        load: &mut Vec<Loaded>,
        aside: &mut Aside,
        most: usize,
    ) {
        let Some(number) = ticket.key else {
            aside.count(ticket);
            load.push((ticket, true));
            return;
        };
        let call = ShipmentNo(self.shipments.next);
        let key = self.keys.get_mut(number);
        let in_turn = ticket.next || key.waiting.is_empty();
        // A stream is ordered within one call: what is in flight in another is awaited.
        let free = key.in_flight == 0 || (stream && key.call == (call, ticket.topic));
        if !in_turn || !free {
            key.waiting.push_back(ticket);
            return;
        }
        aside.count(ticket);
        load.push((ticket, key.in_flight == 0));
        key.call = (call, ticket.topic);
        key.in_flight += 1;
        while stream && load.len() < most && self.may_follow(ticket, aside) {
            let Some(behind) = self.keys.get_mut(number).waiting.pop_front() else { break };
            aside.count(behind);
            load.push((behind, false));
            self.keys.get_mut(number).in_flight += 1;
        }
    }

    /// Whether what waits behind a ticket may go in the same call.
    fn may_follow(&mut self, ticket: Ticket, aside: &Aside) -> bool {
        let Some(behind) = ticket.key.and_then(|key| self.keys.get_mut(key).waiting.front().copied()) else {
            return false;
        };
        let (now, calm) = (self.now(), self.breakers().calm());
        let Some(sink) = self.sink_of(behind.topic) else { return false };
        behind.topic == ticket.topic
            && matches!(self.standing(behind, now, calm), Standing::Good)
            && !aside.keeps(behind, self.room(sink, behind.topic, now, calm))
    }

    /// How many messages of a topic may go in one call: while a culprit is sought, and while the topic recovers.
    fn room(&self, sink: SinkNo, topic: TopicNo, now: Instant, calm: bool) -> Option<usize> {
        let company = self.lanes[sink.0].companies.get(&topic).copied();
        let pace = if calm { None } else { self.breakers().topic_allowance(topic, now) };
        company.into_iter().chain(pace).min()
    }

    /// An open circuit: what is queued goes back, so that the position stays at the last entry that was attempted (B7).
    fn halt(&mut self, sink: SinkNo) {
        let queued = std::mem::take(&mut self.lanes[sink.0].ready);
        if let Some(first) = queued.front()
            && let Some(claim) = self.claims.get(first.claim)
        {
            self.saw(&Step::Halted { sink: self.sink_name(sink), at: &claim.entries[first.index].id });
        }
        for ticket in queued {
            self.give_back(ticket);
        }
    }

    fn ship(&mut self, sink: SinkNo, load: Vec<Loaded>) {
        point::pass("planned");
        let number = ShipmentNo(self.shipments.next);
        self.shipments.next += 1;
        let deadline = self.now() + self.relay.settings.publish_deadline;
        let granted: Arc<[AtomicBool]> = load.iter().map(|_| AtomicBool::new(false)).collect();
        let tickets: Vec<Ticket> = load.iter().map(|(ticket, _)| *ticket).collect();
        let permits = Permits {
            breakers: Arc::clone(&self.breakers),
            clock: Arc::clone(&self.relay.clock),
            sink,
            topics: tickets.iter().map(|ticket| ticket.topic).collect(),
            granted: Arc::clone(&granted),
        };
        let cargo = self.cargo(&load);
        let hand = Hand { shipment: number, to: self.hand.clone() };
        let to = Arc::clone(&self.relay.sinks[sink.0].1);
        let (call, abort) = abortable(async move {
            let messages = cargo.messages();
            to.publish(&messages, deadline, &permits, &hand).await;
        });
        self.work.push(Box::pin(async move {
            // An aborted call ends like any other; what it did not answer is judged as unknown.
            let _ = call.await;
            Woke::Published(number)
        }));
        self.lanes[sink.0].calls += 1;
        self.shipments.open.insert(
            number,
            Shipment {
                sink,
                answered: vec![false; tickets.len()],
                tickets,
                receipts: 0,
                faults: 0,
                unanswered: 0,
                companies: HashMap::new(),
                granted,
                halted: false,
                abort,
                overdue_at: deadline + self.relay.settings.publish_deadline / 4,
            },
        );
    }

    /// What a publish call owns: shared batches, and which of their entries go where.
    fn cargo(&self, load: &[Loaded]) -> Cargo {
        let mut cargo =
            Cargo { batches: Vec::new(), topics: Vec::new(), items: Vec::with_capacity(load.len()) };
        let mut batches: Vec<ClaimNo> = Vec::new();
        let mut topics: Vec<TopicNo> = Vec::new();
        for (ticket, leads) in load {
            // Both lists are short, and mostly the last one fits.
            let batch = batches.iter().rposition(|claim| *claim == ticket.claim).unwrap_or_else(|| {
                batches.push(ticket.claim);
                let claim = self.claims.get(ticket.claim).expect("a loaded ticket's claim is open");
                cargo.batches.push(Arc::clone(&claim.entries));
                batches.len() - 1
            });
            let topic = topics.iter().rposition(|topic| *topic == ticket.topic).unwrap_or_else(|| {
                topics.push(ticket.topic);
                cargo.topics.push(self.destination(ticket.topic).topic.clone());
                topics.len() - 1
            });
            cargo.items.push((batch, ticket.index, topic, *leads));
        }
        cargo
    }
}

enum Standing {
    /// Its claim is void.
    Gone,
    /// Its claim's lease may have run out.
    Stale,
    /// Its key broke, or its topic is left alone.
    Broken,
    Good,
}

/// Tickets left for the next call because their company is large enough.
#[derive(Default)]
struct Aside {
    tickets: Vec<Ticket>,
    keys: HashSet<KeyNo>,
    counts: HashMap<TopicNo, usize>,
    /// Whether some topic has limited room, so that it matters how many there are of each.
    counts_kept: bool,
}

impl Aside {
    /// Whether a ticket is left for the next call, because there is no room for it or for one before it.
    fn keeps(&self, ticket: Ticket, room: Option<usize>) -> bool {
        let full = room.is_some_and(|room| self.counts.get(&ticket.topic).copied().unwrap_or(0) >= room);
        full || ticket.key.is_some_and(|key| self.keys.contains(&key))
    }

    fn put(&mut self, ticket: Ticket) {
        self.keys.extend(ticket.key);
        self.tickets.push(ticket);
    }

    fn count(&mut self, ticket: Ticket) {
        if !self.counts_kept {
            return;
        }
        *self.counts.entry(ticket.topic).or_default() += 1;
    }
}

struct Cargo {
    batches: Vec<Arc<Vec<Entry>>>,
    topics: Vec<Text>,
    /// Batch, index in it, topic, whether it leads.
    items: Vec<(usize, usize, usize, bool)>,
}

impl Cargo {
    fn messages(&self) -> Vec<Message<'_>> {
        let message = |&(batch, index, topic, leads): &(usize, usize, usize, bool)| {
            let entry = &self.batches[batch][index];
            Message { envelope: &entry.envelope, topic: &self.topics[topic], key: entry.key.as_ref(), leads }
        };
        self.items.iter().map(message).collect()
    }
}

struct Permits {
    breakers: Arc<Mutex<Breakers>>,
    clock: Arc<dyn Clock>,
    sink: SinkNo,
    topics: Vec<TopicNo>,
    granted: Arc<[AtomicBool]>,
}

impl Permit for Permits {
    fn ask(&self, index: usize) -> bool {
        let mut breakers = self.breakers.lock().unwrap_or_else(PoisonError::into_inner);
        let granted = breakers.calm() || breakers.permit(self.sink, self.topics[index], self.clock.instant());
        self.granted[index].store(granted, Ordering::Relaxed);
        granted
    }
}

struct Hand {
    shipment: ShipmentNo,
    to: mpsc::UnboundedSender<(ShipmentNo, Vec<(usize, Verdict)>)>,
}

impl Verdicts for Hand {
    fn hand(&self, chunk: Vec<(usize, Verdict)>) {
        // The relay is gone only when its future was dropped: a crash.
        let _ = self.to.unbounded_send((self.shipment, chunk));
    }
}
