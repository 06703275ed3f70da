//! What has arrived: every event once, and each key in order.

use std::collections::HashMap;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{BorrowedHeaders, Headers, Message};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use super::broker::{Broker, PARTITIONS};
use crate::Outcome;

/// Counted beside every rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Arrived {
    pub(crate) lost: usize,
    pub(crate) duplicates: usize,
    pub(crate) reordered: usize,
}

impl std::fmt::Display for Arrived {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} lost, {} duplicates, {} out of order", self.lost, self.duplicates, self.reordered)
    }
}

impl std::ops::AddAssign for Arrived {
    fn add_assign(&mut self, other: Self) {
        self.lost += other.lost;
        self.duplicates += other.duplicates;
        self.reordered += other.reordered;
    }
}

const SILENCE: Duration = Duration::from_secs(10);

/// Reads a topic to its end. `number` tells which event a message is, in the order of its key.
pub(crate) fn read(
    broker: &Broker,
    topic: &str,
    events: usize,
    number: impl Fn(&str) -> Option<usize>,
) -> Outcome<Arrived> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", broker.address())
        .set("group.id", "bench")
        .set("enable.auto.commit", "false")
        .create()?;
    let mut left = 0;
    let mut partitions = TopicPartitionList::new();
    for partition in 0..i32::try_from(PARTITIONS)? {
        let (first, end) = consumer.fetch_watermarks(topic, partition, SILENCE)?;
        left += end - first;
        partitions.add_partition_offset(topic, partition, Offset::Beginning)?;
    }
    consumer.assign(&partitions)?;
    let mut tally =
        Tally { seen: vec![false; events + 1], newest: HashMap::new(), arrived: Arrived::default() };
    while left > 0 {
        let message = consumer.poll(SILENCE).ok_or("the broker does not hand out what it has")??;
        left -= 1;
        let key = message.key().unwrap_or_default();
        let id = message.headers().and_then(id).and_then(&number);
        tally.count(key, id.ok_or("a message without an id of ours")?);
    }
    tally.arrived.lost = tally.seen.iter().skip(1).filter(|seen| !**seen).count();
    Ok(tally.arrived)
}

fn id(headers: &BorrowedHeaders) -> Option<&str> {
    headers.iter().find(|header| header.key == "ce_id").and_then(|header| str::from_utf8(header.value?).ok())
}

struct Tally {
    seen: Vec<bool>,
    /// The latest event of each key.
    newest: HashMap<Vec<u8>, usize>,
    arrived: Arrived,
}

impl Tally {
    fn count(&mut self, key: &[u8], number: usize) {
        if std::mem::replace(&mut self.seen[number], true) {
            self.arrived.duplicates += 1;
            return;
        }
        match self.newest.get_mut(key) {
            Some(newest) if *newest > number => self.arrived.reordered += 1,
            Some(newest) => *newest = number,
            None => drop(self.newest.insert(key.to_vec(), number)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_twice_or_late_is_counted() {
        let mut tally = Tally { seen: vec![false; 5], newest: HashMap::new(), arrived: Arrived::default() };
        for (key, number) in [(b"a", 1), (b"b", 3), (b"a", 2), (b"a", 1), (b"b", 4), (b"b", 3)] {
            tally.count(key, number);
        }
        assert_eq!(tally.arrived, Arrived { lost: 0, duplicates: 2, reordered: 0 });
        tally.seen = vec![false; 5];
        tally.count(b"a", 1);
        assert_eq!(tally.arrived.reordered, 1);
    }
}
