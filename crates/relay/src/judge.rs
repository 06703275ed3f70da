//! Judge: from verdicts to settlements.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use postrider_core::clock::Instant;
use postrider_core::judge::{Judgement, Signal, judge};
use postrider_core::source::Source;
use postrider_core::verdict::{Reason, Rejection, Scope, Silence};
use postrider_core::{Refusal, Settlement, Verdict, point};

use crate::claims::Ticket;
use crate::engine::Engine;
use crate::lanes::SinkNo;
use crate::observe::Step;
use crate::publish::{Shipment, ShipmentNo};

impl<S: Source> Engine<'_, S> {
    /// Takes in verdicts as they arrive.
    pub(crate) fn judge(&mut self, number: ShipmentNo, verdicts: Vec<(usize, Verdict)>) {
        // Out of the map while it is judged, so that the engine's other parts can change.
        let Some(mut shipment) = self.shipments.open.remove(&number) else { return };
        let now = self.now();
        for (index, verdict) in verdicts {
            self.judge_one(&mut shipment, index, verdict, now);
        }
        self.shipments.open.insert(number, shipment);
        self.say_circuits();
        point::pass("judged");
    }

    fn judge_one(&mut self, shipment: &mut Shipment, index: usize, mut verdict: Verdict, now: Instant) {
        let Some(answered) = shipment.answered.get_mut(index) else { return };
        if std::mem::replace(answered, true) {
            return;
        }
        let ticket = shipment.tickets[index];
        if let Verdict::Refusal(Refusal::Rejected(Rejection { in_company, .. })) = &mut verdict
            && *in_company
        {
            // Whoever was sent alone has no company to hide in.
            *in_company = shipment.tickets.iter().filter(|other| other.topic == ticket.topic).count() > 1;
            *shipment.companies.entry(ticket.topic).or_default() += usize::from(*in_company);
        }
        if let Verdict::Refusal(Refusal::Unknown(Silence::Broker { .. })) = &verdict {
            shipment.unanswered += 1;
        }
        match &verdict {
            Verdict::Receipt => shipment.receipts += 1,
            Verdict::Refusal(Refusal::Busy { .. } | Refusal::Unknown(Silence::Broker { .. })) => {
                shipment.faults += 1
            }
            Verdict::Refusal(_) => {}
        }
        let granted = shipment.granted[index].load(Ordering::Relaxed);
        if !granted && !shipment.halted && verdict == Verdict::Refusal(Refusal::Withheld) {
            shipment.halted = self.stopped_at(shipment.sink, ticket, now);
        }
        let sink = granted.then_some(shipment.sink);
        self.settle_verdict(ticket, sink, &verdict, now);
        self.answer_key(ticket, verdict == Verdict::Receipt);
    }

    /// Says where an open circuit stopped a batch that was under way (B18); whether one did.
    fn stopped_at(&mut self, sink: SinkNo, ticket: Ticket, now: Instant) -> bool {
        let open = self.breakers().sink_open(sink, now);
        if open && let Some(claim) = self.claims.get(ticket.claim) {
            self.saw(&Step::Halted { sink: self.sink_name(sink), at: &claim.entries[ticket.index].id });
        }
        open
    }

    /// `told` is the sink whose breakers hear of it: they gave the permit.
    fn settle_verdict(&mut self, ticket: Ticket, told: Option<SinkNo>, verdict: &Verdict, now: Instant) {
        let Some(claim) = self.claims.get(ticket.claim) else { return };
        let entry = &claim.entries[ticket.index];
        let chance = match verdict {
            Verdict::Receipt => 0.0,
            Verdict::Refusal(_) => (self.relay.chance.lock().unwrap_or_else(PoisonError::into_inner))(),
        };
        let Judgement { mut settlement, mut signal } =
            judge(entry, verdict, &self.relay.settings.retry, chance);
        if let Verdict::Refusal(Refusal::Busy { scope: Scope::Partition, reason }) = verdict {
            // Its keys wait as long as behind a breaker of its own. The topic's would let nothing through but trials, and the
            // trials would be these entries, over and over: one partition would hold the others.
            let after = self.relay.settings.breaker.open;
            settlement = Settlement::Postponed { after, reason: reason.clone() };
            signal = Signal::Silent;
            self.away_since.get_or_insert(now);
        }
        let to = self.destination(ticket.topic);
        match verdict {
            Verdict::Receipt => self.saw(&Step::Published { entry, to }),
            Verdict::Refusal(refusal) => {
                self.saw(&Step::Refused { entry, to, refusal, settlement: &settlement });
                if let Settlement::Dead { reason, .. } = &settlement {
                    self.saw(&Step::Buried { entry, reason: &reason.0 });
                }
            }
        }
        if let Some(sink) = told {
            self.breakers().tell(sink, ticket.topic, signal, now);
        }
        match (signal, verdict) {
            (Signal::Success, _) => self.away_since = None,
            (Signal::Failure(scope), Verdict::Refusal(refusal)) => {
                self.away_since.get_or_insert(now);
                if let Some(sink) = told {
                    self.breakers().blame(sink, ticket.topic, scope, &refusal.reason());
                }
            }
            _ => {}
        }
        if *verdict == Verdict::Receipt && self.claims.get(ticket.claim).is_some_and(|claim| claim.void) {
            self.keep_received(ticket.claim, &[(ticket.index, Settlement::Published)]);
        }
        self.decide_at(ticket, settlement, now);
    }

    /// Lets a key go on behind a receipt, and gives back what waits behind anything else.
    fn answer_key(&mut self, ticket: Ticket, receipt: bool) {
        let Some(number) = ticket.key else { return };
        let key = self.keys.get_mut(number);
        key.in_flight -= 1;
        if !receipt {
            for behind in self.keys.break_off(number) {
                self.decide(behind, Settlement::Released);
            }
        } else if key.in_flight == 0
            && let Some(next) = key.waiting.pop_front()
        {
            let sink = self.sink_of(next.topic).expect("a waiting ticket's sink is known");
            self.lanes[sink.0].ready.push_front(Ticket { next: true, ..next });
        }
    }

    /// A publish call is over. What it left unanswered is unknown.
    pub(crate) fn published(&mut self, number: ShipmentNo) {
        while let Ok((answered, verdicts)) = self.verdicts.try_recv() {
            self.judge(answered, verdicts);
        }
        let Some(mut shipment) = self.shipments.open.remove(&number) else { return };
        let silent: Vec<usize> =
            (0..shipment.answered.len()).filter(|index| !shipment.answered[*index]).collect();
        let now = self.now();
        for index in silent {
            let verdict = if self.ending.stopping() {
                Silence::Purged
            } else {
                Silence::Broker {
                    scope: Scope::Sink,
                    reason: Reason::new("the sink gave no answer by its deadline"),
                }
            };
            self.judge_one(&mut shipment, index, Verdict::Refusal(Refusal::Unknown(verdict)), now);
        }
        if shipment.unanswered > 0 {
            self.saw(&Step::Overdue { sink: self.sink_name(shipment.sink), entries: shipment.unanswered });
        }
        let lane = &mut self.lanes[shipment.sink.0];
        lane.calls -= 1;
        let mut topics: Vec<_> = shipment.tickets.iter().map(|ticket| ticket.topic).collect();
        topics.dedup();
        for topic in &topics {
            match shipment.companies.get(topic) {
                Some(company) if *company > 0 => lane.halve(*topic, *company),
                _ => lane.grow(*topic, self.relay.settings.batch_entries),
            }
        }
        if shipment.receipts > 0 && shipment.faults == 0 {
            self.breakers().went_well(shipment.sink, &topics);
        }
        self.say_circuits();
    }
}
