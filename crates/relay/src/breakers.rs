//! The breakers of a relay's sinks and topics, and how fast it goes again after an outage.

use postrider_core::breaker::{Breaker, Circuit, Settings};
use postrider_core::clock::Instant;
use postrider_core::judge::Signal;
use postrider_core::plan::TopicNo;
use postrider_core::verdict::{Reason, Scope};

use crate::lanes::SinkNo;

#[derive(Debug)]
pub(crate) struct Breakers {
    settings: Settings,
    batch_entries: usize,
    sinks: Vec<Guarded>,
    topics: Vec<Guarded>,
    /// A failure was told, or a breaker is not back at full pace.
    stirred: bool,
}

/// A breaker, what was last said of it, and the pace that it allows.
#[derive(Debug)]
struct Guarded {
    breaker: Breaker,
    said: Circuit,
    /// Messages per call while the broker recovers: starts at the trials, doubles with every call that went well.
    pace: Option<usize>,
    /// What the broker last said when it failed.
    reason: Option<Reason>,
}

/// A breaker that has changed since it was last asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Changed {
    Sink(SinkNo, Circuit, Option<Reason>),
    Topic(TopicNo, Circuit, Option<Reason>),
}

impl Breakers {
    pub(crate) fn new(settings: Settings, sinks: usize, batch_entries: usize) -> Self {
        let mut breakers =
            Self { settings, batch_entries, sinks: Vec::new(), topics: Vec::new(), stirred: false };
        for _ in 0..sinks {
            breakers.sinks.push(breakers.guarded());
        }
        breakers
    }

    /// Makes sure that a topic has a breaker.
    pub(crate) fn know(&mut self, topic: TopicNo) {
        while self.topics.len() <= topic.0 {
            self.topics.push(self.guarded());
        }
    }

    /// Asks both breakers for one message; neither is charged unless both agree.
    pub(crate) fn permit(&mut self, sink: SinkNo, topic: TopicNo, now: Instant) -> bool {
        let (sink, topic) = (&mut self.sinks[sink.0].breaker, &mut self.topics[topic.0].breaker);
        if topic.allowance(now) == Some(0) || !sink.permit(now) {
            return false;
        }
        topic.permit(now)
    }

    /// Tells both breakers what became of a permitted message.
    pub(crate) fn tell(&mut self, sink: SinkNo, topic: TopicNo, signal: Signal, now: Instant) {
        let (sink, topic) = (&mut self.sinks[sink.0].breaker, &mut self.topics[topic.0].breaker);
        match signal {
            Signal::Success => {
                sink.succeeded();
                topic.succeeded();
            }
            Signal::Failure(Scope::Sink) => {
                sink.failed(now);
                topic.returned();
            }
            Signal::Failure(Scope::Topic | Scope::Partition) => {
                topic.failed(now);
                sink.returned();
            }
            Signal::Silent => {
                sink.returned();
                topic.returned();
            }
        }
    }

    /// Keeps why a broker failed, for whoever asks why its circuit opened.
    pub(crate) fn blame(&mut self, sink: SinkNo, topic: TopicNo, scope: Scope, reason: &Reason) {
        self.stirred = true;
        let guarded = match scope {
            Scope::Sink => &mut self.sinks[sink.0],
            Scope::Topic | Scope::Partition => &mut self.topics[topic.0],
        };
        guarded.reason = Some(reason.clone());
    }

    /// How many messages may go to a sink now; `None` means any number.
    pub(crate) fn sink_allowance(&mut self, sink: SinkNo, now: Instant) -> Option<usize> {
        self.sinks[sink.0].allowance(now)
    }

    /// How many messages may go to a topic now; `None` means any number.
    pub(crate) fn topic_allowance(&mut self, topic: TopicNo, now: Instant) -> Option<usize> {
        self.topics[topic.0].allowance(now)
    }

    /// How many messages a sink's breaker lets through while it is not closed; `None` when it is.
    pub(crate) fn sink_trials(&mut self, sink: SinkNo, now: Instant) -> Option<usize> {
        self.sinks[sink.0].breaker.allowance(now).map(|most| most as usize)
    }

    /// How many messages a topic's breaker lets through while it is not closed; `None` when it is.
    pub(crate) fn topic_trials(&mut self, topic: TopicNo, now: Instant) -> Option<usize> {
        self.topics[topic.0].breaker.allowance(now).map(|most| most as usize)
    }

    /// Whether a sink is left alone for now.
    pub(crate) fn sink_open(&mut self, sink: SinkNo, now: Instant) -> bool {
        self.sinks[sink.0].breaker.circuit(now) == Circuit::Open
    }

    pub(crate) fn topics(&self) -> impl Iterator<Item = TopicNo> + use<> {
        (0..self.topics.len()).map(TopicNo)
    }

    /// A call to a sink brought receipts and no fault of the broker: the pace grows.
    pub(crate) fn went_well(&mut self, sink: SinkNo, topics: &[TopicNo]) {
        let batch_entries = self.batch_entries;
        self.sinks[sink.0].quicken(batch_entries);
        for topic in topics {
            self.topics[topic.0].quicken(batch_entries);
        }
    }

    /// When the next open breaker lets trials through.
    pub(crate) fn next_trial(&self) -> Option<Instant> {
        self.sinks.iter().chain(&self.topics).filter_map(|guarded| guarded.breaker.reopens_at()).min()
    }

    /// What has changed since it was last asked; an opening resets the pace.
    pub(crate) fn changes(&mut self, now: Instant) -> Vec<Changed> {
        if !self.stirred {
            return Vec::new();
        }
        let trials = self.settings.trials as usize;
        let mut changes = Vec::new();
        for (no, guarded) in self.sinks.iter_mut().enumerate() {
            changes.extend(
                guarded.change(now, trials).map(|(circuit, why)| Changed::Sink(SinkNo(no), circuit, why)),
            );
        }
        for (no, guarded) in self.topics.iter_mut().enumerate() {
            changes.extend(
                guarded.change(now, trials).map(|(circuit, why)| Changed::Topic(TopicNo(no), circuit, why)),
            );
        }
        self.stirred = self.sinks.iter().chain(&self.topics).any(|guarded| !guarded.calm());
        changes
    }

    /// Whether nothing has failed of late: then no allowance has to be asked for.
    pub(crate) fn calm(&self) -> bool {
        !self.stirred
    }

    fn guarded(&self) -> Guarded {
        Guarded {
            breaker: Breaker::new(self.settings.clone()),
            said: Circuit::Closed,
            pace: None,
            reason: None,
        }
    }
}

impl Guarded {
    fn allowance(&mut self, now: Instant) -> Option<usize> {
        self.breaker.allowance(now).map(|most| most as usize).or(self.pace)
    }

    fn calm(&self) -> bool {
        self.said == Circuit::Closed && self.pace.is_none()
    }

    fn change(&mut self, now: Instant, trials: usize) -> Option<(Circuit, Option<Reason>)> {
        let circuit = self.breaker.circuit(now);
        if circuit == self.said {
            return None;
        }
        if circuit == Circuit::Open {
            self.pace = Some(trials.max(1));
        }
        self.said = circuit;
        Some((circuit, self.reason.clone().filter(|_| circuit == Circuit::Open)))
    }

    fn quicken(&mut self, batch_entries: usize) {
        if self.said == Circuit::Closed {
            self.pace = self.pace.map(|pace| pace * 2).filter(|pace| *pace < batch_entries);
        }
    }
}
