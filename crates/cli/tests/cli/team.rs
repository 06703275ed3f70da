//! A team's own tables on PostgreSQL, and its topics on Kafka.

use postrider_servers::{Database, Record, Topic, topic_name};

use crate::adoption::{COMMERCE, LOGISTICS, ORDER_SERVICE};
use crate::wait::until;
use crate::world::World;

/// One team: its database, its configuration, and a word of its own that no other test's topics have.
pub(crate) struct Team {
    pub(crate) world: World,
    pub(crate) database: Database,
    pub(crate) brokers: String,
    pub(crate) word: String,
}

impl Team {
    /// `more` goes behind the sink.
    pub(crate) fn new(layout: &str, brokers: &str, more: &str) -> Self {
        let (database, world) = (Database::create_blocking(), World::new());
        let (tables, start) = match layout {
            "commerce" => (COMMERCE, "start = \"beginning\"\n"),
            "order-service" => (ORDER_SERVICE, ""),
            _ => (LOGISTICS, ""),
        };
        database.query(tables);
        let url = database.url();
        world.write(
            "postrider.toml",
            &format!(
                "[outbox]\nurl = \"{url}\"\nlayout = \"{layout}\"\n{start}[[sink]]\nname = \"kafka\"\nurl = \"kafka://{brokers}\"\n{more}"
            ),
        );
        world.run(&["migrate"]).ok();
        Self { world, database, brokers: brokers.to_owned(), word: topic_name("order") }
    }

    /// Its topic by convention, created.
    pub(crate) fn topic(&self, partitions: usize, config: &[(&str, &str)]) -> Topic {
        Topic::create_on(&self.brokers, &format!("{}-events", self.word), partitions, config)
    }

    /// Commerce: rows of these keys, numbered on from `first`, in one transaction.
    pub(crate) fn orders(&self, keys: &[&str], first: usize) {
        for (at, key) in keys.iter().enumerate() {
            let n = first + at;
            self.row(
                &format!("e{n}"),
                &format!("loopers.{}.created.v1", self.word),
                key,
                &format!("{{\"n\": {n}}}"),
            );
        }
    }

    /// Commerce: one row by plain SQL.
    pub(crate) fn row(&self, event: &str, kind: &str, key: &str, payload: &str) {
        self.database.query(&format!(
            "insert into outbox (event_id, event_type, source, aggregate_type, aggregate_id, payload, created_at) \
             values ('{event}', '{kind}', 'commerce-api', 'Order', '{key}', '{payload}', '2026-01-02T03:04:05.678Z')"
        ));
    }

    /// What a query says, a row a line.
    pub(crate) fn sql(&self, text: &str) -> Vec<String> {
        let cell = |cell: &Option<String>| cell.clone().unwrap_or_else(|| "null".into());
        let rows = self.database.query(text);
        rows.iter().map(|row| row.iter().map(cell).collect::<Vec<_>>().join(" ")).collect()
    }

    /// A single value.
    pub(crate) fn value(&self, text: &str) -> String {
        self.sql(text).into_iter().next().unwrap_or_default()
    }
}

/// Waits until so many different events have arrived.
#[track_caller]
pub(crate) fn arrived(topic: &mut Topic, events: usize) -> Vec<Record> {
    let different = |records: &[Record]| {
        let mut ids: Vec<String> = records.iter().map(|record| record.header("ce_id")).collect();
        ids.sort_unstable();
        ids.dedup();
        ids.len()
    };
    until(&format!("{events} events"), || different(topic.read()) >= events);
    assert_eq!(different(topic.read()), events);
    topic.read().to_vec()
}

/// The ids of a key's events in the order of their first arrival; repeats must be the same message.
pub(crate) fn in_order(records: &[Record], key: &str) -> Vec<String> {
    let mut seen: Vec<&Record> = Vec::new();
    for record in records.iter().filter(|record| record.key_text() == key) {
        match seen.iter().find(|known| known.header("ce_id") == record.header("ce_id")) {
            // F8: a duplicate carries the same id and the same bytes.
            Some(known) => assert_eq!((&known.headers, &known.value), (&record.headers, &record.value)),
            None => seen.push(record),
        }
    }
    seen.iter().map(|record| record.header("ce_id")).collect()
}
