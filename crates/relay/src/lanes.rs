//! Entries on their way to one sink.

use std::collections::{HashMap, VecDeque};

use postrider_core::limits::PUBLISHES_OPEN_MAX;
use postrider_core::plan::TopicNo;
use postrider_core::sink::SinkFeatures;

use crate::claims::Ticket;

/// A sink's place in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SinkNo(pub(crate) usize);

#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) features: SinkFeatures,
    pub(crate) ready: VecDeque<Ticket>,
    /// Publish calls under way.
    pub(crate) calls: usize,
    /// Topics that refused several messages together: how many may go in company until the culprit is found.
    pub(crate) companies: HashMap<TopicNo, usize>,
}

impl Lane {
    pub(crate) fn new(features: SinkFeatures) -> Self {
        Self { features, ready: VecDeque::new(), calls: 0, companies: HashMap::new() }
    }

    pub(crate) fn has_room(&self) -> bool {
        self.calls < self.features.calls_max.clamp(1, PUBLISHES_OPEN_MAX)
    }

    /// A company was refused as a whole: the next is half of it.
    pub(crate) fn halve(&mut self, topic: TopicNo, company: usize) {
        self.companies.insert(topic, (company / 2).max(1));
    }

    /// A company of a topic got through: the next may be twice as large.
    pub(crate) fn grow(&mut self, topic: TopicNo, batch_entries: usize) {
        if let Some(company) = self.companies.get_mut(&topic) {
            *company *= 2;
            if *company >= batch_entries {
                self.companies.remove(&topic);
            }
        }
    }
}
