//! What the tests share: files with tables in them, and events.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::sync::Arc;

use postrider_conformance::clock::ManualClock;
use postrider_core::layout::Order;
use postrider_core::route::Router;
use postrider_core::source::{Ask, Claim, Claimed, Source};
use postrider_core::{Envelope, Layout, Settlement};
use postrider_sqlite::{Config, SqliteSource, migrate, open_source};
use tempfile::NamedTempFile;

pub(crate) fn native() -> Layout {
    Layout::built_in("native").unwrap()
}

/// A file with the native outbox in it.
pub(crate) fn outbox_file() -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    migrate(&Config::new(file.path(), native(), "test")).unwrap();
    file
}

pub(crate) fn envelope(number: i32) -> Envelope {
    Envelope {
        id: format!("event-{number}").into(),
        source: "/shop".into(),
        event_type: "shop.order.created.v1".into(),
        time: "2026-03-01T12:00:00.123456Z".parse().unwrap(),
        content_type: None,
        aggregate_type: "Order".into(),
        aggregate_id: format!("{}", number % 10).into(),
        partition_key: None,
        sequence: None,
        trace: None,
        extensions: BTreeMap::new(),
        data: format!("{{\"number\":{number}}}").into(),
    }
}

/// A team's tables: one with few columns, one with all of them (A13).
pub(crate) const STATUS_TABLE: &str = "
    create table letters (
        id integer primary key, event_id text not null, event_type text not null, kind text, subject text,
        payload text, created_at text, status text not null
    );
    create table full_letters (
        id integer primary key, event_id text not null, event_type text not null, kind text, subject text,
        payload text, created_at integer, status text not null, retry_count integer, max_retries integer,
        next_retry_at text, last_error text, sent_at integer, locked_by text, locked_at text, version integer
    );
    create index letters_open on letters (status);
    create index full_letters_open on full_letters (status);
";

/// A status table without counters: all that it lacks lives beside it.
pub(crate) fn status_layout(order: Order) -> Layout {
    let text = r#"
        name = "letters"
        table = "letters"
        way = "lease"
        [columns]
        id = "id"
        event_id = "event_id"
        type = "event_type"
        source = { constant = "/conformance" }
        aggregate_type = "kind"
        aggregate_id = "subject"
        payload = "payload"
        time = "created_at"
        status = "status"
        [status]
        pending = "NEW"
        published = "SENT"
        dead = "FAILED"
    "#;
    Layout { order, ..Layout::parse("letters.toml", text.as_bytes()).unwrap() }
}

/// A status table with a column for everything, a word for everything, and times in three forms.
pub(crate) fn full_status_layout(order: Order) -> Layout {
    let text = r#"
        name = "full-letters"
        table = "full_letters"
        way = "lease"
        on_dead = "skip"
        zone = "+09:00"
        [columns]
        id = "id"
        event_id = "event_id"
        type = "event_type"
        source = { constant = "/conformance" }
        aggregate_type = "kind"
        aggregate_id = "subject"
        payload = "payload"
        time = { column = "created_at", as = "unix_ms" }
        status = "status"
        retries = "retry_count"
        retries_max = "max_retries"
        not_before = "next_retry_at"
        error = "last_error"
        published_at = { column = "sent_at", as = "unix_s" }
        lease_owner = "locked_by"
        leased_at = "locked_at"
        version = "version"
        [status]
        pending = "PENDING"
        leased = "PROCESSING"
        published = "COMPLETED"
        dead = "DEAD_LETTER"
        retry = "FAILED"
    "#;
    Layout { order, ..Layout::parse("full.toml", text.as_bytes()).unwrap() }
}

/// D1.
pub(crate) const LOGISTICS_TABLE: &str = "
    create table outbox_events (
        id uuid primary key, aggregate_type varchar(50) not null, aggregate_id uuid not null,
        event_type varchar(100) not null, payload jsonb not null, occurred_at timestamptz default current_timestamp,
        status varchar(20) default 'PENDING', retry_count int default 0,
        next_attempt_at timestamptz default '1970-01-01 00:00:00', last_error text, processed_at timestamptz
    );
    create index idx_outbox_poll on outbox_events (status, next_attempt_at);
";

/// C1.
pub(crate) const ORDER_SERVICE_TABLE: &str = "
    create table outbox (
        id uuid primary key, aggregate_type varchar(255) not null, aggregate_id uuid not null,
        event_type varchar(255) not null, payload text not null, status varchar(50) not null,
        created_at timestamp not null, sent_at timestamp, error_message text
    );
";

/// A source with a clock that stands still until it is moved.
pub(crate) struct Relay {
    pub(crate) source: SqliteSource,
    pub(crate) clock: ManualClock,
}

impl Relay {
    pub(crate) fn open(config: &Config) -> Self {
        Self::with_clock(config, ManualClock::default())
    }

    pub(crate) fn with_clock(config: &Config, clock: ManualClock) -> Self {
        Self { source: open_source(config, Arc::new(clock.clone())).unwrap(), clock }
    }

    /// Publishes whatever there is; answers the events' ids in order.
    pub(crate) async fn drain(&self) -> Vec<String> {
        let mut came = Vec::new();
        loop {
            match self.source.claim(&ask()).await.unwrap() {
                Claimed::Batch(Claim { mut hold, entries, .. }) => {
                    let all: Vec<_> = (0..entries.len()).map(|at| (at, Settlement::Published)).collect();
                    self.source.settle(&mut hold, &all).await.unwrap();
                    self.source.release(hold).await.unwrap();
                    came.extend(entries.iter().map(|entry| entry.envelope.id.to_string()));
                }
                Claimed::Nothing(idle) if idle.more => {}
                Claimed::Nothing(_) | Claimed::Standby => return came,
            }
        }
    }
}

pub(crate) fn ask() -> Ask {
    let router = Arc::new(Router::new(vec![], "sink", "{type}"));
    Ask { entries_max: 1_000, bytes_max: 16 << 20, holds: Arc::default(), router }
}
