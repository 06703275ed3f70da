//! A small stage for one relay: its outbox, its broker, its clock, and a note of every publish call.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use postrider_core::clock::{BoxFuture, Instant};
use postrider_core::route::{Route, Router};
use postrider_core::sink::{Message, Permit, Sink, SinkFeatures, Verdicts};
use postrider_core::{Envelope, Fault, State};
use postrider_relay::{Quiet, Relay, Settings, Stop, Summary};
use postrider_simulation::chance::Chance;
use postrider_simulation::clock::{SimClock, Timeline};
use postrider_simulation::executor::{Executor, TaskNo};
use postrider_simulation::sink::{Broker, Settings as BrokerSettings, SimSink};
use postrider_simulation::source::{Outbox, OutboxSettings, Recorded, Way};

pub(crate) struct Stage {
    pub(crate) timeline: Timeline,
    pub(crate) executor: Executor,
    pub(crate) outbox: Outbox,
    pub(crate) broker: Broker,
    pub(crate) settings: Settings,
    pub(crate) stop: Stop,
    pub(crate) calls: Arc<Mutex<Vec<Call>>>,
    pub(crate) ended: Arc<Mutex<Option<Summary>>>,
    events: u64,
}

/// One publish call: which events, and how many of them were attempted.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) relay: &'static str,
    pub(crate) at: Duration,
    pub(crate) events: Vec<String>,
    pub(crate) attempted: usize,
}

impl Stage {
    pub(crate) fn new(way: Way) -> Self {
        Self::with(OutboxSettings { way, ..OutboxSettings::default() })
    }

    pub(crate) fn with(settings: OutboxSettings) -> Self {
        let timeline = Timeline::default();
        let clock = Arc::new(SimClock::new(&timeline));
        let broker_settings = BrokerSettings { partitions: 1, ..BrokerSettings::default() };
        Self {
            executor: Executor::new(&timeline, Chance::new(1)),
            outbox: Outbox::new(clock.clone(), settings, Chance::new(2)),
            broker: Broker::with_settings(clock, 3, broker_settings),
            settings: Settings::default(),
            stop: Stop::new(),
            calls: Arc::default(),
            ended: Arc::default(),
            events: 0,
            timeline,
        }
    }

    /// Appends an event of a key, for a topic, in a transaction of its own.
    pub(crate) fn append(&mut self, key: &str, topic: &str) -> String {
        self.events += 1;
        let event = format!("{key}{}", self.events);
        let mut writer = self.outbox.begin();
        writer.append(Envelope {
            id: event.clone().into(),
            source: "/test".into(),
            event_type: format!("test.{topic}.happened.v1").into(),
            time: jiff::Timestamp::UNIX_EPOCH,
            content_type: None,
            aggregate_type: "K".into(),
            aggregate_id: key.to_string().into(),
            partition_key: None,
            sequence: None,
            trace: None,
            extensions: BTreeMap::new(),
            data: bytes::Bytes::from_static(b"{}"),
        });
        writer.commit();
        event
    }

    pub(crate) fn start(&mut self) -> TaskNo {
        self.start_as("relay")
    }

    /// Starts a relay under a name of its own.
    pub(crate) fn start_as(&mut self, name: &'static str) -> TaskNo {
        let sink = Noted {
            relay: name,
            sink: self.broker.sink(name),
            timeline: self.timeline.clone(),
            calls: self.calls.clone(),
        };
        let route = Route { event_type: "*".into(), sink: None, topic: Some("{domain}".into()), order: None };
        let relay = Relay {
            source: self.outbox.source(name),
            sinks: vec![("broker".into(), Arc::new(sink))],
            router: Arc::new(Router::new(vec![route], "broker", "{domain}")),
            settings: self.settings.clone(),
            clock: Arc::new(SimClock::new(&self.timeline)),
            chance: Mutex::new(Box::new(|| 0.0)),
            observer: Arc::new(Quiet),
        };
        let (stop, ended) = (self.stop.clone(), self.ended.clone());
        self.executor.start(Box::pin(async move {
            let summary = relay.run(&stop).await.expect("the relay has no reason to fail");
            *ended.lock().expect("no panic") = Some(summary);
        }))
    }

    /// Lets simulated time pass.
    pub(crate) fn pass(&mut self, span: Duration) {
        let until = self.timeline.now() + span;
        while self.timeline.now() < until {
            self.executor.step(until);
        }
    }

    /// Events that the broker has, in order.
    pub(crate) fn accepted(&self) -> Vec<String> {
        self.broker.records().into_iter().map(|record| record.id.to_string()).collect()
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        self.calls.lock().expect("no panic").clone()
    }

    pub(crate) fn recorded(&self, event: &str) -> Recorded {
        self.outbox.recorded().into_iter().find(|row| *row.event == *event).expect("it was committed")
    }

    pub(crate) fn count(&self, state: State) -> usize {
        self.outbox.recorded().iter().filter(|row| row.state == state).count()
    }
}

struct Noted {
    relay: &'static str,
    sink: SimSink,
    timeline: Timeline,
    calls: Arc<Mutex<Vec<Call>>>,
}

impl Sink for Noted {
    fn features(&self) -> SinkFeatures {
        self.sink.features()
    }

    fn publish<'a>(
        &'a self,
        messages: &'a [Message<'a>],
        deadline: Instant,
        permit: &'a dyn Permit,
        verdicts: &'a dyn Verdicts,
    ) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let events = messages.iter().map(|message| message.envelope.id.to_string()).collect();
            let number = {
                let mut calls = self.calls.lock().expect("no panic");
                calls.push(Call { relay: self.relay, at: self.timeline.now(), events, attempted: 0 });
                calls.len() - 1
            };
            let counted = Counted { permit, calls: &self.calls, number };
            self.sink.publish(messages, deadline, &counted, verdicts).await;
        })
    }

    fn probe(&self) -> BoxFuture<'_, Result<(), Fault>> {
        self.sink.probe()
    }

    fn drain(&self, within: Duration) -> BoxFuture<'_, ()> {
        self.sink.drain(within)
    }
}

struct Counted<'a> {
    permit: &'a dyn Permit,
    calls: &'a Mutex<Vec<Call>>,
    number: usize,
}

impl Permit for Counted<'_> {
    fn ask(&self, index: usize) -> bool {
        let granted = self.permit.ask(index);
        self.calls.lock().expect("no panic")[self.number].attempted += usize::from(granted);
        granted
    }
}
