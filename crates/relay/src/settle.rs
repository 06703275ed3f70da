//! Settle, extend, release: what a relay tells its source.

use std::collections::VecDeque;

use postrider_core::clock::Instant;
use postrider_core::source::{Settles, Source, SourceError};
use postrider_core::{Settlement, point};

use crate::claims::ClaimNo;
use crate::engine::Engine;
use crate::observe::Step;
use crate::wake::Woke;

/// What came of settling.
pub(crate) struct SettleAnswer<H> {
    claim: ClaimNo,
    /// None once the claim is released.
    hold: Option<H>,
    settlements: Vec<(usize, Settlement)>,
    result: Result<(), SourceError>,
}

/// What came of extending.
pub(crate) struct ExtendAnswer<H> {
    claim: ClaimNo,
    hold: H,
    asked_at: Instant,
    result: Result<(), SourceError>,
}

impl<S: Source> Engine<'_, S> {
    /// Writes what is decided: a claim that is complete at once, and released with it; others after a short while.
    pub(crate) fn settle(&mut self) {
        for number in self.claims.numbers() {
            if self.may_settle(number) {
                self.write(number);
            }
        }
    }

    fn may_settle(&mut self, number: ClaimNo) -> bool {
        let now = self.now();
        let Some(claim) = self.claims.get(number) else { return false };
        if claim.void {
            if claim.complete() {
                self.close(number);
            }
            return false;
        }
        if claim.hold.is_none() || claim.decided.is_empty() || claim.again_at.is_some_and(|again| again > now)
        {
            return false;
        }
        claim.complete() || self.settle_at(number).is_some_and(|at| at <= now)
    }

    /// When a claim's decisions are written even if more are to come.
    pub(crate) fn settle_at(&self, number: ClaimNo) -> Option<Instant> {
        let claim = self.claims.get(number)?;
        let in_parts = self.features.settles != Settles::AtRelease;
        if claim.hold.is_none() || claim.void || !(in_parts || claim.complete()) {
            return None;
        }
        let since = claim.decided_since? + self.relay.settings.settle_linger;
        Some(claim.again_at.map_or(since, |again| again.max(since)))
    }

    fn write(&mut self, number: ClaimNo) {
        let Some(claim) = self.claims.get_mut(number) else { return };
        let Some(mut hold) = claim.hold.take() else { return };
        let settlements = std::mem::take(&mut claim.decided);
        claim.decided_since = None;
        let ends = claim.complete();
        let source = &self.relay.source;
        self.work.push(Box::pin(async move {
            let mut result = source.settle(&mut hold, &settlements).await;
            let mut hold = Some(hold);
            if result.is_ok() && ends {
                result = match hold.take() {
                    Some(hold) => source.release(hold).await,
                    None => Ok(()),
                };
            }
            Woke::Settled(SettleAnswer { claim: number, hold, settlements, result })
        }));
    }

    pub(crate) fn settled(&mut self, answer: SettleAnswer<S::Hold>) {
        let SettleAnswer { claim: number, hold, settlements, result } = answer;
        match result {
            Ok(()) => self.written(number, hold, &settlements),
            // A release without an answer: what was settled may or may not be; the source hands out what is not.
            Err(SourceError::Unreachable(_) | SourceError::Unfit(_)) if hold.is_none() => {
                self.keep_received(number, &settlements);
                self.close(number);
                self.went_back |= self.claiming;
            }
            Err(SourceError::Unfit(fault)) if self.relay.settings.until_empty.is_some() => {
                self.void(number);
                self.ending.fail(fault, self.relay.clock.instant());
            }
            Err(error @ (SourceError::Unreachable(_) | SourceError::Unfit(_))) => {
                let again_in = self.pace.away();
                self.saw(&Step::SourceAway { error: &error, again_in });
                let again_at = self.now() + again_in;
                if let Some(claim) = self.claims.get_mut(number) {
                    claim.hold = hold;
                    // Before what was decided meanwhile: the same settlements are written again, under the same fence.
                    let meanwhile = std::mem::replace(&mut claim.decided, settlements);
                    claim.decided.extend(meanwhile);
                    claim.decided_since = Some(again_at);
                    claim.again_at = Some(again_at);
                }
            }
            Err(SourceError::Fenced) => {
                self.keep_received(number, &settlements);
                self.void(number);
            }
            Err(SourceError::Broken(fault)) => {
                self.void(number);
                self.ending.fail(fault, self.relay.clock.instant());
            }
        }
    }

    /// Of a claim that is lost, keeps what the broker has: it comes again, and is not to be sent again.
    pub(crate) fn keep_received(&mut self, number: ClaimNo, settlements: &[(usize, Settlement)]) {
        let (now, ttl) = (self.now(), self.features.lease_ttl);
        let Some(claim) = self.claims.get(number) else { return };
        for (index, _) in settlements.iter().filter(|(_, settlement)| *settlement == Settlement::Published) {
            self.received.keep(&claim.entries[*index], now, ttl);
        }
    }

    fn written(&mut self, number: ClaimNo, hold: Option<S::Hold>, settlements: &[(usize, Settlement)]) {
        point::pass("settled");
        if self.pace.back() {
            self.saw(&Step::SourceBack);
        }
        for (_, settlement) in settlements {
            match settlement {
                Settlement::Published => self.summary.published += 1,
                Settlement::Retried { .. } => self.summary.retried += 1,
                Settlement::Dead { .. } => self.summary.dead += 1,
                Settlement::Postponed { .. } | Settlement::Released => {}
            }
        }
        self.saw(&Step::Settled { entries: settlements.len() });
        let Some(claim) = self.claims.get_mut(number) else { return };
        claim.again_at = None;
        for key in claim.settled(settlements) {
            self.keys.leave(key, self.claiming);
        }
        let released = hold.is_none();
        claim.hold = hold;
        if released {
            self.close(number);
            point::pass("released");
        }
        // Something went back, or room has come: worth a look before the next poll.
        if settlements.iter().any(|(_, settlement)| *settlement != Settlement::Published) {
            self.hurry();
            self.went_back |= self.claiming;
        }
    }

    /// Keeps open claims from expiring, at a third of their lease.
    pub(crate) fn extend(&mut self) {
        let asked_at = self.now();
        for number in self.claims.numbers() {
            let Some(claim) = self.claims.get_mut(number) else { continue };
            if claim.void || claim.extend_at > asked_at {
                continue;
            }
            let Some(mut hold) = claim.hold.take() else { continue };
            let source = &self.relay.source;
            self.work.push(Box::pin(async move {
                let result = source.extend(&mut hold).await;
                Woke::Extended(ExtendAnswer { claim: number, hold, asked_at, result })
            }));
        }
    }

    pub(crate) fn extended(&mut self, answer: ExtendAnswer<S::Hold>) {
        let ttl = self.features.lease_ttl;
        let now = self.now();
        let ExtendAnswer { claim: number, hold, asked_at, result } = answer;
        let Some(claim) = self.claims.get_mut(number) else { return };
        claim.hold = Some(hold);
        match result {
            Ok(()) => {
                claim.valid_until = asked_at + ttl;
                claim.extend_at = asked_at + ttl / 3;
            }
            Err(SourceError::Unreachable(_) | SourceError::Unfit(_)) => claim.extend_at = now + (ttl / 10),
            Err(SourceError::Fenced) => self.void(number),
            Err(SourceError::Broken(fault)) => {
                self.void(number);
                self.ending.fail(fault, now);
            }
        }
    }

    /// A claim was lost: nothing of it is written any more, and what is not sent yet is not sent.
    fn void(&mut self, number: ClaimNo) {
        let Some(claim) = self.claims.get_mut(number) else { return };
        claim.void = true;
        claim.hold = None;
        self.went_back |= self.claiming;
        let entries = claim.unsettled;
        let decided = std::mem::take(&mut claim.decided);
        self.keep_received(number, &decided);
        self.saw(&Step::Fenced { entries });
        for lane in 0..self.lanes.len() {
            let ready = std::mem::take(&mut self.lanes[lane].ready);
            let (gone, kept): (VecDeque<_>, VecDeque<_>) =
                ready.into_iter().partition(|ticket| ticket.claim == number);
            self.lanes[lane].ready = kept;
            for ticket in gone {
                self.give_back(ticket);
            }
        }
        // Their keys break with them: what follows in another claim must not go out in their stead.
        for ticket in self.keys.take_waiting(number) {
            self.give_back(ticket);
        }
    }

    fn close(&mut self, number: ClaimNo) {
        for key in self.claims.close(number) {
            self.keys.leave(key, self.claiming);
        }
    }
}
