//! The sink itself.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use postrider_core::clock::{BoxFuture, Clock, Instant};
use postrider_core::sink::{Message, Permit, Sink, SinkFeatures, Verdicts};
use postrider_core::{Fault, limits};

use crate::bell::Bell;
use crate::call::Call;
use crate::client::Inbox;
use crate::config::KafkaConfig;
use crate::state::State;

/// Publishes to Kafka. Each key of a topic is in order, whatever fails.
pub struct KafkaSink(Arc<Shared>);

/// What calls and threads share.
pub(crate) struct Shared {
    pub config: KafkaConfig,
    pub clock: Arc<dyn Clock>,
    pub bell: Arc<Bell>,
    state: Mutex<State>,
}

impl KafkaSink {
    /// A sink with its first producer. It connects when there is something to send.
    ///
    /// # Errors
    /// When the settings cannot work or the machine has no thread left.
    pub fn open(config: KafkaConfig, clock: Arc<dyn Clock>) -> Result<Self, Fault> {
        config.check()?;
        let bell = Arc::new(Bell::default());
        let inbox = Arc::new(Inbox::new(Arc::clone(&bell)));
        let client = config.client(Arc::clone(&inbox), false, None)?;
        let place = config.place();
        let shared = Arc::new(Shared { config, clock, bell, state: Mutex::default() });
        shared.adopt(client, inbox).map_err(|error| {
            Fault::new(place, "no thread can be started for it", "Raise the limit on processes.")
                .caused_by(error)
        })?;
        Ok(Self(shared))
    }
}

impl Sink for KafkaSink {
    fn features(&self) -> SinkFeatures {
        SinkFeatures {
            ordered_stream: self.0.config.order_kept,
            batch_entries_max: limits::BATCH_ENTRIES_MAX,
            calls_max: limits::PUBLISHES_OPEN_MAX,
        }
    }

    fn publish<'a>(
        &'a self,
        messages: &'a [Message<'a>],
        deadline: Instant,
        permit: &'a dyn Permit,
        verdicts: &'a dyn Verdicts,
    ) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if messages.is_empty() {
                return;
            }
            let mut call = Call::begin(&self.0, messages, deadline, permit, verdicts);
            poll_fn(|context| call.poll(context)).await;
        })
    }

    fn probe(&self) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(self.0.probe())
    }

    fn drain(&self, within: Duration) -> BoxFuture<'_, ()> {
        Box::pin(self.0.drain(within))
    }
}

impl Drop for KafkaSink {
    fn drop(&mut self) {
        self.0.lock().ended = true;
    }
}

impl Shared {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until everything is answered, purges what is not, and ends the producers.
    async fn drain(&self, within: Duration) {
        const PURGE: Duration = Duration::from_secs(1);
        let until = self.clock.instant() + within;
        self.wait_for(within, State::is_idle).await;
        self.lock().end_all(self.clock.instant());
        let left = until.since(self.clock.instant()).max(PURGE);
        self.wait_for(left, |state| state.lines.iter().all(|line| line.generation.is_none())).await;
    }

    pub(crate) async fn wait_for(&self, within: Duration, done: impl Fn(&State) -> bool) {
        let mut timer = self.clock.sleep(within);
        poll_fn(|context| {
            self.bell.listen(context.waker());
            let mut state = self.lock();
            state.take_in(self.clock.instant());
            if done(&state) {
                return Poll::Ready(());
            }
            drop(state);
            timer.as_mut().poll(context)
        })
        .await;
    }
}
