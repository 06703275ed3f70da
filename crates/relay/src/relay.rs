//! The relay: its verbs, on one screen.

use std::sync::{Arc, Mutex};

use postrider_core::clock::Clock;
use postrider_core::route::Router;
use postrider_core::sink::Sink;
use postrider_core::source::Source;
use postrider_core::{Fault, Text};

use crate::engine::Engine;
use crate::observe::Observer;
use crate::settings::Settings;
use crate::stop::Stop;
use crate::wake::Woke;

/// Chance in `0.0..1.0`, as an argument.
pub type Chance = Mutex<Box<dyn FnMut() -> f64 + Send>>;

/// Carries entries from one source to its sinks.
pub struct Relay<S: Source> {
    /// Where entries come from.
    pub source: S,
    /// Where they go, by name; the first is the default.
    pub sinks: Vec<(Text, Arc<dyn Sink>)>,
    /// Which goes where.
    pub router: Arc<Router>,
    /// How.
    pub settings: Settings,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Chance.
    pub chance: Chance,
    /// Who looks on.
    pub observer: Arc<dyn Observer>,
}

/// What a relay did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Entries settled as published.
    pub published: u64,
    /// Failed tries that were counted.
    pub retried: u64,
    /// Entries given up.
    pub dead: u64,
    /// Why it ended.
    pub ended: Ended,
    /// Entries that were neither settled nor released when the time for stopping was over.
    pub abandoned: usize,
}

/// Why a relay ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ended {
    /// It was asked to.
    #[default]
    Stopped,
    /// Nothing was left to do.
    Empty,
    /// The broker stayed away for longer than it was to wait.
    BrokerAway,
}

impl<S: Source> Relay<S> {
    /// Runs until it is stopped, or until nothing is left if so told. What was claimed is settled or released before it
    /// returns. Dropping the future instead is what a crash is.
    ///
    /// # Errors
    /// When going on would lose or repeat events, and when a route names a sink that is not there.
    pub async fn run(&self, stop: &Stop) -> Result<Summary, Fault> {
        let mut engine = Engine::new(self)?;
        while !engine.ended() {
            engine.settle();
            engine.publish();
            engine.extend();
            engine.claim();
            match engine.wake(stop).await {
                Woke::Claimed(answer) => {
                    let claim = engine.claimed(answer);
                    engine.stir().await;
                    engine.plan(claim);
                }
                Woke::Verdicts(shipment, verdicts) => engine.judge(shipment, verdicts),
                Woke::Published(shipment) => engine.published(shipment),
                Woke::Settled(settled) => engine.settled(settled),
                Woke::Extended(extended) => engine.extended(extended),
                Woke::Nudged => engine.hurry(),
                Woke::Stopped => engine.stop(),
                Woke::Due => {}
            }
        }
        engine.finish().await
    }
}
