//! What a seed decides before a world begins.

use std::time::Duration;

use postrider_core::{breaker, retry};

use crate::chance::Chance;

/// One world: its outbox, its writers, its relays, and what will befall them.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The seed it came from.
    pub seed: u64,
    /// Relays side by side.
    pub relays: usize,
    /// Sinks; the topics are spread over them.
    pub sinks: usize,
    /// Topics in all.
    pub topics: usize,
    /// Keys that events belong to.
    pub keys: u64,
    /// Events that writers try to append.
    pub events: u64,
    /// Writers side by side.
    pub writers: u64,
    /// The share of transactions that are rolled back.
    pub rollbacks: f64,
    /// The longest time that a transaction stays open.
    pub transaction_max: Duration,
    /// Whether a dead entry holds its key.
    pub hold_dead: bool,
    /// The share of events that a broker can never take.
    pub poison: f64,
    /// How often a message fails for a reason of its own that passes.
    pub transient: f64,
    /// Entries per claim.
    pub batch_entries: usize,
    /// Bytes held in claims.
    pub in_flight_bytes: usize,
    /// The lease.
    pub lease_ttl: Duration,
    /// The deadline of a publish call.
    pub publish_deadline: Duration,
    /// Retries.
    pub retry: retry::Policy,
    /// The breakers.
    pub breaker: breaker::Settings,
    /// Which faults there are in this world.
    pub faults: Faults,
    /// When the last fault is over.
    pub calm_at: Duration,
    /// What befalls it, in order of time.
    pub blows: Vec<(Duration, Blow)>,
}

/// Which kinds of faults a world has; the checkers explain duplicates by them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// How often a broker's reply is lost.
    pub reply_lost: f64,
    /// How often a database's reply is lost.
    pub database_reply_lost: f64,
    /// How often an answer is slow.
    pub slow: f64,
    /// Whether relays die, are paused, or have their lease's clock jump.
    pub deaths: bool,
}

/// One thing that happens to a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blow {
    /// A relay is killed, and another started in its place after a while.
    Kill {
        /// Which.
        relay: usize,
        /// When its successor starts.
        back_after: Duration,
    },
    /// A relay is asked to stop, and started again.
    Restart {
        /// Which.
        relay: usize,
    },
    /// A relay stands still without knowing.
    Pause {
        /// Which.
        relay: usize,
        /// For how long.
        span: Duration,
    },
    /// The broker is away.
    Outage {
        /// One topic of it, or all.
        topic: Option<usize>,
        /// For how long.
        span: Duration,
    },
    /// The database is away.
    DatabaseOutage {
        /// For how long.
        span: Duration,
    },
    /// The database's clock jumps.
    ClockJump {
        /// By so many milliseconds.
        millis: i64,
    },
    /// A relay's wall clock jumps.
    RelayClockJump {
        /// Which.
        relay: usize,
        /// By so many milliseconds.
        millis: i64,
    },
}

impl Scenario {
    /// Draws a world.
    #[must_use]
    pub fn draw(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let relays = usize::try_from(chance.between(1, 3)).unwrap_or(1);
        let topics = usize::try_from(chance.between(1, 4)).unwrap_or(1);
        let calm_at = secs(chance.between(20, 90));
        // One world in four has no faults at all, so that a duplicate there has no excuse.
        let troubled = chance.below(4) > 0;
        let faults = if troubled { draw_faults(&mut chance) } else { Faults::default() };
        let blows =
            if troubled { draw_blows(&mut chance, &faults, relays, topics, calm_at) } else { Vec::new() };
        let waits = (0..4).map(|_| Duration::from_millis(chance.between(1, 3_000))).collect();
        Self {
            seed,
            relays,
            sinks: usize::try_from(chance.between(1, 2)).unwrap_or(1).min(topics),
            topics,
            keys: chance.between(1, 12),
            events: chance.between(20, 160),
            writers: chance.between(1, 4),
            rollbacks: 0.2 * chance.unit(),
            transaction_max: Duration::from_millis(chance.between(1, 5_000)),
            hold_dead: chance.probability(0.5),
            poison: if chance.probability(0.5) { 0.03 } else { 0.0 },
            transient: if chance.probability(0.5) { 0.1 } else { 0.0 },
            batch_entries: usize::try_from(chance.between(1, 24)).unwrap_or(1),
            in_flight_bytes: usize::try_from(chance.between(2_000, 64_000)).unwrap_or(2_000),
            lease_ttl: secs(chance.between(2, 10)),
            publish_deadline: secs(chance.between(1, 6)),
            retry: retry::Policy {
                retries_max: u32::try_from(chance.between(0, 5)).unwrap_or(0),
                backoff: retry::Backoff::Steps(waits),
            },
            breaker: breaker::Settings { open: secs(chance.between(1, 30)), ..breaker::Settings::default() },
            faults,
            calm_at,
            blows,
        }
    }

    /// When everything must be done: faults over, breakers tried, leases expired, retries used up.
    #[must_use]
    pub fn done_by(&self) -> Duration {
        self.calm_at + secs(600)
    }
}

fn draw_faults(chance: &mut Chance) -> Faults {
    let mut some = |p: f64, share: f64| if chance.probability(p) { share * chance.unit() } else { 0.0 };
    let (reply_lost, database_reply_lost, slow) = (some(0.5, 0.1), some(0.5, 0.1), some(0.7, 0.5));
    Faults { reply_lost, database_reply_lost, slow, deaths: chance.probability(0.7) }
}

fn draw_blows(
    chance: &mut Chance,
    faults: &Faults,
    relays: usize,
    topics: usize,
    calm_at: Duration,
) -> Vec<(Duration, Blow)> {
    let count = chance.between(0, 8);
    let mut blows: Vec<_> = (0..count)
        .map(|_| {
            let at = Duration::from_millis(chance.below(u64::try_from(calm_at.as_millis()).unwrap_or(1)));
            (at, draw_blow(chance, faults, relays, topics, calm_at.saturating_sub(at)))
        })
        .collect();
    blows.sort_by_key(|(at, _)| *at);
    blows
}

/// No blow outlasts the calm, so that liveness can be asked for after it.
fn draw_blow(chance: &mut Chance, faults: &Faults, relays: usize, topics: usize, left: Duration) -> Blow {
    let relay = usize::try_from(chance.below(relays as u64)).unwrap_or(0);
    let topic = usize::try_from(chance.below(topics as u64)).unwrap_or(0);
    let most = u64::try_from(left.as_millis()).unwrap_or(1);
    let span = Duration::from_millis(chance.between(0, most));
    let short = Duration::from_millis(chance.between(0, most.min(15_000)));
    let millis = i64::try_from(chance.between(0, 120_000)).unwrap_or(0) - 60_000;
    match chance.below(if faults.deaths { 8 } else { 4 }) {
        0 => Blow::Outage { topic: None, span },
        1 => Blow::Outage { topic: Some(topic), span },
        2 => Blow::Restart { relay },
        3 => Blow::RelayClockJump { relay, millis },
        4 => Blow::DatabaseOutage { span: short },
        5 => Blow::ClockJump { millis },
        6 => Blow::Pause { relay, span: short },
        _ => Blow::Kill { relay, back_after: short },
    }
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
