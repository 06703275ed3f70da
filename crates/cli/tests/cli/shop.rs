//! An application that writes by plain SQL, on either kind of table, and knows what must arrive.

mod noticed;

use std::collections::HashMap;

use rusqlite::Connection;
use serde_json::Value;

use crate::landing::Landing;
use crate::world::World;

/// The ways of claiming, on the databases that have them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Road {
    /// The native layout, by cursor.
    Cursor,
    /// A status table of the shop's own, by lease.
    Lease,
    /// The native layout on PostgreSQL.
    PostgresCursor,
    /// A status table on PostgreSQL, by lease.
    PostgresLease,
    /// The same by row locks, which keep no order.
    PostgresHold,
    /// A status table on MariaDB, by lease.
    MysqlLease,
    /// The native layout on MariaDB.
    MysqlCursor,
    /// A status table on MariaDB, by row locks.
    MysqlHold,
    /// The three on PostgreSQL, to Kafka.
    CursorToKafka,
    LeaseToKafka,
    HoldToKafka,
    /// The three on MariaDB or MySQL, to Kafka.
    MysqlLeaseToKafka,
    MysqlCursorToKafka,
    MysqlHoldToKafka,
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

/// The same for PostgreSQL.
const STATUS_TABLE_POSTGRES: &str = "
    create table shop_outbox (
        id bigint generated always as identity primary key, event_id text not null, kind text not null,
        order_id text not null, body jsonb not null, happened_at timestamptz not null, status text not null default 'NEW'
    );
    create index shop_outbox_status on shop_outbox (status, id);
";

/// The same for MariaDB.
const STATUS_TABLE_MYSQL: &str = "
    create table shop_outbox (
        id bigint auto_increment primary key, event_id varchar(50) not null, kind varchar(50) not null,
        order_id varchar(50) not null, body json not null, happened_at varchar(30) not null,
        status varchar(10) not null default 'NEW', key (status)
    );
";

/// What was committed, and what was rolled back.
pub(crate) struct Shop<'w> {
    world: &'w World,
    road: Road,
    till: Till<'w>,
    numbers: HashMap<u32, u32>,
    written: u32,
    /// How many orders have events in turn.
    pub(crate) orders: u32,
    committed: HashMap<String, (u32, u32)>,
    rolled_back: Vec<String>,
}

/// Where the shop writes.
enum Till<'w> {
    Sqlite(Connection),
    Postgres(&'w postrider_servers::Database),
    Mysql(&'w postrider_servers::MysqlDatabase),
}

/// One row that is written.
struct Row {
    id: String,
    order: u32,
    number: u32,
}

impl Road {
    /// A world with the tables and a configuration.
    pub(crate) fn world(self, lease_ttl: &str, batch_entries: u32) -> World {
        self.world_at(lease_ttl, batch_entries, |database| database.url())
    }

    /// The same; the relay reaches a database on a server by the URL that `door` makes of it.
    pub(crate) fn world_at(
        self,
        lease_ttl: &str,
        batch_entries: u32,
        door: impl FnOnce(&postrider_servers::Database) -> String,
    ) -> World {
        let mut world = World::new();
        let url = if self.is_postgres() {
            door(world.server.insert(postrider_servers::Database::create_blocking()))
        } else if self.is_mysql() {
            world.mysql.insert(postrider_servers::MysqlDatabase::create_blocking()).url()
        } else {
            "sqlite://shop.db".to_owned()
        };
        self.furnish(world, &url, lease_ttl, batch_entries)
    }

    /// The same in a database on a server of the test's own.
    pub(crate) fn world_in(
        self,
        lease_ttl: &str,
        batch_entries: u32,
        database: postrider_servers::Database,
    ) -> World {
        let url = database.url();
        let world = World { server: Some(database), ..World::new() };
        self.furnish(world, &url, lease_ttl, batch_entries)
    }

    /// The same in a world that knows its ends; the relay reaches the database by this URL.
    pub(crate) fn furnish(self, mut world: World, url: &str, lease_ttl: &str, batch_entries: u32) -> World {
        if self.goes_to_kafka() && world.landing.is_none() {
            world.landing = Some(Landing::shared());
        }
        let (sink, more) = world.landing.as_ref().map_or_else(
            || ("[[sink]]\nurl = \"file://events.jsonl\"\n".to_owned(), ""),
            |landing| (landing.sink(), landing.more.as_str()),
        );
        let layout = if self.is_native() { "native" } else { "./shop-layout.toml" };
        let status_layout = if self.keeps_order() {
            STATUS_LAYOUT.to_owned()
        } else {
            STATUS_LAYOUT.replace("\"lease\"", "\"hold\"").replace("order = \"key\"", "order = \"none\"")
        };
        world.write("shop-layout.toml", &status_layout);
        world.write(
            "postrider.toml",
            &format!(
                "[outbox]\nurl = \"{url}\"\nlayout = \"{layout}\"\nlease_ttl = \"{lease_ttl}\"\n\
                 {sink}[relay]\nbatch_entries = {batch_entries}\n{more}"
            ),
        );
        match (&world.server, &world.mysql) {
            _ if self.is_native() => {}
            (Some(database), _) => drop(database.query(STATUS_TABLE_POSTGRES)),
            (_, Some(database)) => drop(database.query(STATUS_TABLE_MYSQL)),
            (None, None) => world.database("shop.db").execute_batch(STATUS_TABLE).unwrap(),
        }
        world.run(&["migrate"]).ok();
        world
    }

    pub(crate) fn is_postgres(self) -> bool {
        !matches!(self, Self::Cursor | Self::Lease) && !self.is_mysql()
    }

    pub(crate) fn is_mysql(self) -> bool {
        let to_kafka =
            matches!(self, Self::MysqlLeaseToKafka | Self::MysqlCursorToKafka | Self::MysqlHoldToKafka);
        to_kafka || matches!(self, Self::MysqlLease | Self::MysqlCursor | Self::MysqlHold)
    }

    fn is_native(self) -> bool {
        matches!(
            self,
            Self::Cursor
                | Self::PostgresCursor
                | Self::MysqlCursor
                | Self::CursorToKafka
                | Self::MysqlCursorToKafka
        )
    }

    fn goes_to_kafka(self) -> bool {
        let from_postgres = matches!(self, Self::CursorToKafka | Self::LeaseToKafka | Self::HoldToKafka);
        from_postgres
            || matches!(self, Self::MysqlLeaseToKafka | Self::MysqlCursorToKafka | Self::MysqlHoldToKafka)
    }

    /// Whether each order's events arrive in order.
    fn keeps_order(self) -> bool {
        !matches!(self, Self::PostgresHold | Self::MysqlHold | Self::HoldToKafka | Self::MysqlHoldToKafka)
    }

    /// Whether an entry passes a point on this road.
    pub(crate) fn passes(self, point: &str) -> bool {
        let own = match self {
            Self::Cursor | Self::Lease => "sqlite.",
            _ if self.is_mysql() => "mysql.",
            _ => "postgres.",
        };
        let is_others = |database: &str| database != own && point.starts_with(database);
        !["sqlite.", "postgres.", "mysql."].into_iter().any(is_others)
            && !point.starts_with(if self.goes_to_kafka() { "file." } else { "kafka." })
    }

    fn insert(self) -> &'static str {
        if self.is_native() && self.is_mysql() {
            "insert into outbox (event_id, type, source, aggregate_type, aggregate_id, payload)
             values (?1, 'shop.order.changed.v1', '/shop', 'Order', ?2, ?3)"
        } else if self.is_native() {
            "insert into outbox (event_id, type, source, aggregate_type, aggregate_id, payload, time)
             values (?1, 'shop.order.changed.v1', '/shop', 'Order', ?2, ?3, 1700000000000000)"
        } else {
            "insert into shop_outbox (event_id, kind, order_id, body, happened_at)
             values (?1, 'shop.order.changed.v1', ?2, ?3, '2026-01-01T00:00:00Z')"
        }
    }
}

impl Till<'_> {
    /// Writes rows in one transaction, and ends it.
    fn write(&self, road: Road, rows: &[Row], commits: bool) {
        let cells =
            |row: &Row| [row.id.clone(), format!("order-{}", row.order), format!("{{\"n\":{}}}", row.number)];
        match self {
            Self::Sqlite(database) => {
                let transaction = database.unchecked_transaction().unwrap();
                for row in rows {
                    transaction.execute(road.insert(), cells(row)).unwrap();
                }
                if commits { transaction.commit() } else { transaction.rollback() }.unwrap();
            }
            Self::Postgres(_) | Self::Mysql(_) => {
                let filled = |row: &Row| {
                    let [id, order, body] = cells(row).map(|cell| format!("'{cell}'"));
                    road.insert().replace("?1", &id).replace("?2", &order).replace("?3", &body)
                };
                let inserts: Vec<String> = rows.iter().map(filled).collect();
                let end = if commits { "commit" } else { "rollback" };
                let sql = format!("begin; {}; {end}", inserts.join("; "));
                match self {
                    Self::Postgres(database) => drop(database.query(&sql)),
                    Self::Mysql(database) => drop(database.query(&sql)),
                    Self::Sqlite(_) => {}
                }
            }
        }
    }
}

impl<'w> Shop<'w> {
    pub(crate) fn new(world: &'w World, road: Road) -> Self {
        let till = match (&world.server, &world.mysql) {
            (Some(database), _) => Till::Postgres(database),
            (_, Some(database)) => Till::Mysql(database),
            (None, None) => Till::Sqlite(world.database("shop.db")),
        };
        if let Till::Sqlite(database) = &till {
            database.execute_batch("pragma synchronous = off").unwrap();
        }
        Self {
            world,
            road,
            till,
            numbers: HashMap::new(),
            written: 0,
            orders: 3,
            committed: HashMap::new(),
            rolled_back: Vec::new(),
        }
    }

    /// Commits so many events in one transaction, on its orders in turn.
    pub(crate) fn commit(&mut self, events: u32) {
        let mut rows = Vec::new();
        for _ in 0..events {
            let order = self.written % self.orders;
            let number = self.numbers.entry(order).or_default();
            *number += 1;
            let number = *number;
            let id = self.next_id();
            self.committed.insert(id.clone(), (order, number));
            rows.push(Row { id, order, number });
        }
        self.till.write(self.road, &rows, true);
    }

    /// Writes events of the same orders, and rolls them back.
    pub(crate) fn roll_back(&mut self, events: u32) {
        let mut rows = Vec::new();
        for _ in 0..events {
            let order = self.written % self.orders;
            let id = self.next_id();
            self.rolled_back.push(id.clone());
            rows.push(Row { id, order, number: 0 });
        }
        self.till.write(self.road, &rows, false);
    }

    fn next_id(&mut self) -> String {
        self.written += 1;
        format!("event-{}", self.written - 1)
    }

    pub(crate) fn committed(&self) -> usize {
        self.committed.len()
    }

    /// Different events that have arrived.
    pub(crate) fn arrived(&self) -> usize {
        let events = self.world.landed();
        events
            .lines()
            .filter_map(|line| Some(id(&serde_json::from_str(line).ok()?)))
            .collect::<std::collections::HashSet<_>>()
            .len()
    }

    /// F8: nothing that was rolled back has arrived, not even in a torn line.
    #[track_caller]
    pub(crate) fn no_ghosts(&self) {
        let events = self.world.landed();
        for id in &self.rolled_back {
            assert!(!events.contains(&format!("\"{id}\"")), "{id} was rolled back, and published");
        }
    }

    /// F8: every committed event has arrived, in order within its order once duplicates are dropped by id, and a
    /// duplicate has the same bytes. Answers how many duplicates there are.
    #[track_caller]
    pub(crate) fn prove(&self) -> usize {
        self.no_ghosts();
        let events = self.world.landed();
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
            assert!(
                !self.road.keeps_order() || number == *latest + 1,
                "order {order} is out of order in {events}"
            );
            *latest = number;
        }
        assert_eq!(lines.len(), self.committed.len(), "every committed event has arrived: {events}");
        duplicates
    }
}

fn id(event: &Value) -> String {
    event["id"].as_str().unwrap_or_default().to_owned()
}
