//! Claim and plan: from the source to the lanes.

use std::sync::Arc;

use postrider_core::clock::Instant;
use postrider_core::limits::CLAIMS_OPEN_MAX;
use postrider_core::plan::{Plan, TopicNo};
use postrider_core::route::Holds;
use postrider_core::source::{Ask, Claim, Claimed, Idle, Source, SourceError};
use postrider_core::verdict::Reason;
use postrider_core::{Settlement, point};

use crate::claims::{ClaimNo, Ticket};
use crate::engine::Engine;
use crate::keys::KeyNo;
use crate::lanes::SinkNo;
use crate::observe::Step;
use crate::wake::Woke;

/// What came of a claim.
pub(crate) struct ClaimAnswer<H> {
    result: Result<Claimed<H>, SourceError>,
    /// When it was asked: a lease runs from then at the latest.
    asked_at: Instant,
    /// Whether anything was held: then an empty answer does not mean an empty outbox.
    held: bool,
}

impl<'r, S: Source> Engine<'r, S> {
    /// Asks the source for more, if it is time and there is room.
    pub(crate) fn claim(&mut self) {
        let asked_at = self.now();
        let due = self.pace.next() <= asked_at;
        if !due || self.claiming || self.ending.stopping() || self.claims.len() >= CLAIMS_OPEN_MAX {
            return;
        }
        if !self.has_room() {
            return;
        }
        let bytes_max = self.relay.settings.in_flight_bytes.saturating_sub(self.claims.bytes());
        let Some(ask) = self.ask(asked_at, bytes_max) else { return };
        self.claiming = true;
        let source = &self.relay.source;
        self.begin(Box::pin(async move {
            // A destination that takes a few entries and was given none has none to take.
            let Holds { keys, allowances, sink_allowances, .. } = &*ask.holds;
            let held = !keys.is_empty()
                || allowances.values().chain(sink_allowances.values()).any(|most| *most == 0);
            Woke::Claimed(ClaimAnswer { result: source.claim(&ask).await, asked_at, held })
        }));
    }

    /// What to ask for; nothing while every sink is left alone.
    fn ask(&self, now: Instant, bytes_max: usize) -> Option<Ask> {
        let mut entries_max = self.relay.settings.batch_entries;
        let mut holds = Holds::default();
        holds.keys.extend(self.keys.held().cloned());
        let ask = |entries_max, holds| Ask {
            entries_max,
            bytes_max,
            holds: Arc::new(holds),
            router: Arc::clone(&self.relay.router),
        };
        let mut breakers = self.breakers();
        if breakers.calm() {
            return Some(ask(entries_max, holds));
        }
        let mut closed_sinks = 0;
        for (no, lane) in self.lanes.iter().enumerate() {
            match breakers.sink_allowance(SinkNo(no), now).map(|most| most.saturating_sub(lane.ready.len())) {
                Some(0) => closed_sinks += 1,
                // With one sink the claim itself is small: nothing has to be passed by.
                Some(most) if self.lanes.len() == 1 => entries_max = entries_max.min(most),
                _ => {}
            }
            let trials = breakers.sink_trials(SinkNo(no), now);
            holds.all_on_trial = trials.is_some() && self.lanes.len() == 1;
            if let Some(trials) = trials.filter(|_| self.lanes.len() > 1) {
                let left = trials.saturating_sub(lane.ready.len());
                holds
                    .sink_allowances
                    .insert(self.relay.sinks[no].0.clone(), u32::try_from(left).unwrap_or(u32::MAX));
            }
        }
        if closed_sinks == self.lanes.len() {
            return None;
        }
        for topic in breakers.topics() {
            if let Some(trials) = breakers.topic_trials(topic, now) {
                let queued = self
                    .lanes
                    .iter()
                    .flat_map(|lane| &lane.ready)
                    .filter(|ticket| ticket.topic == topic)
                    .count();
                let left = u32::try_from(trials.saturating_sub(queued)).unwrap_or(u32::MAX);
                holds.allowances.insert(self.planner.destination(topic).clone(), left);
            }
        }
        Some(ask(entries_max, holds))
    }

    /// Takes in what the source answered, and asks it for more: it reads on while these entries are planned and published.
    pub(crate) fn claimed(&mut self, answer: ClaimAnswer<S::Hold>) -> Option<ClaimNo> {
        self.claiming = false;
        let opened = self.take_answer(answer);
        // What is tried is counted first.
        if self.breakers().calm() {
            self.claim();
        }
        opened
    }

    /// Decides where each claimed entry goes, and whether it may go at all.
    pub(crate) fn plan(&mut self, opened: Option<ClaimNo>) {
        if let Some(claim) = opened {
            self.plan_entries(claim);
        }
        self.keys.let_go();
    }

    fn take_answer(&mut self, answer: ClaimAnswer<S::Hold>) -> Option<ClaimNo> {
        let now = self.now();
        let went_back = std::mem::take(&mut self.went_back);
        let claimed = match answer.result {
            Ok(claimed) => claimed,
            Err(error) => {
                self.claim_failed(error);
                return None;
            }
        };
        if self.pace.back() {
            self.saw(&Step::SourceBack);
        }
        let standby = matches!(claimed, Claimed::Standby);
        if self.standby.replace(standby).unwrap_or(false) != standby {
            self.saw(&Step::Standby(standby));
        }
        match claimed {
            Claimed::Batch(claim) => {
                self.wait_for_commits(false);
                self.wait_for_others(false);
                self.pace.worked(now, claim.more);
                return Some(self.take(claim, answer.asked_at));
            }
            // An answer that is older than what went back meanwhile says nothing of it.
            Claimed::Nothing(idle) if idle.more || went_back => self.pace.worked(now, true),
            Claimed::Nothing(idle) => {
                self.pace.idled(now, idle.due_in);
                self.found_nothing(&idle, answer.held);
            }
            Claimed::Standby => self.pace.stood_by(now),
        }
        None
    }

    fn take(&mut self, claim: Claim<S::Hold>, asked_at: Instant) -> ClaimNo {
        point::pass("claimed");
        let Claim { hold, entries, .. } = claim;
        let ttl = self.features.lease_ttl;
        let count = entries.len();
        let number = self.claims.open(hold, entries, asked_at + ttl, asked_at + ttl / 3);
        self.saw(&Step::Claimed { entries: count, bytes_held: self.claims.bytes() });
        number
    }

    fn plan_entries(&mut self, number: ClaimNo) {
        let Some(claim) = self.claims.get(number) else { return };
        let (entries, ordered) = (Arc::clone(&claim.entries), self.features.ordered);
        let keys: Vec<Option<KeyNo>> = entries
            .iter()
            .map(|entry| entry.key.as_ref().filter(|_| ordered).map(|key| self.keys.enter(key)))
            .collect();
        self.claims.enter(number, keys.clone());
        for (index, (entry, key)) in entries.iter().zip(keys).enumerate() {
            let plan = self.planner.plan(entry);
            self.enter_lane(plan, number, index, key);
        }
    }

    fn enter_lane(&mut self, plan: Plan, claim: ClaimNo, index: usize, key: Option<KeyNo>) {
        let topic = match plan {
            Plan::Publish(topic) => topic,
            Plan::Bury(reason) => return self.bury(Ticket::nowhere(claim, index, key), reason),
        };
        let ticket = Ticket { claim, index, key, topic, next: false };
        let Some(sink) = self.sink_of(topic) else {
            let sink = &self.destination(topic).sink;
            let reason = Reason::new(format!(
                "no route: there is no sink named \"{sink}\"; add a [[sink]] of that name"
            ));
            return self.bury(ticket, reason);
        };
        if key.is_some_and(|key| self.keys.is_broken(key)) {
            self.decide(ticket, Settlement::Released);
        } else if self.was_received(ticket) {
            self.decide(ticket, Settlement::Published);
        } else {
            self.lanes[sink.0].ready.push_back(ticket);
        }
    }

    /// Whether the broker has it already, from a claim that was lost.
    fn was_received(&mut self, ticket: Ticket) -> bool {
        let now = self.relay.clock.instant();
        let Some(claim) = self.claims.get(ticket.claim) else { return false };
        self.received.take(&claim.entries[ticket.index], now)
    }

    /// Gives up an entry that can never be published. Its key breaks: the source knows whether a dead entry holds it.
    fn bury(&mut self, ticket: Ticket, reason: Reason) {
        if let Some(entry) = self.claims.get(ticket.claim).and_then(|claim| claim.entries.get(ticket.index)) {
            self.saw(&Step::Buried { entry, reason: &reason.0 });
            let retries = entry.retries;
            self.decide(ticket, Settlement::Dead { retries, reason });
        }
        if let Some(key) = ticket.key {
            for behind in self.keys.break_off(key) {
                self.decide(behind, Settlement::Released);
            }
        }
    }

    fn claim_failed(&mut self, error: SourceError) {
        match error {
            // Whoever waits for the end of the work would wait for a person.
            SourceError::Unfit(fault) if self.relay.settings.until_empty.is_some() => {
                self.ending.fail(fault, self.relay.clock.instant());
            }
            SourceError::Unreachable(_) | SourceError::Unfit(_) => {
                let again_in = self.pace.away();
                self.saw(&Step::SourceAway { error: &error, again_in });
                self.pace.delay(self.now() + again_in);
            }
            // The lease went while it was being asked: the next claim asks for it anew.
            SourceError::Fenced => self.pace.idled(self.now(), None),
            SourceError::Broken(fault) => self.ending.fail(fault, self.relay.clock.instant()),
        }
    }

    fn found_nothing(&mut self, idle: &Idle, held: bool) {
        if std::mem::replace(&mut self.full, idle.full) != idle.full {
            self.saw(&Step::Full(idle.full));
        }
        let is_done = !held && self.claims.is_empty();
        self.wait_for_commits(is_done && idle.gaps_open > 0);
        self.wait_for_others(is_done && idle.elsewhere);
        // What is parked behind a limit waits for an operator: there is nothing left to do for a relay.
        let is_done = is_done && idle.gaps_open == 0 && !idle.elsewhere && !idle.due;
        if is_done && self.relay.settings.until_empty.is_some() {
            self.ending.empty(self.relay.clock.instant());
        }
    }

    fn wait_for_commits(&mut self, waits: bool) {
        if std::mem::replace(&mut self.waits_for_commits, waits) != waits {
            self.saw(&Step::WaitsForCommits(waits));
        }
    }

    fn wait_for_others(&mut self, waits: bool) {
        if std::mem::replace(&mut self.waits_for_others, waits) != waits {
            self.saw(&Step::WaitsForOthers(waits));
        }
    }

    /// There may be something to claim.
    pub(crate) fn hurry(&mut self) {
        let now = self.now();
        self.pace.hurry(now);
    }
}

impl Ticket {
    /// A ticket of an entry that goes nowhere.
    fn nowhere(claim: ClaimNo, index: usize, key: Option<KeyNo>) -> Self {
        Self { claim, index, key, topic: TopicNo(0), next: false }
    }
}
