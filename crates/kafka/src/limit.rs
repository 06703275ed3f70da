//! What a topic takes in one batch (`max.message.bytes`): asked for once it is known, so that batches fit and what cannot is not sent.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use postrider_core::Text;
use postrider_core::clock::Instant;
use rdkafka::admin::{AdminOptions, ResourceSpecifier};

use crate::client::Inbox;
use crate::config::KafkaConfig;
use crate::state::{NARROW, SHARED, State};

/// How long the answer is waited for: without it everything goes on as if nobody had asked.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// A batch's own frame: what a record has around it when it travels alone.
const BATCH_FRAME_BYTES: usize = 61;
const SETTING: &str = "max.message.bytes";

/// What is known of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Limit {
    /// None where it is not told.
    pub bytes: Option<usize>,
    /// When it was asked for; none: it is to be asked for.
    pub asked_at: Option<Instant>,
    /// The log has it.
    pub is_told: bool,
}

/// Whether a record fits.
pub(crate) enum Fit {
    /// Nothing speaks against it.
    Fits,
    /// It did not when the topic was last asked, which may have been changed since.
    Ask,
    /// It cannot.
    Over(usize),
}

impl Limit {
    /// Whether a record of at least so many bytes fits, by knowledge that is no older than the call.
    pub(crate) fn fits(&self, bytes: usize, begun: Instant) -> Fit {
        match (self.bytes, self.asked_at) {
            (Some(limit), Some(at)) if bytes + BATCH_FRAME_BYTES > limit => {
                if at >= begun {
                    Fit::Over(limit)
                } else {
                    Fit::Ask
                }
            }
            _ => Fit::Fits,
        }
    }
}

impl KafkaConfig {
    /// What these topics take, as far as this login may know it; blocks.
    pub(crate) fn batch_limits(&self, topics: &[Text]) -> Vec<Option<usize>> {
        let Ok(admin) = self.admin(Arc::new(Inbox::default())) else { return vec![None; topics.len()] };
        let resources: Vec<_> = topics.iter().map(|topic| ResourceSpecifier::Topic(topic)).collect();
        let within = Some(ANSWER_WITHIN);
        let options = AdminOptions::new().request_timeout(within).operation_timeout(within);
        let told = block_on(admin.describe_configs(&resources, &options)).unwrap_or_default();
        let limit = |at: usize| {
            let entries = &told.get(at)?.as_ref().ok()?.entries;
            let entry = entries.iter().find(|entry| entry.name == SETTING)?;
            entry.value.as_ref()?.parse().ok().filter(|bytes| *bytes > 0)
        };
        (0..topics.len()).map(limit).collect()
    }
}

impl State {
    /// It is known what a topic takes. Where that is less than a batch, the topic shares a producer with others of its kind,
    /// whose batches all of them take: nothing of the rest becomes slower.
    pub(crate) fn learn_limit(
        &mut self,
        topic: usize,
        bytes: Option<usize>,
        at: Instant,
        batch_bytes: usize,
    ) {
        let known = &mut self.topics[topic];
        known.limit = Limit { bytes, asked_at: Some(at), is_told: known.limit.is_told };
        known.home = if bytes.is_some_and(|bytes| bytes < batch_bytes) { NARROW } else { SHARED };
        known.settle();
        let (home, name) = (known.home, known.name.clone());
        if let (NARROW, Some(bytes)) = (home, bytes) {
            if !std::mem::replace(&mut known.limit.is_told, true) {
                tracing::warn!(
                    topic = &*name,
                    max_message_bytes = bytes,
                    batch_bytes,
                    remedy = "Raise the topic's max.message.bytes, or set batch.size in [sink.properties] to no more than it",
                    "a topic takes less at once than a producer's batch: it gets smaller batches, and is slower"
                );
            }
            if let Some(narrow) = self.lines.get_mut(NARROW).and_then(|line| line.generation.as_mut())
                && narrow.batch_bytes.is_none_or(|batch| batch > bytes)
            {
                narrow.end_when_idle();
            }
        }
    }

    /// Nothing more goes to a topic until it has said what it takes.
    pub(crate) fn ask_limit(&mut self, topic: usize) {
        self.topics[topic].limit.asked_at = None;
        self.doubt(topic);
    }

    /// What every topic of a line takes, and what was found out by trying.
    pub(crate) fn batch_bytes_of(&self, line: usize) -> Option<usize> {
        let limits =
            self.topics.iter().filter(|topic| topic.line == line).filter_map(|topic| topic.limit.bytes);
        limits.chain(self.batch_bytes).min()
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a future on a thread of ours.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let (mut context, mut future) = (Context::from_waker(&waker), pin!(future));
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(done) => return done,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SNK-08: only what cannot fit is over, and only by what was asked since: a limit may have been raised.
    #[test]
    fn a_record_is_over_only_where_it_cannot_fit() {
        let at = |secs| Instant(Duration::from_secs(secs));
        let limit = Limit { bytes: Some(1_000), asked_at: Some(at(5)), is_told: false };
        assert!(matches!(limit.fits(1_000 - BATCH_FRAME_BYTES, at(4)), Fit::Fits));
        assert!(matches!(limit.fits(1_001 - BATCH_FRAME_BYTES, at(4)), Fit::Over(1_000)));
        assert!(matches!(limit.fits(1_001 - BATCH_FRAME_BYTES, at(6)), Fit::Ask));
        assert!(matches!(Limit::default().fits(usize::MAX / 2, at(6)), Fit::Fits));
        let untold = Limit { asked_at: Some(at(5)), ..Limit::default() };
        assert!(matches!(untold.fits(usize::MAX / 2, at(4)), Fit::Fits));
    }
}
