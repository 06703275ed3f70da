//! Where each entry of a claim goes, decided before anything is sent.

use std::collections::HashMap;

use crate::limits::TOPICS_MAX;
use crate::route::{Destination, Kind, Router};
use crate::text::owned;
use crate::verdict::Reason;
use crate::{Entry, Envelope, Text};

/// A destination's number, for as long as a relay runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicNo(pub usize);

/// What is to be done with one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Publish it there.
    Publish(TopicNo),
    /// It can never be published as it is.
    Bury(Reason),
}

/// Plans entries and remembers the way of each kind, so that patterns are matched once per kind, not per entry.
#[derive(Debug)]
pub struct Planner<'r> {
    router: &'r Router,
    ways: HashMap<Text, HashMap<Text, TopicNo>>,
    numbers: HashMap<Destination, TopicNo>,
    destinations: Vec<Destination>,
    /// The kind that was asked for last: mostly the next is of the same.
    last: Option<(Kind, TopicNo)>,
}

impl<'r> Planner<'r> {
    /// A planner that knows no kind yet.
    #[must_use]
    pub fn new(router: &'r Router) -> Self {
        Self { router, ways: HashMap::new(), numbers: HashMap::new(), destinations: Vec::new(), last: None }
    }

    /// Decides for one entry.
    pub fn plan(&mut self, entry: &Entry) -> Plan {
        if let Some(flaw) = &entry.flaw {
            return Plan::Bury(Reason::new(flaw.0.clone()));
        }
        if let Some(problem) = malformed(&entry.envelope) {
            return Plan::Bury(Reason::new(problem));
        }
        let (event_type, aggregate_type) = (&entry.envelope.event_type, &entry.envelope.aggregate_type);
        if let Some((kind, topic)) = &self.last
            && kind.event_type == *event_type
            && kind.aggregate_type == *aggregate_type
        {
            return Plan::Publish(*topic);
        }
        if let Some((event_type, ways)) = self.ways.get_key_value(&**event_type)
            && let Some((aggregate_type, topic)) = ways.get_key_value(&**aggregate_type)
        {
            let kind = Kind { event_type: event_type.clone(), aggregate_type: aggregate_type.clone() };
            self.last = Some((kind, *topic));
            return Plan::Publish(*topic);
        }
        match self.find(&Kind::of(&entry.envelope)) {
            Ok(topic) => Plan::Publish(topic),
            Err(reason) => Plan::Bury(Reason::new(reason)),
        }
    }

    /// The destination behind a number.
    #[must_use]
    pub fn destination(&self, topic: TopicNo) -> &Destination {
        &self.destinations[topic.0]
    }

    fn find(&mut self, kind: &Kind) -> Result<TopicNo, String> {
        let destination = self.router.route(kind)?;
        let topic = match self.numbers.get(&destination) {
            Some(topic) => *topic,
            None if self.destinations.len() >= TOPICS_MAX => {
                return Err(format!(
                    "no route: more than {TOPICS_MAX} topics; make the route's topic less specific"
                ));
            }
            None => {
                let topic = TopicNo(self.destinations.len());
                self.destinations.push(destination.clone());
                self.numbers.insert(destination, topic);
                topic
            }
        };
        if self.ways.len() < TOPICS_MAX {
            let ways = self.ways.entry(owned(&kind.event_type)).or_default();
            if ways.len() < TOPICS_MAX {
                ways.insert(owned(&kind.aggregate_type), topic);
            }
        }
        Ok(topic)
    }
}

/// Why an envelope is no CloudEvent: consumers tell events apart by these three.
fn malformed(envelope: &Envelope) -> Option<String> {
    let required = [("id", &envelope.id), ("source", &envelope.source), ("type", &envelope.event_type)];
    required.into_iter().find_map(|(name, value)| {
        if value.is_empty() {
            return Some(format!("the event's {name} is empty; CloudEvents needs one"));
        }
        // Every byte, without a branch: this is asked of every event, and mostly in vain.
        let control = value.bytes().fold(false, |found, byte| found | (byte < b' ') | (byte == 0x7f));
        control.then(|| format!("the event's {name} holds a control character; CloudEvents forbids it"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EntryId;

    fn entry(id: &'static str, source: &'static str, event_type: &'static str) -> Entry {
        let envelope = Envelope {
            id: id.into(),
            source: source.into(),
            event_type: event_type.into(),
            time: jiff::Timestamp::UNIX_EPOCH,
            content_type: None,
            aggregate_type: "Order".into(),
            aggregate_id: "1".into(),
            partition_key: None,
            sequence: None,
            trace: None,
            extensions: std::collections::BTreeMap::new(),
            data: bytes::Bytes::new(),
        };
        Entry { id: EntryId::Int(1), envelope, key: None, retries: 0, retries_max: None, flaw: None }
    }

    /// F5, B1: a row that is no CloudEvent is dead with the reason, before anything is sent.
    #[test]
    fn what_is_no_cloudevent_is_buried() {
        let router = Router::new(vec![], "sink", "{aggregate_type}");
        let mut planner = Planner::new(&router);
        assert_eq!(planner.plan(&entry("e", "/s", "t")), Plan::Publish(TopicNo(0)));
        for (id, source, event_type, name) in [
            ("", "/s", "t", "id"),
            ("e", "", "t", "source"),
            ("e", "/s", "", "type"),
            ("\0", "/s", "t", "id"),
        ] {
            let Plan::Bury(reason) = planner.plan(&entry(id, source, event_type)) else { panic!("{name}") };
            assert!(reason.0.contains(&format!("event's {name} ")), "{reason}");
        }
    }

    /// A kind's way is found once, and a kind without a way is buried with the remedy.
    #[test]
    fn a_kind_without_a_way_is_buried() {
        let router = Router::new(vec![], "sink", "{domain}-events");
        let mut planner = Planner::new(&router);
        assert_eq!(planner.plan(&entry("e", "/s", "a.b.c.v1")), planner.plan(&entry("f", "/s", "a.b.d.v1")));
        let Plan::Bury(reason) = planner.plan(&entry("e", "/s", "t")) else { panic!("it has no way") };
        assert!(reason.0.contains("[[route]]"), "{reason}");
    }
}
