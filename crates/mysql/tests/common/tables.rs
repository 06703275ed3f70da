//! Tables as teams have them, and the layouts that map them.

use postrider_core::Layout;
use postrider_core::layout::{Order, Published};

/// Status tables: one with few columns, one with all of them (A13), one with UUIDs, an enum and names that must be quoted.
pub const STATUS_TABLES: &str = "
    create table letters (
        id bigint auto_increment primary key, event_id varchar(200) not null, event_type varchar(200), kind varchar(200),
        subject varchar(200), payload mediumtext, created_at datetime(6), status varchar(20) not null, key (status)
    );
    create table full_letters (
        id int unsigned auto_increment primary key, event_id varchar(200) not null, event_type varchar(200),
        kind varchar(200), subject varchar(200), payload json, created_at bigint, status varchar(20) not null,
        retry_count smallint, max_retries int, next_retry_at datetime(6), last_error varchar(18), sent_at bigint,
        locked_by varchar(2), locked_at datetime(6), version int, key (status, next_retry_at)
    );
    create table `Post ``Letters` (
        `Id` char(36) character set ascii not null primary key, event_id varchar(200) not null, event_type varchar(200),
        kind varchar(200), subject varchar(200), payload longblob, `createdAt` datetime(6) not null,
        `Status` enum ('NEW', 'SENT', 'FAILED') not null, key (`Status`, `createdAt`)
    ) character set latin1;";

/// A status table without counters: all that it lacks lives beside it.
pub fn status_layout(order: Order) -> Layout {
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

/// The same, whose published rows are deleted.
pub fn deleting_layout(order: Order) -> Layout {
    Layout { published: Published::Delete, ..status_layout(order) }
}

/// UUIDs, an enum of words, another character set, names that must be quoted.
pub fn quoted_layout(order: Order) -> Layout {
    let text = r#"
        name = "quoted-letters"
        table = "Post `Letters"
        way = "lease"
        [columns]
        id = "Id"
        event_id = "event_id"
        type = "event_type"
        source = { constant = "/conformance" }
        aggregate_type = "kind"
        aggregate_id = "subject"
        payload = "payload"
        time = "createdAt"
        status = "Status"
        [status]
        pending = "NEW"
        published = "SENT"
        dead = "FAILED"
    "#;
    Layout { order, ..Layout::parse("quoted.toml", text.as_bytes()).unwrap() }
}

/// A status table with a column for everything, a word for everything, and times in three forms.
pub fn full_status_layout(order: Order) -> Layout {
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

/// A13, with the team's three indexes. What has to be found by the suite's own names is longer than the team's.
pub const DONATION: &str = "
    create table donation_outbox (
        id bigint auto_increment primary key, version bigint, request_id varchar(50) not null, event_type varchar(50),
        payload text not null, content_hash varchar(64) not null, status varchar(20) not null default 'PENDING',
        locked_by varchar(100), locked_at datetime(6), retry_count int, max_retries int, last_error varchar(500),
        next_retry_at datetime(6), created_at datetime(6), updated_at datetime(6),
        unique key uk_donation_outbox_request (request_id), key idx_donation_outbox_poll (status, next_retry_at),
        key idx_donation_outbox_locked (status, locked_at)
    );
    create table donation_dlq (
        id bigint auto_increment primary key, original_id bigint, request_id varchar(50), event_type varchar(50),
        payload text, reason varchar(500), created_at datetime(6)
    );";

/// E3.
pub const LEDGER: &str = "
    create table outbox_event (
        id bigint auto_increment primary key, event_id varchar(200), aggregate_type varchar(50) not null,
        aggregate_id varchar(64) not null, event_type varchar(100), payload json not null,
        status varchar(20) not null default 'PENDING', retry_count int not null default 0, created_at datetime(6) not null,
        processed_at datetime(6), key idx_outbox_status_created (status, created_at)
    );";

/// With event ids of their own, for the suite's names.
pub fn ledger_layout() -> Layout {
    let mut layout = Layout::built_in("ledger").unwrap();
    layout.columns.event_id = status_layout(Order::None).columns.event_id;
    layout
}
