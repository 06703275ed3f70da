//! The circuit breaker (B7): a broker that is away is left alone, then tried, then trusted again.

use std::collections::VecDeque;
use std::time::Duration;

use crate::clock::Instant;

/// When it opens and how it closes.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Calls remembered.
    pub window_calls: usize,
    /// Calls before it may open.
    pub calls_min: usize,
    /// Opens at this share of failures, `0.0..=1.0`.
    pub failure_share: f64,
    /// How long it stays open.
    pub open: Duration,
    /// Trials when half-open; all must succeed.
    pub trials: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self { window_calls: 10, calls_min: 5, failure_share: 0.5, open: Duration::from_secs(30), trials: 3 }
    }
}

/// Where a breaker stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Circuit {
    /// Everything may pass.
    Closed,
    /// Nothing may pass.
    Open,
    /// A few trials may pass.
    HalfOpen,
}

impl Circuit {
    /// The word that people and metrics see.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half-open",
        }
    }
}

/// One breaker: of a sink, or of a topic. Permission is asked per message; every permission is answered by
/// exactly one of [`Breaker::succeeded`], [`Breaker::failed`] and [`Breaker::returned`].
#[derive(Clone, Debug)]
pub struct Breaker {
    settings: Settings,
    state: State,
}

#[derive(Clone, Debug)]
enum State {
    Closed { window: VecDeque<bool>, failures: usize },
    Open { since: Instant },
    HalfOpen { granted: u32, succeeded: u32 },
}

impl Breaker {
    /// A closed breaker.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self { settings, state: State::Closed { window: VecDeque::new(), failures: 0 } }
    }

    /// Where it stands. Time alone leads from open to half-open.
    pub fn circuit(&mut self, now: Instant) -> Circuit {
        if let State::Open { since } = self.state
            && now.since(since) >= self.settings.open
        {
            self.state = State::HalfOpen { granted: 0, succeeded: 0 };
        }
        match self.state {
            State::Closed { .. } => Circuit::Closed,
            State::Open { .. } => Circuit::Open,
            State::HalfOpen { .. } => Circuit::HalfOpen,
        }
    }

    /// How many messages may be attempted now; `None` means any number.
    pub fn allowance(&mut self, now: Instant) -> Option<u32> {
        match self.circuit(now) {
            Circuit::Closed => None,
            Circuit::Open => Some(0),
            Circuit::HalfOpen => match self.state {
                State::HalfOpen { granted, .. } => Some(self.settings.trials.saturating_sub(granted)),
                _ => Some(0),
            },
        }
    }

    /// When an open breaker will let trials through.
    #[must_use]
    pub fn reopens_at(&self) -> Option<Instant> {
        match self.state {
            State::Open { since } => Some(since + self.settings.open),
            _ => None,
        }
    }

    /// Asks permission for one message.
    pub fn permit(&mut self, now: Instant) -> bool {
        if self.allowance(now) == Some(0) {
            return false;
        }
        if let State::HalfOpen { granted, .. } = &mut self.state {
            *granted += 1;
        }
        true
    }

    /// A permitted message got its receipt.
    pub fn succeeded(&mut self) {
        match &mut self.state {
            State::Closed { .. } => self.remember(false),
            State::HalfOpen { succeeded, .. } => {
                *succeeded += 1;
                if *succeeded >= self.settings.trials {
                    self.state = State::Closed { window: VecDeque::new(), failures: 0 };
                }
            }
            State::Open { .. } => {}
        }
    }

    /// A permitted message met a broker's fault.
    pub fn failed(&mut self, now: Instant) {
        match &mut self.state {
            State::Closed { .. } => {
                self.remember(true);
                if self.tripped() {
                    self.state = State::Open { since: now };
                }
            }
            State::HalfOpen { .. } => self.state = State::Open { since: now },
            State::Open { .. } => {}
        }
    }

    /// A permitted message said nothing of the broker: its own fault, or it was not attempted after all.
    pub fn returned(&mut self) {
        if let State::HalfOpen { granted, .. } = &mut self.state {
            *granted = granted.saturating_sub(1);
        }
    }

    fn remember(&mut self, failure: bool) {
        let State::Closed { window, failures } = &mut self.state else { return };
        window.push_back(failure);
        *failures += usize::from(failure);
        while window.len() > self.settings.window_calls {
            *failures -= usize::from(window.pop_front() == Some(true));
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a window of calls is small")]
    fn tripped(&self) -> bool {
        let State::Closed { window, failures } = &self.state else { return false };
        window.len() >= self.settings.calls_min
            && *failures as f64 >= self.settings.failure_share * window.len() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant(Duration::from_secs(seconds))
    }

    fn tripped() -> Breaker {
        let mut breaker = Breaker::new(Settings::default());
        for _ in 0..5 {
            assert!(breaker.permit(at(0)));
            breaker.failed(at(0));
        }
        breaker
    }

    /// B7: at least five calls, half of them failures, in a window of ten.
    #[test]
    fn opens_at_half_of_at_least_five_calls() {
        let mut breaker = Breaker::new(Settings::default());
        for _ in 0..2 {
            breaker.succeeded();
            breaker.failed(at(0));
        }
        assert_eq!(breaker.circuit(at(0)), Circuit::Closed, "four calls are too few");
        breaker.failed(at(0));
        assert_eq!(breaker.circuit(at(0)), Circuit::Open);
    }

    #[test]
    fn old_calls_leave_the_window() {
        let mut breaker = Breaker::new(Settings::default());
        for _ in 0..2 {
            breaker.failed(at(0));
        }
        for _ in 0..10 {
            breaker.succeeded();
        }
        for _ in 0..4 {
            breaker.failed(at(0));
        }
        assert_eq!(breaker.circuit(at(0)), Circuit::Closed, "four of the last ten");
        breaker.failed(at(0));
        assert_eq!(breaker.circuit(at(0)), Circuit::Open);
    }

    /// B7: time alone leads to half-open, three trials pass, and all three must succeed.
    #[test]
    fn three_trials_close_it() {
        let mut breaker = tripped();
        assert!(!breaker.permit(at(29)));
        assert_eq!(breaker.circuit(at(30)), Circuit::HalfOpen);
        let granted = (0..5).filter(|_| breaker.permit(at(30))).count();
        assert_eq!(granted, 3);
        breaker.succeeded();
        breaker.succeeded();
        assert_eq!(breaker.circuit(at(30)), Circuit::HalfOpen);
        breaker.succeeded();
        assert_eq!(breaker.circuit(at(30)), Circuit::Closed);
    }

    /// B7: any trial failure reopens it, for the whole time again.
    #[test]
    fn any_failed_trial_reopens_it() {
        let mut breaker = tripped();
        assert!(breaker.permit(at(30)) && breaker.permit(at(30)));
        breaker.succeeded();
        breaker.failed(at(31));
        assert_eq!(breaker.circuit(at(60)), Circuit::Open);
        assert_eq!(breaker.circuit(at(61)), Circuit::HalfOpen);
    }

    /// B7: the message's own faults count neither way, and give their trial back.
    #[test]
    fn a_messages_own_fault_gives_its_trial_back() {
        let mut breaker = tripped();
        for _ in 0..20 {
            assert!(breaker.permit(at(30)));
            breaker.returned();
        }
        assert_eq!(breaker.circuit(at(30)), Circuit::HalfOpen);
    }
}
