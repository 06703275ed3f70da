//! Who lives in a world: writers and relays.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use postrider_core::Text;
use postrider_core::route::{Route, Router};
use postrider_core::sink::Sink;
use postrider_relay::{Observer, Poll, Relay, Settings, Stop};

use super::{Broken, Life, World};
use crate::clock::SimClock;
use crate::witness::Witness;
use crate::writers::writer;

impl World {
    pub(super) fn populate(&mut self) {
        self.set_faults(false);
        for _ in 0..self.scenario.writers {
            let chance = self.chance.fork();
            let clock = Arc::new(SimClock::new(&self.timeline));
            let task = writer(&self.scenario, &self.ledger, &self.outbox, clock, chance);
            self.executor.start(task);
        }
        for place in 0..self.scenario.relays {
            let life = self.start(place);
            self.lives.push(life);
        }
    }

    pub(super) fn start(&mut self, place: usize) -> Life {
        self.numbers += 1;
        let name = format!("relay-{place}.{}", self.numbers);
        let clock = SimClock::new(&self.timeline);
        let mut chance = self.chance.fork();
        let relay = Relay {
            source: self.outbox.source(&name),
            sinks: self.sinks(&name),
            router: Arc::new(self.router()),
            settings: self.settings(),
            clock: Arc::new(clock.clone()),
            chance: Mutex::new(Box::new(move || chance.unit())),
            observer: Arc::clone(&self.watch) as Arc<dyn Observer>,
        };
        let stop = Stop::new();
        let (asked, watch) = (stop.clone(), Arc::clone(&self.watch));
        let task = self.executor.start(Box::pin(async move {
            if let Err(fault) = relay.run(&asked).await {
                watch.fail(&fault.to_string());
            }
        }));
        Life { task, stop, clock, restarting: false }
    }

    fn sinks(&self, relay: &str) -> Vec<(Text, Arc<dyn Sink>)> {
        let lie = match self.broken {
            Some(Broken::Belief(lie)) => Some(lie),
            _ => None,
        };
        let named = self.brokers.iter().enumerate().map(|(no, broker)| {
            let sink = broker.sink(relay.to_string());
            let witness = Witness { sink, own_failures: Arc::clone(&self.own_failures), lie };
            (Text::from(format!("s{no}")), Arc::new(witness) as Arc<dyn Sink>)
        });
        named.collect()
    }

    fn router(&self) -> Router {
        let routes = (0..self.scenario.topics).map(|topic| Route {
            event_type: format!("sim.t{topic}.*"),
            sink: Some(format!("s{}", self.sink_of(topic)).into()),
            topic: Some(format!("t{topic}")),
            order: None,
        });
        Router::new(routes.collect(), "s0", "{domain}")
    }

    pub(super) fn sink_of(&self, topic: usize) -> usize {
        topic % self.scenario.sinks
    }

    fn settings(&self) -> Settings {
        Settings {
            batch_entries: self.scenario.batch_entries,
            in_flight_bytes: self.scenario.in_flight_bytes,
            publish_deadline: self.scenario.publish_deadline,
            poll: Poll::Adaptive { busy: Duration::from_millis(5), idle: Duration::from_millis(200) },
            retry: self.scenario.retry.clone(),
            breaker: self.scenario.breaker.clone(),
            ..Settings::default()
        }
    }
}
