//! Tables as teams have them, and the layouts that map them.

use postrider_core::Layout;
use postrider_core::layout::{Order, Published, Way};

/// Ids that look like UUIDs and count, so that the order of rows written at one moment is known.
const COUNTED: &str = "
    create sequence counted;
    create function counted_uuid() returns uuid language sql volatile as
        $$ select lpad(to_hex(nextval('counted')), 32, '0')::uuid $$;
";

/// Status tables: one with few columns, one with all of them (A13), one with UUIDs and an enum of words.
pub fn status_tables() -> String {
    format!(
        "{COUNTED}
        create table letters (
            id bigint generated always as identity primary key, event_id text not null, event_type text, kind text,
            subject text, payload text, created_at timestamptz, status text not null
        );
        create index letters_open on letters (status, id);
        create table full_letters (
            id bigint generated always as identity primary key, event_id text not null, event_type text, kind text,
            subject text, payload jsonb, created_at bigint, status varchar(20) not null, retry_count smallint,
            max_retries int, next_retry_at timestamp, last_error varchar(18), sent_at bigint, locked_by varchar(2),
            locked_at timestamp, version int
        );
        create index full_letters_open on full_letters (status, id);
        create table marked_letters (
            id bigint generated always as identity primary key, event_id text not null, event_type text, kind text,
            subject text, payload text, created_at timestamp, sent_at timestamp, sent boolean, sent_ms bigint,
            retry_count int, next_retry_at timestamptz
        );
        create index marked_letters_open on marked_letters (id) where sent_at is null;
        create type \"Letter Status\" as enum ('NEW', 'SENT', 'FAILED');
        create schema \"Post Office\";
        create table \"Post Office\".\"Letters\" (
            \"Id\" uuid not null default counted_uuid() primary key, event_id text not null, event_type text, kind text,
            subject text, payload bytea, \"createdAt\" timestamp not null, \"Status\" \"Letter Status\" not null
        );
        create index on \"Post Office\".\"Letters\" (\"Status\", \"createdAt\");"
    )
}

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

/// The same with row locks held.
pub fn held_layout() -> Layout {
    Layout { way: Way::Hold, ..status_layout(Order::None) }
}

/// A table without a status, whose published rows have something in a column.
pub fn marked_layout(way: Way, order: Order, mark: &str) -> Layout {
    let text = format!(
        r#"
        name = "marked-letters"
        table = "marked_letters"
        way = "{}"
        zone = "+09:00"
        published = {{ {mark} }}
        [columns]
        id = "id"
        event_id = "event_id"
        type = "event_type"
        source = {{ constant = "/conformance" }}
        aggregate_type = "kind"
        aggregate_id = "subject"
        payload = "payload"
        time = "created_at"
    "#,
        way.word()
    );
    Layout { order, ..Layout::parse("marked.toml", text.as_bytes()).unwrap() }
}

/// UUIDs, an enum of words, another schema, names that must be quoted.
pub fn quoted_layout(order: Order) -> Layout {
    let text = r#"
        name = "quoted-letters"
        schema = "Post Office"
        table = "Letters"
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

/// C1.
pub const ORDER_SERVICE: &str = "
    create table outbox (
        id uuid primary key, aggregate_type varchar(255) not null, aggregate_id uuid not null,
        event_type varchar(255) not null, payload text not null, status varchar(50) not null,
        created_at timestamp not null, sent_at timestamp, error_message text
    );
    create index idx_outbox_status_created on outbox (status, created_at);
    create index idx_outbox_aggregate on outbox (aggregate_id);
";

/// D1.
pub const LOGISTICS: &str = "
    create table outbox_events (
        id uuid primary key, aggregate_type varchar(50) not null, aggregate_id uuid not null,
        event_type varchar(100) not null, payload jsonb not null, occurred_at timestamptz default now(),
        status varchar(20) default 'PENDING', retry_count int default 0, next_attempt_at timestamptz default now(),
        last_error text, processed_at timestamptz
    );
    create index idx_outbox_poll on outbox_events (status, next_attempt_at);
    create index idx_outbox_aggregate on outbox_events (aggregate_type, aggregate_id);
";

/// The same columns, with event ids of their own for the suite's names and ids that count.
pub fn logistics_tables() -> String {
    format!(
        "{COUNTED}
        create table outbox_events (
            id uuid primary key default counted_uuid(), event_id text, aggregate_type varchar(50) not null,
            aggregate_id text not null, event_type varchar(100), payload jsonb not null,
            occurred_at timestamptz default now(), status varchar(20) default 'PENDING', retry_count int default 0,
            next_attempt_at timestamptz default now(), last_error text, processed_at timestamptz
        );
        create index idx_outbox_poll on outbox_events (status, next_attempt_at);"
    )
}

pub fn logistics_layout() -> Layout {
    let mut layout = Layout::built_in("logistics").unwrap();
    layout.columns.event_id = status_layout(Order::None).columns.event_id;
    layout
}

/// Debezium's table, likewise.
pub fn debezium_tables() -> String {
    format!(
        "{COUNTED}
        create table outbox (
            id uuid primary key default counted_uuid(), event_id text, aggregatetype varchar(255) not null,
            aggregateid varchar(255) not null, type varchar(255), payload jsonb
        );"
    )
}

pub fn debezium_layout() -> Layout {
    let mut layout = Layout::built_in("debezium").unwrap();
    layout.columns.event_id = status_layout(Order::None).columns.event_id;
    layout
}

/// Every column of a domain, some over another, the words over an enum.
pub fn domain_tables() -> String {
    "create sequence domain_letters_id;
     create domain number as bigint; create domain letter_id as number check (value > 0);
     create domain name as varchar(40); create domain event_name as name check (value <> '');
     create domain document as jsonb; create domain moment as timestamptz; create domain due as moment;
     create domain tries as smallint default 0;
     create type word as enum ('NEW', 'TAKEN', 'SENT', 'FAILED');
     create domain status_word as word; create domain letter_status as status_word not null default 'NEW';
     create table domain_letters (
        id letter_id not null default nextval('domain_letters_id') primary key, event_id name not null, event_type event_name, kind name,
        subject name, payload document, created_at moment, status letter_status, retry_count tries, next_retry_at due,
        last_error name, sent_at moment, locked_by name, locked_at moment, version number
     );
     create index domain_letters_open on domain_letters (status, id);"
        .to_owned()
}

pub fn domain_layout(way: Way, order: Order) -> Layout {
    let text = r#"
        name = "domain-letters"
        table = "domain_letters"
        way = "lease"
        on_dead = "skip"
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
        retries = "retry_count"
        not_before = "next_retry_at"
        error = "last_error"
        published_at = "sent_at"
        lease_owner = "locked_by"
        leased_at = "locked_at"
        version = "version"
        [status]
        pending = "NEW"
        leased = "TAKEN"
        published = "SENT"
        dead = "FAILED"
    "#;
    let mut layout = Layout { order, ..Layout::parse("domains.toml", text.as_bytes()).unwrap() };
    if way == Way::Hold {
        layout.way = way;
        layout.columns.lease_owner = None;
        layout.columns.leased_at = None;
        layout.columns.version = None;
        layout.status.as_mut().unwrap().leased = None;
    }
    layout
}
