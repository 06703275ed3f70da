//! One producer, from its opening to its end. A line is the succession of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use postrider_core::clock::Instant;
use postrider_core::verdict::{Reason, Scope};

use crate::client::{Client, Inbox};

/// A partition: the topic's number, and its own.
pub(crate) type Place = (usize, usize);

/// Producers one after the other, never two at once: the next begins when all is answered of the one before.
#[derive(Default)]
pub(crate) struct Line {
    pub generation: Option<Generation>,
}

/// One producer.
pub(crate) struct Generation {
    /// Tells it from every other one of the sink.
    pub number: u64,
    /// None while it is being opened.
    pub client: Option<Arc<Client>>,
    pub inbox: Arc<Inbox>,
    /// Each message travels in a request of its own.
    pub alone: bool,
    /// What its batches may have at most; none: what is configured.
    pub batch_bytes: Option<usize>,
    pub in_flight: usize,
    pub in_flight_bytes: usize,
    pub end: Option<End>,
}

/// Why and how a producer ends: nothing more is handed over, healthy partitions answer, the rest is purged.
#[derive(Default)]
pub(crate) struct End {
    /// When what is unanswered is purged; none: it is waited for.
    pub purge_at: Option<Instant>,
    /// It cannot be used on, even if everything is answered in time.
    pub over: bool,
    /// Partitions that went unanswered until somebody's deadline.
    pub silent: BTreeMap<Place, Option<(Scope, Reason)>>,
    /// Partitions that refused, and how many messages.
    pub refused: BTreeMap<Place, usize>,
    /// The purge has begun.
    pub purged_at: Option<Instant>,
}

impl Generation {
    pub(crate) fn new(number: u64, inbox: Arc<Inbox>, alone: bool) -> Self {
        let batch_bytes = None;
        Self { number, client: None, inbox, alone, batch_bytes, in_flight: 0, in_flight_bytes: 0, end: None }
    }

    /// The producer, when it takes messages.
    pub(crate) fn taking(&self) -> Option<&Arc<Client>> {
        self.client.as_ref().filter(|_| self.end.is_none() && !self.inbox.is_fatal())
    }

    /// Takes no more; what is unanswered then is purged.
    pub(crate) fn end_by(&mut self, purge_at: Instant) -> &mut End {
        let end = self.end.get_or_insert_default();
        end.purge_at = Some(end.purge_at.map_or(purge_at, |at| at.min(purge_at)));
        end
    }

    /// Takes no more, and is over when everything is answered.
    pub(crate) fn end_when_idle(&mut self) {
        self.end.get_or_insert_default().over = true;
    }
}
