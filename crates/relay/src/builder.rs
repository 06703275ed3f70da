//! A relay inside a service of one's own (D7): the same engine as the binary's, with the layout's own settings.

use std::sync::{Arc, Mutex};

use postrider_core::clock::Clock;
use postrider_core::layout::Layout;
use postrider_core::route::Route;
use postrider_core::sink::Sink;
use postrider_core::source::Source;
use postrider_core::{Fault, Text};

use crate::observe::{Observer, Quiet};
use crate::relay::{Chance, Relay};
use crate::settings::Settings;
use crate::system::SystemClock;

/// Puts a relay together.
///
/// ```
/// # use postrider_core::{Layout, source::Source, sink::Sink};
/// # use std::sync::Arc;
/// # async fn embed(source: impl Source, sink: Arc<dyn Sink>, layout: Layout) -> Result<(), postrider_core::Fault> {
/// use postrider_relay::{Relay, Stop};
///
/// let relay = Relay::builder(source, &layout).sink("kafka", sink).build()?;
/// let stop = Stop::new();          // stop.stop() from anywhere, any clone: what is in hand is finished first
/// relay.run(&stop).await?;
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct Builder<S: Source> {
    source: S,
    sinks: Vec<(Text, Arc<dyn Sink>)>,
    routes: Vec<Route>,
    layout: Layout,
    settings: Settings,
    clock: Arc<dyn Clock>,
    chance: Option<Chance>,
    observer: Arc<dyn Observer>,
}

impl<S: Source> Relay<S> {
    /// A relay over a source, with the settings that its layout has: interval, batch, retries, topic.
    pub fn builder(source: S, layout: &Layout) -> Builder<S> {
        Builder {
            source,
            sinks: Vec::new(),
            routes: Vec::new(),
            layout: layout.clone(),
            settings: Settings::of(layout),
            clock: Arc::new(SystemClock::new()),
            chance: None,
            observer: Arc::new(Quiet),
        }
    }
}

impl<S: Source> Builder<S> {
    /// Where entries go; the first sink takes what no route sends elsewhere.
    pub fn sink(mut self, name: impl Into<Text>, sink: Arc<dyn Sink>) -> Self {
        self.sinks.push((name.into(), sink));
        self
    }

    /// One more route; the first that matches wins.
    pub fn route(mut self, route: Route) -> Self {
        self.routes.push(route);
        self
    }

    /// Changes the layout's settings.
    pub fn settings(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        self
    }

    /// Another clock than the system's.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Chance in `0.0..1.0`, for jitter.
    pub fn chance(mut self, chance: impl FnMut() -> f64 + Send + 'static) -> Self {
        self.chance = Some(Mutex::new(Box::new(chance)));
        self
    }

    /// Who looks on.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = observer;
        self
    }

    /// The relay.
    ///
    /// # Errors
    /// When it has no sink.
    pub fn build(self) -> Result<Relay<S>, Fault> {
        let Some((first, _)) = self.sinks.first() else {
            return Err(Fault::new("relay", "it has no sink", "Give it one with `.sink(name, sink)`."));
        };
        let router = Arc::new(self.layout.router(self.routes, first.clone()));
        let seed = self.clock.now().as_nanosecond();
        Ok(Relay {
            source: self.source,
            sinks: self.sinks,
            router,
            settings: self.settings,
            clock: self.clock,
            chance: self.chance.unwrap_or_else(|| jitter(seed)),
            observer: self.observer,
        })
    }
}

/// Good enough to spread retries; nothing else hangs on it.
fn jitter(seed: i128) -> Chance {
    let mut state = (seed as u64) | 1;
    Mutex::new(Box::new(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 53) as f64
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chance_stays_within_its_bounds_and_moves() {
        let chance = jitter(1_700_000_000_000_000_000);
        let mut draw = chance.lock().unwrap();
        let drawn: Vec<f64> = (0..1_000).map(|_| draw()).collect();
        assert!(drawn.iter().all(|one| (0.0..1.0).contains(one)));
        assert!(drawn.iter().any(|one| *one > 0.9) && drawn.iter().any(|one| *one < 0.1));
    }
}
