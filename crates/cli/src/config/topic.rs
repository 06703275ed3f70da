//! `[[topic]]`: topics that `migrate` creates and `check` compares (B16).

use std::collections::BTreeMap;

use postrider_core::layout::property;
use postrider_core::{Fault, Text};
use postrider_kafka::topics::{MIN_INSYNC, RETENTION, Topic, name_fault};

use super::{Page, Sink, file};

/// Topics of one sink, all alike.
#[derive(Debug)]
pub(crate) struct Topics {
    pub(crate) sink: Text,
    pub(crate) topics: Vec<Topic>,
    /// Where they are, and their settings, by name.
    pub(crate) places: BTreeMap<String, String>,
}

impl Page<'_> {
    pub(super) fn topics(&self, all: Vec<file::Topic>, sinks: &[Sink]) -> Result<Vec<Topics>, Fault> {
        let mut known: BTreeMap<(Text, String), String> = BTreeMap::new();
        all.into_iter().map(|topic| self.topic(topic, sinks, &mut known)).collect()
    }

    fn topic(
        &self,
        topic: file::Topic,
        sinks: &[Sink],
        known: &mut BTreeMap<(Text, String), String>,
    ) -> Result<Topics, Fault> {
        let first = topic.names.first().map_or_else(|| self.place.to_owned(), |name| self.at(name.span()));
        let sink = match &topic.sink {
            Some(named) => self.sink_named(named, sinks)?,
            None => sinks
                .iter()
                .find(|sink| sink.url.reveal().starts_with("kafka:"))
                .map(|sink| sink.name.clone())
                .ok_or_else(|| {
                    Fault::new(
                        &first,
                        "there is no Kafka sink for this [[topic]]",
                        "Add a [[sink]] with a kafka:// url",
                    )
                })?,
        };
        if let (Some(least), Some(replication)) = (topic.min_insync_replicas, topic.replication)
            && least > replication
        {
            return Err(Fault::new(
                first,
                format!(
                    "min_insync_replicas = {least} is above replication = {replication}: every write would be refused"
                ),
                "Set it to one less than the replication, so that one broker may be away",
            ));
        }
        let settings = self.topic_settings(&topic)?;
        let of_settings = topic.config.iter().map(|(name, value)| (name.clone(), self.at(value.span())));
        let mut places: BTreeMap<String, String> = of_settings.collect();
        let mut topics = Vec::new();
        for name in &topic.names {
            let place = self.at(name.span());
            if let Some(problem) = name_fault(name.get_ref()) {
                return Err(Fault::new(place, problem, "Give it another name"));
            }
            if let Some(before) = known.insert((sink.clone(), name.get_ref().clone()), place.clone()) {
                let problem = format!("topic \"{}\" is there twice, first at {before}", name.get_ref());
                return Err(Fault::new(place, problem, "Keep one of them"));
            }
            places.insert(name.get_ref().clone(), place);
            topics.push(Topic {
                name: name.get_ref().clone(),
                partitions: topic.partitions,
                replication: topic.replication,
                settings: settings.clone(),
            });
        }
        Ok(Topics { sink, topics, places })
    }

    /// By Kafka's names.
    fn topic_settings(&self, topic: &file::Topic) -> Result<BTreeMap<String, String>, Fault> {
        let mut settings = BTreeMap::new();
        if let Some(keep) = &topic.retention {
            let ms = match keep {
                file::Keep::Forever => "-1".to_owned(),
                file::Keep::For(span) => span.as_millis().to_string(),
            };
            settings.insert(RETENTION.to_owned(), ms);
        }
        if let Some(least) = topic.min_insync_replicas {
            settings.insert(MIN_INSYNC.to_owned(), least.to_string());
        }
        for (name, value) in &topic.config {
            let place = || self.at(value.span());
            let own = match &**name {
                RETENTION => Some("retention"),
                MIN_INSYNC => Some("min_insync_replicas"),
                _ => None,
            };
            if let Some(own) = own {
                return Err(Fault::new(
                    place(),
                    format!("{name} has a key of its own"),
                    format!("Write {own} = … in [[topic]]"),
                ));
            }
            let text = property(value.get_ref()).ok_or_else(|| {
                Fault::new(
                    place(),
                    format!("{name} is neither a text, a number, true nor false"),
                    "Write a topic's setting by Kafka's name, in quotes: \"max.message.bytes\" = 2000000",
                )
            })?;
            settings.insert(name.clone(), text);
        }
        Ok(settings)
    }
}
