//! Outboxes to measure on, each in a database of its own.

use std::collections::HashMap;

use postrider_core::Layout;
use postrider_postgres::{Config, migrate};
use postrider_servers::Database;
use tokio::runtime::Runtime;

use super::server::Server;
use crate::Outcome;
use crate::load::{KEYS, failed, payload};

/// A table, and how it is claimed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Postrider's own, by cursor.
    Native,
    /// OrderService's, by lease.
    Leased,
    /// Logistics', held.
    Held,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Native, Self::Leased, Self::Held];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Native => "cursor",
            Self::Leased => "lease",
            Self::Held => "hold",
        }
    }

    pub(crate) fn layout(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Leased => "order-service",
            Self::Held => "logistics",
        }
    }

    fn table(self) -> &'static str {
        match self {
            Self::Native | Self::Leased => "outbox",
            Self::Held => "outbox_events",
        }
    }

    /// The team's own table, with its own indexes.
    fn create(self) -> &'static str {
        match self {
            Self::Native => "",
            Self::Leased => {
                "create table outbox (id uuid primary key, aggregate_type varchar(100) not null, aggregate_id uuid not null, \
                 event_type varchar(100) not null, payload text not null, status varchar(20) not null, \
                 created_at timestamp not null, sent_at timestamp, error_message text); \
                 create index on outbox (status, created_at); create index on outbox (aggregate_id)"
            }
            Self::Held => {
                "create table outbox_events (id uuid primary key, aggregate_type varchar(100) not null, \
                 aggregate_id uuid not null, event_type varchar(100) not null, payload jsonb not null, \
                 occurred_at timestamptz not null, status varchar(20) not null, retry_count int not null default 0, \
                 next_attempt_at timestamptz, last_error text, processed_at timestamptz); \
                 create index on outbox_events (status, next_attempt_at); \
                 create index on outbox_events (aggregate_type, aggregate_id)"
            }
        }
    }

    /// Rows from one number to another, published already or still pending.
    fn rows(self, from: usize, to: usize, published: bool, keys: usize) -> String {
        let payload = payload();
        let at = "timestamptz '2020-01-01 00:00:00Z' + i * interval '1 millisecond'";
        let numbers = format!("from generate_series({from}, {to}) as i order by i");
        let (word, done) = match (self, published) {
            (Self::Native, _) => ("", "null"),
            (Self::Leased, true) => ("SENT", at),
            (Self::Leased, false) => ("NEW", "null"),
            (Self::Held, true) => ("PUBLISHED", at),
            (Self::Held, false) => ("PENDING", "null"),
        };
        match self {
            Self::Native => format!(
                "insert into outbox (event_id, type, source, aggregate_type, aggregate_id, time, payload) \
                 select '018f0000-0000-7000-8000-' || lpad(i::text, 12, '0'), 'bench.order.placed.v1', '/bench', 'Order', \
                 (i % {keys})::text, 1767225600000000 + i, '{payload}' {numbers}"
            ),
            Self::Leased => format!(
                "insert into outbox (id, aggregate_type, aggregate_id, event_type, payload, status, created_at, sent_at) \
                 select md5(i::text)::uuid, 'Order', md5((i % {keys})::text)::uuid, 'OrderPlaced', '{payload}', '{word}', \
                 {at}, ({done})::timestamptz {numbers}"
            ),
            Self::Held => format!(
                "insert into outbox_events (id, aggregate_type, aggregate_id, event_type, payload, status, occurred_at, \
                 next_attempt_at, processed_at) \
                 select md5(i::text)::uuid, 'Order', md5((i % {keys})::text)::uuid, 'OrderPlaced', '{payload}', '{word}', \
                 {at}, {at}, ({done})::timestamptz {numbers}"
            ),
        }
    }

    /// One row more, before all that are pending: whoever leaves its transaction open leaves a gap at the bottom.
    fn one_more(self) -> &'static str {
        match self {
            Self::Native => {
                "insert into outbox (type, aggregate_type, aggregate_id, payload) values ('bench.order.placed.v1', 'Order', '1', '{}')"
            }
            Self::Leased => {
                "insert into outbox (id, aggregate_type, aggregate_id, event_type, payload, status, created_at) \
                 values (gen_random_uuid(), 'Order', gen_random_uuid(), 'OrderPlaced', '{}', 'NEW', timestamp '2019-01-01')"
            }
            Self::Held => {
                "insert into outbox_events (id, aggregate_type, aggregate_id, event_type, payload, status, occurred_at, \
                 next_attempt_at) values (gen_random_uuid(), 'Order', gen_random_uuid(), 'OrderPlaced', '{}', 'PENDING', \
                 timestamptz '2019-01-01', timestamptz '2019-01-01')"
            }
        }
    }
}

/// An outbox in a database that goes with it.
pub(crate) struct Outbox<'s> {
    pub(crate) server: &'s Server,
    pub(crate) kind: Kind,
    pub(crate) layout: Layout,
    /// How many keys the rows have.
    keys: usize,
    database: Database,
}

impl<'s> Outbox<'s> {
    /// An empty one.
    pub(crate) fn create(server: &'s Server, kind: Kind) -> Outcome<Self> {
        let database = Database::create_blocking_on(&server.url());
        database.query(kind.create());
        let layout = Layout::built_in(kind.layout())?;
        let outbox = Self { server, kind, layout, keys: KEYS, database };
        runtime()?.block_on(migrate(&outbox.config()?)).map_err(|fault| failed(&fault))?;
        Ok(outbox)
    }

    pub(crate) fn with_keys(self, keys: usize) -> Self {
        Self { keys, ..self }
    }

    pub(crate) fn url(&self) -> String {
        self.database.url()
    }

    pub(crate) fn query(&self, sql: &str) {
        self.database.query(sql);
    }

    /// Which row an event's id stands for, where the table has no numbers in them.
    pub(crate) fn numbers(&self, rows: usize) -> HashMap<String, usize> {
        let ids = self
            .database
            .query(&format!("select md5(i::text)::uuid from generate_series(1, {rows}) as i order by i"));
        ids.into_iter().flatten().flatten().zip(1..).collect()
    }

    pub(crate) fn config(&self) -> Outcome<Config> {
        Config::new(&self.url(), self.layout.clone(), "bench").map_err(|fault| failed(&fault))
    }

    /// Full of pending rows behind published ones, as after a quiet hour. What `between` writes and leaves open stands
    /// between the two.
    pub(crate) fn fill(
        &self,
        retained: usize,
        pending: usize,
        between: impl FnOnce(&str) -> Outcome<()>,
    ) -> Outcome<()> {
        let table = self.kind.table();
        self.query(&format!("truncate {table} restart identity"));
        self.query(&self.kind.rows(1, retained, true, self.keys));
        between(self.kind.one_more())?;
        self.query(&self.kind.rows(retained + 1, retained + pending, false, self.keys));
        self.query(&format!("vacuum analyze {table}"));
        self.forget(retained);
        self.query("checkpoint");
        Ok(())
    }

    /// Nothing is held, and nothing was read but what was published before.
    pub(crate) fn forget(&self, retained: usize) {
        self.query(
            "truncate postrider_position, postrider_exceptions, postrider_claims, postrider_ranges, postrider_leases, \
             postrider_entries",
        );
        if self.kind == Kind::Native {
            self.query(&format!(
                "insert into postrider_position (outbox, position, claimed, start) \
                 values ('outbox', {retained}, {retained}, 'beginning')"
            ));
        }
    }
}

/// As the binary's.
pub(crate) fn runtime() -> Outcome<Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}
