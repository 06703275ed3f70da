//! An application that writes by plain SQL, on either kind of table, and knows what must arrive.

use std::collections::HashMap;

use rusqlite::{Connection, params};
use serde_json::Value;

use crate::world::World;

/// The two ways of claiming that SQLite has.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Road {
    /// The native layout, by cursor.
    Cursor,
    /// A status table of the shop's own, by lease.
    Lease,
}

const STATUS_TABLE: &str = "
    create table shop_outbox (
        id integer primary key autoincrement, event_id text not null, kind text not null, order_id text not null,
        body text not null, happened_at text not null, status text not null default 'NEW'
    );
    create index shop_outbox_status on shop_outbox (status, id);
";

const STATUS_LAYOUT: &str = r#"
name = "shop"
table = "shop_outbox"
way = "lease"
order = "key"
topic = "orders"
[columns]
id = "id"
event_id = "event_id"
type = "kind"
source = { constant = "/shop" }
aggregate_type = { constant = "Order" }
aggregate_id = "order_id"
payload = "body"
time = "happened_at"
status = "status"
[status]
pending = "NEW"
published = "SENT"
dead = "FAILED"
"#;

/// What was committed, and what was rolled back.
pub(crate) struct Shop<'w> {
    world: &'w World,
    road: Road,
    database: Connection,
    numbers: HashMap<u32, u32>,
    written: u32,
    committed: HashMap<String, (u32, u32)>,
    rolled_back: Vec<String>,
}

impl Road {
    /// A world with the tables and a configuration.
    pub(crate) fn world(self, lease_ttl: &str, batch_entries: u32) -> World {
        let world = World::new();
        let layout = match self {
            Self::Cursor => "native",
            Self::Lease => "./shop-layout.toml",
        };
        world.write("shop-layout.toml", STATUS_LAYOUT);
        world.write(
            "postrider.toml",
            &format!(
                "[outbox]\nurl = \"sqlite://shop.db\"\nlayout = \"{layout}\"\nlease_ttl = \"{lease_ttl}\"\n\
                 [[sink]]\nurl = \"file://events.jsonl\"\n[relay]\nbatch_entries = {batch_entries}\n"
            ),
        );
        if let Self::Lease = self {
            world.database("shop.db").execute_batch(STATUS_TABLE).unwrap();
        }
        world.run(&["migrate"]).ok();
        world
    }

    fn insert(self) -> &'static str {
        match self {
            Self::Cursor => {
                "insert into outbox (event_id, type, source, aggregate_type, aggregate_id, payload, time)
                 values (?1, 'shop.order.changed.v1', '/shop', 'Order', ?2, ?3, 1700000000000000)"
            }
            Self::Lease => {
                "insert into shop_outbox (event_id, kind, order_id, body, happened_at)
                 values (?1, 'shop.order.changed.v1', ?2, ?3, '2026-01-01T00:00:00Z')"
            }
        }
    }
}

impl<'w> Shop<'w> {
    pub(crate) fn new(world: &'w World, road: Road) -> Self {
        let database = world.database("shop.db");
        database.execute_batch("pragma synchronous = off").unwrap();
        Self {
            world,
            road,
            database,
            numbers: HashMap::new(),
            written: 0,
            committed: HashMap::new(),
            rolled_back: Vec::new(),
        }
    }

    /// Commits so many events in one transaction, on three orders in turn.
    pub(crate) fn commit(&mut self, events: u32) {
        let transaction = self.database.unchecked_transaction().unwrap();
        for _ in 0..events {
            let order = self.written % 3;
            let number = self.numbers.entry(order).or_default();
            *number += 1;
            let id = insert(&transaction, self.road, self.written, order, *number);
            self.committed.insert(id, (order, *number));
            self.written += 1;
        }
        transaction.commit().unwrap();
    }

    /// Writes events of the same orders, and rolls them back.
    pub(crate) fn roll_back(&mut self, events: u32) {
        let transaction = self.database.unchecked_transaction().unwrap();
        for _ in 0..events {
            self.rolled_back.push(insert(&transaction, self.road, self.written, self.written % 3, 0));
            self.written += 1;
        }
        transaction.rollback().unwrap();
    }

    pub(crate) fn committed(&self) -> usize {
        self.committed.len()
    }

    /// Different events in the file.
    pub(crate) fn arrived(&self) -> usize {
        let events = self.world.read("events.jsonl");
        events
            .lines()
            .filter_map(|line| Some(id(&serde_json::from_str(line).ok()?)))
            .collect::<std::collections::HashSet<_>>()
            .len()
    }

    /// F8: nothing that was rolled back is in the file, not even in a torn line.
    #[track_caller]
    pub(crate) fn no_ghosts(&self) {
        let events = self.world.read("events.jsonl");
        for id in &self.rolled_back {
            assert!(!events.contains(&format!("\"{id}\"")), "{id} was rolled back, and published");
        }
    }

    /// F8: every committed event is in the file, in order within its order once duplicates are dropped by id, and a
    /// duplicate has the same bytes. Answers how many duplicates there are.
    #[track_caller]
    pub(crate) fn prove(&self) -> usize {
        self.no_ghosts();
        let events = self.world.read("events.jsonl");
        let mut lines: HashMap<String, &str> = HashMap::new();
        let mut latest: HashMap<u32, u32> = HashMap::new();
        let mut duplicates = 0;
        for line in events.lines() {
            let event: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line}"));
            let id = id(&event);
            if let Some(before) = lines.insert(id.clone(), line) {
                assert_eq!(before, line, "a duplicate has the same bytes");
                duplicates += 1;
                continue;
            }
            let (order, number) =
                *self.committed.get(&id).unwrap_or_else(|| panic!("{id} was never committed"));
            assert_eq!(event["data"]["n"], number);
            let latest = latest.entry(order).or_default();
            assert_eq!(number, *latest + 1, "order {order} is out of order in {events}");
            *latest = number;
        }
        assert_eq!(lines.len(), self.committed.len(), "every committed event is in the file: {events}");
        duplicates
    }
}

fn insert(database: &Connection, road: Road, written: u32, order: u32, number: u32) -> String {
    let id = format!("event-{written}");
    let (order, body) = (format!("order-{order}"), format!("{{\"n\":{number}}}"));
    database.execute(road.insert(), params![id, order, body]).unwrap();
    id
}

fn id(event: &Value) -> String {
    event["id"].as_str().unwrap_or_default().to_owned()
}

/// The tests of the tests: each way to be wrong is noticed.
mod noticed {
    use super::{Road, Shop};
    use crate::world::World;

    fn proved(change: impl FnOnce(&mut Vec<String>)) {
        let world = Road::Cursor.world("2s", 4);
        let mut shop = Shop::new(&world, Road::Cursor);
        shop.commit(9);
        shop.roll_back(1);
        world.run(&["run", "--until-empty"]).ok();
        assert_eq!(shop.prove(), 0);
        let mut lines: Vec<String> = world.read("events.jsonl").lines().map(str::to_owned).collect();
        change(&mut lines);
        rewrite(&world, &lines);
        shop.prove();
    }

    fn rewrite(world: &World, lines: &[String]) {
        world.write("events.jsonl", &(lines.join("\n") + "\n"));
    }

    #[test]
    #[should_panic(expected = "every committed event is in the file")]
    fn a_lost_event() {
        proved(|lines| _ = lines.pop());
    }

    #[test]
    #[should_panic(expected = "is out of order")]
    fn an_overtaken_event() {
        proved(|lines| lines.swap(0, 3));
    }

    #[test]
    #[should_panic(expected = "a duplicate has the same bytes")]
    fn a_duplicate_with_other_bytes() {
        proved(|lines| lines.push(lines[0].replace("/shop", "/other")));
    }

    #[test]
    #[should_panic(expected = "was rolled back, and published")]
    fn a_ghost() {
        proved(|lines| lines.push(lines[0].replace("event-0", "event-9")));
    }
}
