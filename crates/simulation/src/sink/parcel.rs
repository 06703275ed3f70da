//! What travels together to one partition: there, into the log, and back.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::{Either, select};
use postrider_core::broken::BrokenKeys;
use postrider_core::clock::Instant;
use postrider_core::verdict::{Reason, Rejection, Scope, Silence};
use postrider_core::{Key, Refusal, Text, Verdict};

use super::broker::{Broker, Record, State};
use super::faults::{Faults, Outage};
use super::lane::Turn;
use crate::chance::Chance;

/// Messages of one call to one partition, in order.
pub(super) struct Parcel {
    pub(super) broker: Broker,
    pub(super) relay: Text,
    pub(super) broken: Arc<Mutex<BrokenKeys>>,
    pub(super) topic: Text,
    pub(super) partition: u32,
    pub(super) items: Vec<Item>,
    pub(super) turn: Turn,
    pub(super) stage: Stage,
}

/// One message in a parcel.
pub(super) struct Item {
    pub(super) index: usize,
    pub(super) id: Text,
    pub(super) key: Option<Key>,
    pub(super) leads: bool,
    pub(super) bytes_hash: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Sent,
    Written,
    Answered,
}

/// What the broker did with a message.
enum Deed {
    /// It stands at this place in the log, and the answer is on its way.
    Logged(usize),
    /// It has no receipt to expect.
    Refused(Refusal),
}

/// How a parcel fares on the network, drawn when it is sent.
struct Journey {
    there: Duration,
    back: Duration,
}

impl Parcel {
    /// Carries it there and back; what is to be said of each message, at the deadline at the latest.
    pub(super) async fn carry(mut self, deadline: Instant) -> Vec<(usize, Verdict)> {
        let journey = self.draw_journey();
        let there = async {
            self.sleep(journey.there).await;
            self.turn.to_write().await;
            if self.struck_by(|outage| outage.silent) {
                std::future::pending::<()>().await;
            }
        };
        if !self.in_time(deadline, there).await {
            // Given up before it was written: it never will be.
            return self.answer(|_| Verdict::Refusal(silence("no answer before the deadline")));
        }
        let deeds = self.write();
        self.stage = Stage::Written;
        self.turn.written();
        let back = async {
            self.sleep(journey.back).await;
            self.turn.to_answer().await;
        };
        let in_time = self.in_time(deadline, back).await;
        self.settle(deeds, in_time)
    }

    /// The broker takes what it takes, in order.
    fn write(&self) -> Vec<Deed> {
        let mut state = self.broker.state();
        let mut broken = self.broken();
        if let Some(refusal) = self.refusal_of_all(&mut state) {
            self.items.iter().for_each(|item| broken.add(item.key.as_ref()));
            return self.items.iter().map(|_| Deed::Refused(refusal.clone())).collect();
        }
        let State { chance, faults, .. } = &mut *state;
        let arrived = lost_from(chance, faults, faults.reply_lost_before_write, self.items.len());
        let answered = lost_from(chance, faults, faults.reply_lost_after_write, arrived);
        let mut deeds = Vec::with_capacity(self.items.len());
        for (place, item) in self.items.iter().enumerate() {
            let deed = if place >= arrived {
                Deed::Refused(lost(place > arrived))
            } else if let Some(refusal) = refusal_of_one(item, &mut state, &mut broken) {
                broken.add(item.key.as_ref());
                Deed::Refused(refusal)
            } else {
                let logged = self.log(item, &mut state);
                if place < answered { Deed::Logged(logged) } else { Deed::Refused(lost(place > answered)) }
            };
            deeds.push(deed);
        }
        // What is lost breaks its key for whoever comes behind this parcel, not within it: it went there in one piece.
        for item in self.items.iter().skip(answered) {
            broken.add(item.key.as_ref());
        }
        deeds
    }

    fn log(&self, item: &Item, state: &mut State) -> usize {
        state.log.push(Record {
            id: item.id.clone(),
            key: item.key.clone(),
            topic: self.topic.clone(),
            partition: self.partition,
            relay: self.relay.clone(),
            at: self.broker.clock().instant(),
            bytes_hash: item.bytes_hash,
            receipt_at: None,
        });
        state.log.len() - 1
    }

    /// Why the broker takes nothing of it.
    fn refusal_of_all(&self, state: &mut State) -> Option<Refusal> {
        if let Some(outage) = state.outage(&self.topic) {
            let scope = if outage.topic.is_some() { Scope::Topic } else { Scope::Sink };
            return Some(Refusal::Busy { scope, reason: Reason::new("simulated: away") });
        }
        let State { chance, faults, .. } = state;
        if chance.probability(faults.partition_busy) {
            return Some(Refusal::Busy {
                scope: Scope::Partition,
                reason: Reason::new("simulated: no leader"),
            });
        }
        let in_company = faults.poison_in_company && self.items.len() > 1;
        if in_company && self.items.iter().any(|item| faults.poison.contains(&item.id)) {
            return Some(poisoned(true));
        }
        None
    }

    /// What is said, now that answers are in or overdue.
    fn settle(&mut self, deeds: Vec<Deed>, in_time: bool) -> Vec<(usize, Verdict)> {
        let now = self.broker.clock().instant();
        let broker = self.broker.clone();
        let broken = Arc::clone(&self.broken);
        let mut deeds = deeds.into_iter();
        self.answer(|item| match deeds.next() {
            Some(Deed::Refused(refusal)) => Verdict::Refusal(refusal),
            _ if !in_time => Verdict::Refusal(silence("written, but no answer before the deadline")),
            // An earlier message of its key, sent by another call, failed meanwhile.
            _ if !item.leads && !lock(&broken).admits(item.key.as_ref(), false) => {
                Verdict::Refusal(Refusal::Unknown(Silence::Purged))
            }
            Some(Deed::Logged(place)) => {
                broker.state().log[place].receipt_at = Some(now);
                Verdict::Receipt
            }
            None => Verdict::Refusal(silence("lost")),
        })
    }

    /// Says something of each message, in order, and remembers which keys it breaks.
    fn answer(&mut self, mut verdict: impl FnMut(&Item) -> Verdict) -> Vec<(usize, Verdict)> {
        self.stage = Stage::Answered;
        let mut answers = Vec::with_capacity(self.items.len());
        for item in &self.items {
            let verdict = verdict(item);
            if verdict != Verdict::Receipt {
                self.broken().add(item.key.as_ref());
            }
            answers.push((item.index, verdict));
        }
        answers
    }

    fn draw_journey(&self) -> Journey {
        let mut state = self.broker.state();
        let State { chance, faults: Faults { latency_max, slow, slow_max, .. }, .. } = &mut *state;
        let mut journey =
            Journey { there: draw(chance, *latency_max) / 2, back: draw(chance, *latency_max) / 2 };
        if chance.probability(*slow) {
            let leg = if chance.probability(0.5) { &mut journey.there } else { &mut journey.back };
            *leg += draw(chance, *slow_max);
        }
        journey
    }

    fn struck_by(&self, wanted: impl Fn(&Outage) -> bool) -> bool {
        self.broker.state().outage(&self.topic).is_some_and(wanted)
    }

    async fn sleep(&self, span: Duration) {
        if !span.is_zero() {
            self.broker.clock().sleep(span).await;
        }
    }

    /// Whether something ends before the deadline; after it, nothing does.
    async fn in_time(&self, deadline: Instant, work: impl Future<Output = ()>) -> bool {
        let left = deadline.since(self.broker.clock().instant());
        match select(pin!(work), self.broker.clock().sleep(left)).await {
            Either::Left(_) => self.broker.clock().instant() < deadline,
            Either::Right(_) => false,
        }
    }

    fn broken(&self) -> MutexGuard<'_, BrokenKeys> {
        lock(&self.broken)
    }
}

/// The call was dropped: what was on its way may still land, up to some message, and nobody hears of it.
impl Drop for Parcel {
    fn drop(&mut self) {
        if self.stage == Stage::Sent && self.turn.may_write() && !self.struck_by(|_| true) {
            let landed = {
                let mut state = self.broker.state();
                let items = self.items.len() as u64;
                usize::try_from(state.chance.below(items + 1)).unwrap_or(0)
            };
            let unlanded = self.items.split_off(landed);
            self.write();
            self.items.extend(unlanded);
        }
        if self.stage != Stage::Answered {
            self.items.iter().for_each(|item| lock(&self.broken).add(item.key.as_ref()));
        }
    }
}

/// Why the broker does not take one message.
fn refusal_of_one(item: &Item, state: &mut State, broken: &mut BrokenKeys) -> Option<Refusal> {
    let State { chance, faults, .. } = state;
    if !broken.admits(item.key.as_ref(), item.leads) {
        return Some(Refusal::Withheld);
    }
    if faults.poison.contains(&item.id) {
        return Some(poisoned(false));
    }
    if chance.probability(faults.transient) {
        return Some(Refusal::Transient(Reason::new("simulated: try again")));
    }
    let silent = chance.probability(faults.own_silence);
    silent.then(|| Refusal::Unknown(Silence::Own(Reason::new("simulated: others were answered"))))
}

/// From which message on a parcel of so many is lost; `items` when nothing is.
fn lost_from(chance: &mut Chance, faults: &Faults, probability: f64, items: usize) -> usize {
    if !chance.probability(probability) {
        return items;
    }
    if faults.losses_partial { usize::try_from(chance.below(items as u64)).unwrap_or(0) } else { 0 }
}

fn draw(chance: &mut Chance, most: Duration) -> Duration {
    Duration::from_micros(chance.below(u64::try_from(most.as_micros()).unwrap_or(u64::MAX).saturating_add(1)))
}

fn lost(behind_another: bool) -> Refusal {
    if behind_another { Refusal::Unknown(Silence::Purged) } else { silence("the reply was lost") }
}

fn silence(reason: &str) -> Refusal {
    let reason = Reason::new(format!("simulated: {reason}"));
    Refusal::Unknown(Silence::Broker { scope: Scope::Partition, reason })
}

fn poisoned(in_company: bool) -> Refusal {
    Refusal::Rejected(Rejection { reason: Reason::new("simulated: poison"), in_company })
}

fn lock(broken: &Mutex<BrokenKeys>) -> MutexGuard<'_, BrokenKeys> {
    broken.lock().unwrap_or_else(PoisonError::into_inner)
}
