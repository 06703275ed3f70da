//! One publish call: hands messages over as their places allow, and verdicts as they come.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use postrider_core::clock::{BoxFuture, Instant};
use postrider_core::sink::{Message, Permit, Verdicts};
use postrider_core::{Refusal, Verdict, point};
use rdkafka::producer::BaseRecord;

use crate::client::Tag;
use crate::limit::Fit;
use crate::partitions::Standing;
use crate::reports::GRACE;
use crate::sink::Shared;
use crate::state::{Flight, State};
use crate::{encode, murmur2, refusal};

/// Messages in flight in one producer, at most: what a call may bring.
pub(crate) const IN_FLIGHT_MAX: usize = 10_000;
/// Their bytes, near enough, unless it is a single message.
pub(crate) const IN_FLIGHT_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Messages handed over before others get the thread.
const SLICE: usize = 500;
/// Refusals without a send that are told one by one, so that a circuit which they open stops the rest: a breaker's window.
const TOLD_SINGLY_MAX: usize = 10;
/// Long enough for the relay to hear of one.
const HEARING: Duration = Duration::from_millis(1);

pub(crate) struct Call<'a> {
    shared: &'a Arc<Shared>,
    messages: &'a [Message<'a>],
    permit: &'a dyn Permit,
    verdicts: &'a dyn Verdicts,
    slot: usize,
    serial: u64,
    begun: Instant,
    stop_at: Instant,
    deadline: Instant,
    /// What comes next of the two.
    timer: BoxFuture<'a, ()>,
    stopped: bool,
    /// Each message's topic.
    topics: Vec<usize>,
    /// How many messages of each topic wait.
    waiting_in: Vec<(usize, usize)>,
    /// Messages that are not handed over yet, in order.
    waiting: Vec<usize>,
    unanswered: usize,
    /// What was known of the state when nothing more could go.
    seen: Option<u64>,
    /// Topics to be asked for.
    asks: Vec<usize>,
    /// Refusals without a send.
    told: usize,
    /// The relay is hearing of one.
    hearing: Option<BoxFuture<'a, ()>>,
    buffer: Vec<u8>,
}

enum Step {
    /// It is on its way.
    Sent,
    Answered(Refusal),
    /// So is this, by nothing but what is known of its place: whoever comes next may not even be asked for.
    Told(Refusal),
    /// Its place is not ready.
    Waits,
    /// Nothing more can go for now.
    Full,
}

impl<'a> Call<'a> {
    /// Takes its turn in every topic that it has messages for.
    pub(crate) fn begin(
        shared: &'a Arc<Shared>,
        messages: &'a [Message<'a>],
        deadline: Instant,
        permit: &'a dyn Permit,
        verdicts: &'a dyn Verdicts,
    ) -> Self {
        let begun = shared.clock.instant();
        let span = deadline.since(begun);
        // Healthy partitions answer within the deadline, so that at the deadline only the silent ones are purged.
        let stop_after = span.saturating_sub(GRACE.min(span / 4));
        let mut state = shared.lock();
        let (slot, serial) = state.enter(messages.len());
        let mut topics = Vec::with_capacity(messages.len());
        let mut waiting_in: Vec<(usize, usize)> = Vec::new();
        for message in messages {
            let same =
                topics.last().copied().filter(|last: &usize| *state.topics[*last].name == *message.topic);
            let topic = same.unwrap_or_else(|| state.topic(message.topic));
            topics.push(topic);
            match waiting_in.iter_mut().rfind(|(known, _)| *known == topic) {
                Some((_, count)) => *count += 1,
                None => {
                    waiting_in.push((topic, 1));
                    state.topics[topic].turns.push_back(serial);
                }
            }
        }
        drop(state);
        Self {
            shared,
            messages,
            permit,
            verdicts,
            slot,
            serial,
            begun,
            stop_at: begun + stop_after,
            deadline,
            timer: shared.clock.sleep(stop_after),
            stopped: false,
            topics,
            waiting_in,
            waiting: (0..messages.len()).collect(),
            unanswered: messages.len(),
            seen: None,
            asks: Vec::new(),
            told: 0,
            hearing: None,
            buffer: Vec::new(),
        }
    }

    /// Goes on until every message has its verdict.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.shared.bell.listen(context.waker());
        self.mind_the_time(context);
        let shared = Arc::clone(self.shared);
        let now = shared.clock.instant();
        let mut state = shared.lock();
        state.take_in(now);
        if now >= self.stop_at && !self.stopped {
            self.stop(&mut state);
        }
        let sent = match now >= self.deadline {
            true => self.withhold_rest(&mut state),
            false if self.is_hearing(context) => 0,
            false => self.advance(&mut state, now),
        };
        if self.hearing.is_some() && !self.is_hearing(context) {
            context.waker().wake_by_ref();
        }
        let chunk = state.calls[self.slot].as_mut().map(|call| std::mem::take(&mut call.verdicts));
        let asks = std::mem::take(&mut self.asks);
        shared.ask(&mut state, asks, now, self.deadline);
        drop(state);
        if sent > 0 {
            point::pass("kafka.queued");
        }
        if sent >= SLICE {
            context.waker().wake_by_ref();
        }
        self.hand(chunk.unwrap_or_default())
    }

    fn mind_the_time(&mut self, context: &mut Context<'_>) {
        while self.timer.as_mut().poll(context).is_ready() {
            let now = self.shared.clock.instant();
            let next = if now < self.stop_at { self.stop_at } else { self.deadline };
            // Past the deadline the producer's thread has the word; this is in case it has not.
            let span = if next > now { next.since(now) } else { Duration::from_secs(1) };
            self.timer = self.shared.clock.sleep(span);
        }
    }

    /// Whether the relay has yet to hear of a refusal.
    fn is_hearing(&mut self, context: &mut Context<'_>) -> bool {
        let heard = self.hearing.as_mut().is_none_or(|hearing| hearing.as_mut().poll(context).is_ready());
        if heard {
            self.hearing = None;
        }
        !heard
    }

    fn hand(&mut self, chunk: Vec<(usize, Verdict)>) -> Poll<()> {
        if !chunk.is_empty() {
            point::pass("kafka.acked");
            self.unanswered -= chunk.len();
            self.verdicts.hand(chunk);
        }
        if self.unanswered == 0 { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Time is nearly up: where this call waits for answers, nothing more is handed over, and at the deadline it is purged.
    fn stop(&mut self, state: &mut State) {
        self.stopped = true;
        let Some(call) = &state.calls[self.slot] else { return };
        let mut places: Vec<_> = call.flights.iter().filter(|one| one.flying).map(|one| one.place).collect();
        places.sort_unstable();
        places.dedup();
        for place in places {
            // Why it is silent is asked meanwhile.
            if !state.topics[place.0].asking && !self.asks.contains(&place.0) {
                self.asks.push(place.0);
            }
            if let Some(generation) = state.generation_of(place.0) {
                generation.end_by(self.deadline).silent.entry(place).or_default();
            }
        }
    }

    /// The deadline: what was not attempted stays so.
    fn withhold_rest(&mut self, state: &mut State) -> usize {
        for index in std::mem::take(&mut self.waiting) {
            self.refuse(state, index, Refusal::Withheld);
        }
        0
    }

    /// Hands over what can go, in order; how many went.
    fn advance(&mut self, state: &mut State, now: Instant) -> usize {
        if self.waiting.is_empty() || self.seen == Some(state.changes) {
            return 0;
        }
        let mut waiting = std::mem::take(&mut self.waiting);
        let (mut sent, mut kept, mut at) = (0, 0, 0);
        while at < waiting.len() && sent < SLICE {
            let index = waiting[at];
            match self.step(state, index, now) {
                Step::Sent => {
                    sent += 1;
                    self.gone(state, index);
                }
                Step::Answered(refusal) => self.refuse(state, index, refusal),
                Step::Told(refusal) => {
                    self.refuse(state, index, refusal);
                    self.told += 1;
                    if self.told <= TOLD_SINGLY_MAX {
                        self.hearing = Some(self.shared.clock.sleep(HEARING));
                        at += 1;
                        break;
                    }
                }
                Step::Waits => {
                    waiting[kept] = index;
                    kept += 1;
                }
                Step::Full => break,
            }
            at += 1;
        }
        let whole = at == waiting.len();
        waiting.drain(kept..at);
        self.waiting = waiting;
        self.seen = whole.then_some(state.changes);
        sent
    }

    fn step(&mut self, state: &mut State, index: usize, now: Instant) -> Step {
        let (topic, message) = (self.topics[index], &self.messages[index]);
        if state.topics[topic].turns.front() != Some(&self.serial) {
            return Step::Waits;
        }
        let line = state.topics[topic].line;
        let Some(generation) = state.generation_of(topic) else {
            self.shared.open(state, line);
            return Step::Waits;
        };
        let number = generation.number;
        let Some(client) = generation.taking().cloned() else { return Step::Waits };
        let full = generation.in_flight >= IN_FLIGHT_MAX
            || (generation.in_flight > 0 && generation.in_flight_bytes >= IN_FLIGHT_BYTES_MAX);
        if full {
            return Step::Full;
        }
        match state.topics[topic].standing(self.begun) {
            Standing::Ready => {}
            Standing::Wait => return Step::Waits,
            Standing::Ask => {
                self.ask(topic);
                return Step::Waits;
            }
            Standing::Refused(refusal) => return self.answer(state, index, refusal),
        }
        if state.topics[topic].is_stale(now) {
            self.ask(topic);
        }
        let key = encode::key(message);
        let partitions = &state.topics[topic].partitions;
        let partition = match key {
            Some(key) => murmur2::partition(key.as_bytes(), partitions.len()),
            // Without a key, one partition for the whole call: fewer and fuller batches.
            None => self.serial as usize % partitions.len().max(1),
        };
        let Some(place) = partitions.get(partition) else { return Step::Waits };
        if let Some(fault) = &place.fault {
            let fault = fault.clone();
            return self.answer(state, index, fault);
        }
        // A producer that is new to a partition has no state there: the broker would take its second message without the first.
        if place.in_flight > 0 && !place.knows(number, now) {
            return Step::Waits;
        }
        if !state.broken.admits(message.key, message.leads) {
            return Step::Answered(Refusal::Withheld);
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        let encoded = encode::record(message, &self.shared.config, &mut buffer);
        // Only what cannot fit is kept back, and compressed it might.
        let least = encoded.as_ref().map_or(0, |record| record.least_bytes);
        let fit = match self.shared.config.compresses() {
            true => Fit::Fits,
            false => state.topics[topic].limit.fits(least, self.begun),
        };
        let step = match (encoded, fit) {
            (Err(refusal), _) => Step::Answered(refusal),
            (Ok(_), Fit::Over(limit)) => Step::Answered(refusal::over_limit(message.topic, least, limit)),
            (Ok(_), Fit::Ask) => {
                state.ask_limit(topic);
                self.ask(topic);
                Step::Waits
            }
            (Ok(_), Fit::Fits) if !self.permit.ask(index) => Step::Answered(Refusal::Withheld),
            (Ok(record), Fit::Fits) => {
                let flight = Flight {
                    flying: true,
                    place: (topic, partition),
                    bytes: record.bytes,
                    key: message.key.cloned(),
                };
                state.depart(self.slot, index, flight, now);
                let tag = Tag { slot: self.slot, index };
                let mut base =
                    BaseRecord::with_opaque_to(message.topic, tag.pack()).partition(partition as i32);
                base.payload = record.value;
                base.key = key;
                base.headers = record.headers;
                match client.send(base) {
                    Ok(()) => Step::Sent,
                    Err((error, _)) => {
                        state.land(self.slot, index);
                        Step::Answered(state.unsent(topic, &error))
                    }
                }
            }
        };
        self.buffer = buffer;
        step
    }

    /// A refusal of a message that is not sent: it counts as an attempt, so that the breakers hear of it.
    fn answer(&mut self, state: &mut State, index: usize, refusal: Refusal) -> Step {
        let message = &self.messages[index];
        let attempted = state.broken.admits(message.key, message.leads) && self.permit.ask(index);
        if attempted { Step::Told(refusal) } else { Step::Answered(Refusal::Withheld) }
    }

    fn ask(&mut self, topic: usize) {
        if !self.asks.contains(&topic) {
            self.asks.push(topic);
        }
    }

    fn refuse(&mut self, state: &mut State, index: usize, refusal: Refusal) {
        state.broken.add(self.messages[index].key);
        if let Some(call) = &mut state.calls[self.slot] {
            call.verdicts.push((index, Verdict::Refusal(refusal)));
        }
        self.gone(state, index);
    }

    /// A message waits no more; with the last one of its topic the turn passes on.
    fn gone(&mut self, state: &mut State, index: usize) {
        let topic = self.topics[index];
        if let Some(at) = self.waiting_in.iter().rposition(|(known, _)| *known == topic) {
            self.waiting_in[at].1 -= 1;
            if self.waiting_in[at].1 == 0 {
                self.waiting_in.swap_remove(at);
                state.pass_on(topic, self.serial);
                if !state.topics[topic].turns.is_empty() {
                    self.shared.bell.ring();
                }
            }
        }
    }
}

/// SNK-12: whoever waits behind a call that was dropped goes on.
impl Drop for Call<'_> {
    fn drop(&mut self) {
        let topics = std::mem::take(&mut self.waiting_in);
        self.shared.lock().leave(self.slot, self.serial, topics.into_iter().map(|(topic, _)| topic));
        self.shared.bell.ring();
    }
}
