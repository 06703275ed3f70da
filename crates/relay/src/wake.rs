//! Wake: what a relay waits for.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use futures_util::StreamExt;
use postrider_core::Verdict;
use postrider_core::clock::Instant;
use postrider_core::limits::CLAIMS_OPEN_MAX;
use postrider_core::source::Source;

use crate::claim::ClaimAnswer;
use crate::engine::Engine;
use crate::publish::ShipmentNo;
use crate::settle::{ExtendAnswer, SettleAnswer};
use crate::stop::{Stop, Waiter};

/// How often others on the same thread go first: the second time, what the first has set going is sent off.
const STIR_ROUNDS: usize = 2;

/// Why a relay woke.
pub(crate) enum Woke<H> {
    Claimed(ClaimAnswer<H>),
    Verdicts(ShipmentNo, Vec<(usize, Verdict)>),
    Published(ShipmentNo),
    Settled(SettleAnswer<H>),
    Extended(ExtendAnswer<H>),
    /// The source says that there may be something.
    Nudged,
    /// It is asked to stop.
    Stopped,
    /// It is time for something.
    Due,
}

impl<S: Source> Engine<'_, S> {
    /// Waits for the next thing to happen. The order of the questions is fixed, so that a run can be repeated.
    pub(crate) async fn wake(&mut self, stop: &Stop) -> Woke<S::Hold> {
        let now = self.now();
        let mut timer = self.next_due().map(|due| self.relay.clock.sleep(due.since(now)));
        let stopping = self.ending.stopping();
        let wakes = self.features.wakes && !stopping;
        let source = &self.relay.source;
        let mut nudge =
            pin!(async move { if wakes { source.wake().await } else { std::future::pending().await } });
        poll_fn(|cx| {
            if !stopping && stop.poll_asked(Waiter::Relay, cx).is_ready() {
                return Poll::Ready(Woke::Stopped);
            }
            if let Some(woke) = self.early.pop_front() {
                return Poll::Ready(woke);
            }
            if let Poll::Ready(Some((shipment, verdicts))) = self.verdicts.poll_next_unpin(cx) {
                return Poll::Ready(Woke::Verdicts(shipment, verdicts));
            }
            if let Poll::Ready(Some(woke)) = self.work.poll_next_unpin(cx) {
                return Poll::Ready(woke);
            }
            // Polling the work may have brought verdicts.
            if let Poll::Ready(Some((shipment, verdicts))) = self.verdicts.poll_next_unpin(cx) {
                return Poll::Ready(Woke::Verdicts(shipment, verdicts));
            }
            if nudge.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Woke::Nudged);
            }
            match &mut timer {
                Some(timer) => timer.as_mut().poll(cx).map(|()| Woke::Due),
                None => Poll::Pending,
            }
        })
        .await
    }

    /// Lets whatever is under way go on before a longer stretch of work: calls that waited for the source's last answer are
    /// made, and a driver's own task sends them off, so that the database works while the relay does. What is done by then is
    /// taken up when the relay wakes next.
    pub(crate) async fn stir(&mut self) {
        let mut rounds = 0;
        poll_fn(|cx| {
            while let Poll::Ready(Some(woke)) = self.work.poll_next_unpin(cx) {
                self.early.push_back(woke);
            }
            rounds += 1;
            if rounds > STIR_ROUNDS {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }

    /// When something must be done even if nothing happens.
    fn next_due(&self) -> Option<Instant> {
        let mut due: Option<Instant> = self.ending.next_due(self.relay.settings.stop_timeout);
        let mut sooner = |at: Option<Instant>| due = due.into_iter().chain(at).min();
        for (number, claim) in self.claims.iter() {
            sooner(self.settle_at(number));
            sooner((claim.hold.is_some() && !claim.void).then_some(claim.extend_at));
        }
        sooner(self.shipments.open.values().map(|shipment| shipment.overdue_at).min());
        if !self.ending.stopping() {
            let room = !self.claiming && self.claims.len() < CLAIMS_OPEN_MAX && self.has_room();
            let trial = self.breakers().next_trial();
            let blocked = self.all_left_alone();
            sooner((room && !blocked).then_some(self.pace.next()));
            sooner(trial);
            sooner(self.away_until());
        }
        due
    }
}
