//! One world, from its scenario to the evidence it leaves.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::SignedDuration;
use postrider_core::route::{Route, Router};
use postrider_core::sink::Sink;
use postrider_core::{State, Text};
use postrider_relay::{Observer, Poll, Relay, Settings, Step, Stop};

use crate::chance::Chance;
use crate::clock::{SimClock, Timeline};
use crate::evidence::{Accepted, Evidence, Stored};
use crate::executor::{Executor, TaskNo};
use crate::scenario::{Blow, Scenario};
use crate::sink::{Broker, Faults, Outage, Settings as BrokerSettings};
use crate::source::{Flaw, Outbox, OutboxSettings, Trouble, Way};
use crate::witness::{Lie, OwnFailures, Witness};
use crate::writers::{Ledger, writer};

/// How a world's relays are broken, so that the checkers can be seen to notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// In the source.
    Source(Flaw),
    /// In what it believes of verdicts.
    Belief(Lie),
}

/// Lives a scenario through and says what is left.
#[must_use]
pub fn live(scenario: &Scenario, way: Way, broken: Option<Broken>) -> Evidence {
    World::new(scenario, way, broken, false).live()
}

/// The same, with every step in words.
#[must_use]
pub fn live_traced(scenario: &Scenario, way: Way) -> Evidence {
    World::new(scenario, way, None, true).live()
}

/// Polls without time passing, after which a world is said to spin.
const SPIN_POLLS: u64 = 200_000;

struct World {
    scenario: Scenario,
    broken: Option<Broken>,
    chance: Chance,
    timeline: Timeline,
    database_clock: SimClock,
    executor: Executor,
    outbox: Outbox,
    brokers: Vec<Broker>,
    ledger: Ledger,
    lives: Vec<Life>,
    own_failures: OwnFailures,
    watch: Arc<Watch>,
    /// What ends later: outages, pauses, the absence of the killed.
    due: BTreeMap<(Duration, u64), After>,
    numbers: u64,
    calm: bool,
}

/// One place at which a relay runs; its holder changes when it is started anew.
struct Life {
    task: TaskNo,
    stop: Stop,
    clock: SimClock,
    restarting: bool,
}

enum After {
    Start(usize),
    Resume(usize),
    OutageOver(usize, Outage),
    DatabaseBack,
}

/// Looks on: how much memory a relay holds, and how it ended.
#[derive(Default)]
struct Watch {
    timeline: Timeline,
    bytes_held_most: AtomicUsize,
    steps: Mutex<Vec<String>>,
    traced: bool,
    failures: Mutex<Vec<String>>,
}

impl Observer for Watch {
    fn saw(&self, step: &Step<'_>) {
        if let Step::Claimed { bytes_held, .. } = step {
            self.bytes_held_most.fetch_max(*bytes_held, Ordering::Relaxed);
        }
        if self.traced {
            self.note(format!("{step:?}"));
        }
    }
}

impl Watch {
    fn fail(&self, why: &str) {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).push(why.to_string());
    }

    fn note(&self, step: String) {
        let at = self.timeline.now().as_secs_f64();
        self.steps.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{at:10.4} {step}"));
    }
}

impl World {
    fn new(scenario: &Scenario, way: Way, broken: Option<Broken>, traced: bool) -> Self {
        let mut chance = Chance::new(scenario.seed ^ 0x5EED);
        let timeline = Timeline::default();
        let database_clock = SimClock::new(&timeline);
        let flaw = match broken {
            Some(Broken::Source(flaw)) => Some(flaw),
            _ => None,
        };
        let settings = OutboxSettings {
            way,
            hold_dead: scenario.hold_dead,
            ordered: true,
            lease_ttl: scenario.lease_ttl,
            flaw,
        };
        let outbox = Outbox::new(Arc::new(database_clock.clone()), settings, chance.fork());
        let broker_settings = BrokerSettings {
            partitions: u32::try_from(chance.between(1, 3)).unwrap_or(1),
            ordered_stream: chance.probability(0.7),
            window_entries: usize::try_from(chance.between(1, 20)).unwrap_or(1),
            ..BrokerSettings::default()
        };
        let brokers = (0..scenario.sinks)
            .map(|_| {
                let clock = Arc::new(SimClock::new(&timeline));
                Broker::with_settings(clock, chance.next_u64(), broker_settings.clone())
            })
            .collect();
        let watch = Watch { timeline: timeline.clone(), traced, ..Watch::default() };
        Self {
            scenario: scenario.clone(),
            broken,
            executor: Executor::new(&timeline, chance.fork()),
            timeline,
            database_clock,
            outbox,
            brokers,
            ledger: Ledger::default(),
            lives: Vec::new(),
            own_failures: OwnFailures::default(),
            watch: Arc::new(watch),
            due: BTreeMap::new(),
            numbers: 0,
            calm: false,
            chance,
        }
    }

    fn live(mut self) -> Evidence {
        self.populate();
        let mut blows = self.scenario.blows.clone().into_iter().peekable();
        let mut looked_at = Duration::ZERO;
        let mut polls = (Duration::ZERO, 0);
        let finished = loop {
            let now = self.timeline.now();
            polls = if polls.0 == now { (now, polls.1 + 1) } else { (now, 0) };
            if polls.1 > SPIN_POLLS {
                self.watch.fail("it spins: time does not pass");
                break false;
            }
            while let Some((_, blow)) = blows.next_if(|(at, _)| *at <= now) {
                self.strike(blow, now);
            }
            self.let_happen(now);
            if !self.calm && now >= self.scenario.calm_at {
                self.calm_down();
            }
            // A look at the whole table is dear: now and then is enough.
            if self.calm && now >= looked_at + Duration::from_millis(500) {
                looked_at = now;
                if self.at_rest() {
                    break true;
                }
            }
            if now >= self.scenario.done_by() {
                break false;
            }
            let next_blow = blows.peek().map(|(at, _)| *at);
            let next_due = self.due.keys().next().map(|(at, _)| *at);
            let until = [Some(self.scenario.done_by()), next_blow, next_due, self.next_look(looked_at, now)];
            self.executor.step(until.into_iter().flatten().min().unwrap_or(now));
        };
        let finished = finished && self.all_stop();
        self.evidence(finished)
    }

    fn next_look(&self, looked_at: Duration, now: Duration) -> Option<Duration> {
        if self.calm {
            Some(looked_at + Duration::from_millis(500))
        } else {
            Some(self.scenario.calm_at.max(now))
        }
    }

    fn populate(&mut self) {
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

    fn start(&mut self, place: usize) -> Life {
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
        });
        Router::new(routes.collect(), "s0", "{domain}")
    }

    fn sink_of(&self, topic: usize) -> usize {
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

    fn strike(&mut self, blow: Blow, now: Duration) {
        self.watch.note(format!("{blow:?}"));
        match blow {
            Blow::Kill { relay, back_after } => {
                self.executor.kill(self.lives[relay].task);
                self.later(now + back_after, After::Start(relay));
            }
            Blow::Restart { relay } => {
                self.lives[relay].stop.stop();
                self.lives[relay].restarting = true;
            }
            Blow::Pause { relay, span } => {
                self.executor.pause(self.lives[relay].task, true);
                self.later(now + span, After::Resume(relay));
            }
            Blow::Outage { topic, span } => {
                let any = usize::try_from(self.chance.below(self.scenario.sinks as u64)).unwrap_or(0);
                let sink = topic.map_or(any, |topic| self.sink_of(topic));
                let outage = match topic {
                    Some(topic) => Outage::of_topic(format!("t{topic}")),
                    None => Outage::whole(),
                };
                let outage = if self.chance.probability(0.3) { outage.silently() } else { outage };
                self.brokers[sink].begin_outage(outage.clone());
                self.later(now + span, After::OutageOver(sink, outage));
            }
            Blow::DatabaseOutage { span } => {
                self.set_trouble(true);
                self.later(now + span, After::DatabaseBack);
            }
            Blow::ClockJump { millis } => self.database_clock.jump(SignedDuration::from_millis(millis)),
            Blow::RelayClockJump { relay, millis } => {
                self.lives[relay].clock.jump(SignedDuration::from_millis(millis));
            }
        }
    }

    fn later(&mut self, at: Duration, after: After) {
        self.numbers += 1;
        self.due.insert((at, self.numbers), after);
    }

    /// What was to happen by now happens, and who was asked to restart and has stopped is started again.
    fn let_happen(&mut self, now: Duration) {
        while let Some(entry) = self.due.first_entry()
            && entry.key().0 <= now
        {
            match entry.remove() {
                After::Start(place) => {
                    self.executor.kill(self.lives[place].task);
                    self.lives[place] = self.start(place);
                }
                After::Resume(place) => self.executor.pause(self.lives[place].task, false),
                After::OutageOver(sink, outage) => self.brokers[sink].end_outage(&outage),
                After::DatabaseBack => self.set_trouble(false),
            }
        }
        for place in 0..self.lives.len() {
            if self.lives[place].restarting && !self.executor.alive(self.lives[place].task) {
                self.lives[place] = self.start(place);
            }
        }
    }

    fn calm_down(&mut self) {
        self.calm = true;
        self.let_happen(Duration::MAX);
        self.set_trouble(false);
        self.set_faults(true);
        for broker in &self.brokers {
            broker.set_outage(None);
        }
    }

    fn set_trouble(&self, away: bool) {
        let faults = self.scenario.faults;
        self.outbox.set_trouble(if self.calm {
            Trouble::default()
        } else {
            Trouble {
                away,
                reply_lost: faults.database_reply_lost,
                slow: faults.slow / 4.0,
                slow_most: self.scenario.lease_ttl,
            }
        });
    }

    /// Messages' own faults stay when the rest is calm: they are no faults of the world.
    fn set_faults(&mut self, calm: bool) {
        self.set_trouble(false);
        let faults = self.scenario.faults;
        let poison: BTreeSet<Text> = (1..=self.scenario.events + 16)
            .filter(|no| is_poison(&self.scenario, *no))
            .map(|no| format!("e{no}").into())
            .collect();
        let own = Faults {
            latency_max: Duration::from_millis(20),
            transient: self.scenario.transient,
            own_silence: self.scenario.transient / 4.0,
            poison,
            poison_in_company: self.scenario.seed.is_multiple_of(2),
            ..Faults::default()
        };
        let all = Faults {
            slow: faults.slow,
            slow_max: self.scenario.publish_deadline.mul_f64(1.5),
            reply_lost_after_write: faults.reply_lost,
            reply_lost_before_write: faults.reply_lost,
            partition_busy: faults.reply_lost / 2.0,
            ..own.clone()
        };
        for broker in &self.brokers {
            broker.set_faults(if calm { own.clone() } else { all.clone() });
        }
    }

    /// Whether nothing is left that any relay could do.
    fn at_rest(&self) -> bool {
        if !self.ledger.idle() {
            return false;
        }
        let recorded = self.outbox.recorded();
        let mut held: BTreeSet<&str> = BTreeSet::new();
        recorded.iter().all(|row| {
            if row.state == State::Dead && self.scenario.hold_dead {
                held.insert(&row.key.id);
            }
            !matches!(row.state, State::Pending | State::Leased) || held.contains(&*row.key.id)
        })
    }

    /// Every relay stops when it is asked to, and well within its time.
    fn all_stop(&mut self) -> bool {
        for life in &self.lives {
            life.stop.stop();
        }
        let until = self.timeline.now() + Duration::from_secs(30);
        while self.lives.iter().any(|life| self.executor.alive(life.task)) && self.timeline.now() < until {
            self.executor.step(until);
        }
        self.lives.iter().all(|life| !self.executor.alive(life.task))
    }

    fn evidence(self, finished: bool) -> Evidence {
        let stored = self.outbox.recorded().into_iter();
        let stored: HashMap<_, _> = stored
            .map(|row| (row.event.to_string(), Stored { state: row.state, retries: row.retries }))
            .collect();
        let accepted = self.brokers.iter().flat_map(Broker::records).map(|record| Accepted {
            event: record.id.to_string(),
            topic: record.topic.to_string(),
            relay: record.relay.to_string(),
            bytes: record.bytes_hash,
        });
        Evidence {
            written: self.ledger.written(),
            accepted: accepted.collect(),
            own_failures: self.own_failures.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            stored,
            bytes_held_most: self.watch.bytes_held_most.load(Ordering::Relaxed),
            entry_bytes_most: self.ledger.entry_bytes_most(),
            overlaps: self.outbox.overlaps(),
            steps: std::mem::take(&mut self.watch.steps.lock().unwrap_or_else(PoisonError::into_inner)),
            failures: self.watch.failures.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            finished,
            scenario: self.scenario,
        }
    }
}

/// Whether the broker can never take an event: decided by its number, before anybody writes it.
pub(crate) fn is_poison(scenario: &Scenario, event: u64) -> bool {
    Chance::new(scenario.seed.wrapping_mul(31).wrapping_add(event)).probability(scenario.poison)
}
