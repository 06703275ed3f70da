//! What the tests share: files with tables in them, and events.
#![allow(dead_code)]

use std::collections::BTreeMap;

use postrider_core::layout::Order;
use postrider_core::{Envelope, Layout};
use postrider_sqlite::{Config, migrate};
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
