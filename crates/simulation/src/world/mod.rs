//! One world, from its scenario to the evidence it leaves.

mod fate;
mod populate;
mod watch;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use postrider_core::State;
use postrider_relay::Stop;

use crate::chance::Chance;
use crate::clock::{SimClock, Timeline};
use crate::evidence::{Accepted, Evidence, Stored};
use crate::executor::{Executor, TaskNo};
use crate::scenario::Scenario;
use crate::sink::{Broker, Outage, Settings as BrokerSettings};
use crate::source::{Flaw, Outbox, OutboxSettings, Way};
use crate::witness::{Lie, OwnFailures};
use crate::writers::Ledger;
use watch::Watch;

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
            retry_runs: None,
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
