//! A topic of the test's own: created, read to its end, described.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::{Offset, TopicPartitionList};

use crate::admin::{self, Places};
use crate::{address, wait};

/// How long one answer may take; it is asked again until the deadline of `wait`.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(20);

/// A topic, and what has been read of it so far. All of it blocks the thread.
pub struct Topic {
    brokers: String,
    name: String,
    consumer: BaseConsumer,
    /// The next offset of each partition that is read.
    next: Vec<i64>,
    records: Vec<Record>,
}

/// What a consumer sees.
#[derive(Clone, PartialEq, Eq)]
pub struct Record {
    /// Where it is.
    pub partition: i32,
    /// Where it is in there.
    pub offset: i64,
    /// By which it was placed.
    pub key: Option<Vec<u8>>,
    /// In order.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    /// The message.
    pub value: Option<Vec<u8>>,
    /// When it was published, in milliseconds.
    pub time_ms: i64,
}

/// How a partition is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// The broker that takes writes, if there is one.
    pub leader: Option<usize>,
    /// The brokers that have all of it.
    pub in_sync: Vec<usize>,
}

/// A name that no other test has.
#[must_use]
pub fn topic_name(prefix: &str) -> String {
    let chance = RandomState::new().build_hasher().finish();
    format!("{prefix}-{}-{chance:016x}", std::process::id())
}

impl Topic {
    /// One on [`crate::kafka`], under a name of its own.
    #[must_use]
    pub fn create(partitions: usize) -> Self {
        Self::create_on(&address::kafka(), &topic_name("test"), partitions, &[])
    }

    /// One on these brokers, with a configuration such as `max.message.bytes`.
    #[must_use]
    pub fn create_on(brokers: &str, name: &str, partitions: usize, config: &[(&str, &str)]) -> Self {
        Self::made(brokers, name, &Places::Anywhere(partitions), config)
    }

    /// One whose partitions lie on these brokers, the first of each its leader.
    #[must_use]
    pub fn create_placed(brokers: &str, name: &str, places: &[&[i32]], config: &[(&str, &str)]) -> Self {
        Self::made(brokers, name, &Places::On(places), config)
    }

    /// One that somebody else creates.
    #[must_use]
    pub fn open(brokers: &str, name: &str) -> Self {
        let mut settings = admin::settings(brokers);
        settings.set("group.id", topic_name("reader")).set("enable.auto.commit", "false");
        settings.set("fetch.wait.max.ms", "20").set("allow.auto.create.topics", "false");
        Self {
            brokers: brokers.to_owned(),
            name: name.to_owned(),
            consumer: settings.create().expect("a consumer of good settings"),
            next: Vec::new(),
            records: Vec::new(),
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Everything in it up to its end of now, in order within each partition. A partition without a leader is passed by.
    /// Panics when it takes far too long.
    pub fn read(&mut self) -> &[Record] {
        let mut problem = None;
        let read = wait::within_deadline(|| match self.try_read() {
            Ok(read) => read,
            Err(error) => {
                problem = Some(error);
                false
            }
        });
        assert!(read, "cannot read {} to its end: {problem:?}", self.name);
        &self.records
    }

    /// How its partitions are served; none when there is no such topic. Panics when nobody answers.
    #[must_use]
    pub fn partitions(&self) -> Vec<Partition> {
        let mut seen = None;
        wait::until("a broker describes a topic", || {
            seen = self.described().ok();
            seen.is_some()
        });
        seen.unwrap_or_default()
    }

    /// Makes it grow to so many partitions.
    pub fn grow(&self, partitions: usize) {
        admin::grow(&self.brokers, &self.name, partitions);
    }

    /// Sets its whole configuration anew.
    pub fn configure(&self, config: &[(&str, &str)]) {
        admin::configure(&self.brokers, &self.name, config);
    }

    /// Deletes it, and all that is in it.
    pub fn delete(self) {
        admin::delete(&self.brokers, &self.name);
    }

    fn made(brokers: &str, name: &str, places: &Places<'_>, config: &[(&str, &str)]) -> Self {
        admin::create(brokers, name, places, config);
        let made = Self::open(brokers, name);
        wait::until("every partition of a new topic has a leader", || {
            let partitions = made.partitions();
            !partitions.is_empty() && partitions.iter().all(|partition| partition.leader.is_some())
        });
        made
    }

    fn described(&self) -> Result<Vec<Partition>, KafkaError> {
        let metadata = self.consumer.fetch_metadata(Some(&self.name), ANSWER_WITHIN)?;
        let numbers = |ids: &[i32]| ids.iter().map(|id| *id as usize).collect();
        let mut partitions: Vec<_> = metadata.topics().iter().flat_map(|topic| topic.partitions()).collect();
        partitions.sort_by_key(|partition| partition.id());
        let seen = partitions.into_iter().map(|partition| Partition {
            leader: usize::try_from(partition.leader()).ok(),
            in_sync: numbers(partition.isr()),
        });
        Ok(seen.collect())
    }

    /// Whether the end was reached.
    fn try_read(&mut self) -> Result<bool, KafkaError> {
        let partitions = self.described()?;
        if partitions.len() != self.next.len() {
            self.next.resize(partitions.len(), 0);
            self.assign()?;
        }
        let end = |(at, partition): (usize, &Partition)| match partition.leader {
            Some(_) => {
                self.consumer.fetch_watermarks(&self.name, at as i32, ANSWER_WITHIN).map(|(_, end)| end)
            }
            None => Ok(0),
        };
        let ends: Vec<i64> = partitions.iter().enumerate().map(end).collect::<Result<_, _>>()?;
        let mut reached = false;
        // A call ends now and then, so that the deadline is looked at.
        for _ in 0..250 {
            reached = self.next.iter().zip(&ends).all(|(next, end)| next >= end);
            if reached {
                break;
            }
            // Brokers go and come back: the client goes on by itself.
            if let Some(Ok(message)) = self.consumer.poll(POLL) {
                let record = record(&message);
                self.next[record.partition as usize] = record.offset + 1;
                self.records.push(record);
            }
        }
        Ok(!partitions.is_empty() && reached)
    }

    fn assign(&self) -> Result<(), KafkaError> {
        let mut list = TopicPartitionList::new();
        for (partition, next) in self.next.iter().enumerate() {
            list.add_partition_offset(&self.name, partition as i32, Offset::Offset(*next))?;
        }
        self.consumer.assign(&list)
    }
}

impl fmt::Debug for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.name, self.brokers)
    }
}

impl Record {
    /// A header's text; empty when there is none of that name.
    #[must_use]
    pub fn header(&self, name: &str) -> String {
        let found =
            self.headers.iter().find(|(known, _)| known == name).and_then(|(_, value)| value.as_deref());
        text(found)
    }

    /// The key's text; empty when there is none.
    #[must_use]
    pub fn key_text(&self) -> String {
        text(self.key.as_deref())
    }

    /// The value's text; empty when there is none.
    #[must_use]
    pub fn value_text(&self) -> String {
        text(self.value.as_deref())
    }
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{} {} = {}", self.partition, self.offset, self.key_text(), self.value_text())
    }
}

fn text(bytes: Option<&[u8]>) -> String {
    String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned()
}

fn record(message: &BorrowedMessage<'_>) -> Record {
    let headers = message.headers().map_or_else(Vec::new, |headers| {
        headers.iter().map(|header| (header.key.to_owned(), header.value.map(<[u8]>::to_vec))).collect()
    });
    Record {
        partition: message.partition(),
        offset: message.offset(),
        key: message.key().map(<[u8]>::to_vec),
        headers,
        value: message.payload().map(<[u8]>::to_vec),
        time_ms: message.timestamp().to_millis().unwrap_or(-1),
    }
}
