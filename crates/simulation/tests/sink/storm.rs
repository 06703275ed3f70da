//! A small relay sends keys through a storm: every fault at once, calls that overlap, calls that are dropped.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::{FutureExt, select};
use futures_util::stream::FuturesUnordered;
use postrider_conformance::sink::envelope;
use postrider_core::clock::Clock;
use postrider_core::sink::{Message, Permit, Sink, Verdicts};
use postrider_core::{Envelope, Key, Text, Verdict};
use postrider_simulation::chance::Chance;
use postrider_simulation::clock::SimClock;
use postrider_simulation::sink::{Broker, Faults, Outage, Record, SimSink};

use super::time::{block_on, timeline};

const SEEDS: u64 = 300;
const KEYS: usize = 4;
const EVENTS_PER_KEY: usize = 8;

/// SNK-01, SNK-02, SNK-05, SNK-12: whatever befalls the broker, what it promises holds.
#[test]
fn in_a_storm_the_contract_holds() {
    let (mut duplicates, mut refusals) = (0, 0);
    for seed in 0..SEEDS {
        let (log, refused) = block_on(storm(seed));
        refusals += refused;
        duplicates += log.len() - KEYS * EVENTS_PER_KEY;
        for key in 0..KEYS {
            let mut seen: Vec<&str> = Vec::new();
            for record in log.iter().filter(|record| record.key.as_ref().unwrap().id == name(key)) {
                if !seen.contains(&&*record.id) {
                    seen.push(&record.id);
                }
            }
            let wanted: Vec<String> = (0..EVENTS_PER_KEY).map(|number| event_id(key, number)).collect();
            assert_eq!(seen, wanted, "seed {seed}: key {key} in order, once duplicates are dropped");
        }
    }
    assert!(duplicates > 100 && refusals > 1_000, "no storm: {duplicates} duplicates, {refusals} refusals");
}

/// The same seed, the same log.
#[test]
fn a_seed_repeats_itself() {
    let run = |seed| std::thread::spawn(move || block_on(storm(seed)).0).join().unwrap();
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

async fn storm(seed: u64) -> (Vec<Record>, usize) {
    let mut chance = Chance::new(seed);
    let clock = SimClock::new(&timeline());
    let broker = Broker::new(Arc::new(clock.clone()), chance.next_u64());
    broker.set_faults(faults());
    let sink = broker.sink("relay");
    let events: Vec<Vec<Envelope>> = (0..KEYS)
        .map(|key| (0..EVENTS_PER_KEY).map(|number| envelope(&event_id(key, number), &name(key))).collect())
        .collect();
    let keys: Vec<Key> = (0..KEYS).map(|key| Key::new("Order", name(key))).collect();
    let desk =
        Desk { state: Mutex::new((0..KEYS).map(|_| Progress::default()).collect()), broker: broker.clone() };
    let mut calls = FuturesUnordered::new();
    let mut sent = 0;
    while !desk.done() {
        weather(&broker, &mut chance, sent);
        while calls.len() < 2 {
            let Some(load) = desk.load(&mut chance) else { break };
            sent += 1;
            let patience = chance.probability(0.15).then(|| Duration::from_millis(chance.below(40)));
            calls.push(call(&sink, &clock, &events, &keys, load, &desk, patience));
        }
        calls.next().await;
        clock.sleep(Duration::from_millis(1)).await;
    }
    drop(calls);
    let refused = desk.state.lock().unwrap().iter().map(|progress| progress.refused).sum();
    (broker.records(), refused)
}

fn faults() -> Faults {
    Faults {
        latency_max: Duration::from_millis(20),
        slow: 0.1,
        slow_max: Duration::from_millis(200),
        reply_lost_after_write: 0.1,
        reply_lost_before_write: 0.1,
        losses_partial: true,
        own_silence: 0.05,
        transient: 0.05,
        partition_busy: 0.05,
        poison: BTreeSet::new(),
        poison_in_company: false,
    }
}

fn weather(broker: &Broker, chance: &mut Chance, sent: usize) {
    if sent > 200 {
        broker.set_faults(Faults::default());
        broker.set_outage(None);
    } else if chance.probability(0.1) {
        let outage = Outage::whole();
        broker.set_outage(Some(if chance.probability(0.5) { outage.silently() } else { outage }));
    } else {
        broker.set_outage(None);
    }
}

type Load = Vec<(usize, usize, bool)>;

async fn call(
    sink: &SimSink,
    clock: &SimClock,
    events: &[Vec<Envelope>],
    keys: &[Key],
    load: Load,
    desk: &Desk,
    patience: Option<Duration>,
) {
    let message = |&(key, number, leads): &(usize, usize, bool)| Message {
        envelope: &events[key][number],
        topic: "orders",
        key: Some(&keys[key]),
        leads,
    };
    let messages: Vec<Message<'_>> = load.iter().map(message).collect();
    let answers = Answers { desk, load: &load, given: Mutex::new(BTreeMap::new()) };
    let deadline = clock.instant() + Duration::from_millis(100);
    let publish = sink.publish(&messages, deadline, &Always, &answers);
    match patience {
        Some(patience) => select(publish, clock.sleep(patience)).map(|_| ()).await,
        None => publish.map(|()| answers.all_are_there()).await,
    }
    desk.end(&load, &answers.given.lock().unwrap());
}

/// What the small relay knows of a key.
#[derive(Default)]
struct Progress {
    /// Events below have a receipt.
    received: usize,
    /// The next one to send.
    next: usize,
    in_flight: usize,
    /// The first message that got no receipt since the last one that leads was sent.
    broken_at: Option<usize>,
    refused: usize,
}

impl Progress {
    fn breaks(&mut self, number: usize) {
        self.broken_at = Some(self.broken_at.map_or(number, |broken_at| broken_at.min(number)));
    }
}

struct Desk {
    state: Mutex<Vec<Progress>>,
    broker: Broker,
}

impl Desk {
    fn done(&self) -> bool {
        self.state.lock().unwrap().iter().all(|progress| progress.received == EVENTS_PER_KEY)
    }

    /// Up to three events of each key; a broken key waits until it has heard of everything in flight.
    fn load(&self, chance: &mut Chance) -> Option<Load> {
        let mut load = Load::new();
        for (key, progress) in self.state.lock().unwrap().iter_mut().enumerate() {
            if progress.broken_at.is_some() && progress.in_flight > 0 {
                continue;
            }
            for _ in 0..chance.below(4) {
                if progress.next == EVENTS_PER_KEY {
                    break;
                }
                let leads = progress.in_flight == 0;
                if leads {
                    progress.broken_at = None;
                }
                load.push((key, progress.next, leads));
                progress.next += 1;
                progress.in_flight += 1;
            }
        }
        (!load.is_empty()).then_some(load)
    }

    fn hear(&self, key: usize, number: usize, verdict: &Verdict) {
        let progress = &mut self.state.lock().unwrap()[key];
        if *verdict == Verdict::Receipt {
            let behind = progress.broken_at.filter(|broken_at| *broken_at < number);
            assert_eq!(behind, None, "SNK-05: key {key} got a receipt for {number} behind a failed one");
            assert_eq!(progress.received, number, "SNK-05: receipts of key {key} in order");
            let id = event_id(key, number);
            let stored =
                |log: &[Record]| log.iter().any(|record| record.id == id && record.receipt_at.is_some());
            assert!(self.broker.with_records(stored), "SNK-01: {id} has a receipt");
            progress.received = number + 1;
        } else {
            progress.breaks(number);
            progress.refused += 1;
        }
    }

    /// A call is over; what it did not answer is in doubt.
    fn end(&self, load: &Load, given: &BTreeMap<usize, Verdict>) {
        let mut state = self.state.lock().unwrap();
        for (index, (key, number, _)) in load.iter().enumerate() {
            let progress = &mut state[*key];
            progress.in_flight -= 1;
            if !given.contains_key(&index) {
                progress.breaks(*number);
            }
            if progress.broken_at.is_some() && progress.in_flight == 0 {
                progress.next = progress.received;
            }
        }
    }
}

struct Answers<'a> {
    desk: &'a Desk,
    load: &'a Load,
    given: Mutex<BTreeMap<usize, Verdict>>,
}

impl Answers<'_> {
    fn all_are_there(&self) {
        assert_eq!(self.given.lock().unwrap().len(), self.load.len(), "SNK-02: one verdict each");
    }
}

impl Verdicts for Answers<'_> {
    fn hand(&self, chunk: Vec<(usize, Verdict)>) {
        for (index, verdict) in chunk {
            let (key, number, _) = self.load[index];
            self.desk.hear(key, number, &verdict);
            assert_eq!(self.given.lock().unwrap().insert(index, verdict), None, "SNK-02: a second verdict");
        }
    }
}

struct Always;

impl Permit for Always {
    fn ask(&self, _index: usize) -> bool {
        true
    }
}

fn name(key: usize) -> Text {
    Text::from(format!("key-{key}"))
}

fn event_id(key: usize, number: usize) -> String {
    format!("{key}.{number}")
}
