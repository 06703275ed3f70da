//! Times as they are configured, never guessed.

use std::time::Duration;

use postrider_core::source::Source;
use postrider_core::store::Store;
use postrider_core::verdict::Reason;
use postrider_core::{Layout, Settlement};
use postrider_mysql::open_store;

use crate::common::{Harness, ask, block_on};
use postrider_conformance::source::SourceHarness;

on_each_server!(
    in_seoul(),
    TABLE,
    [datetimes_are_read_and_written_in_the_layouts_zone, timestamps_are_moments_whatever_the_servers_zone,]
);

/// The same columns as DATETIME, which knows no zone, and as TIMESTAMP, which is a moment.
const TABLE: &str = "
    create table full_letters (
        id int unsigned auto_increment primary key, event_id varchar(200) not null, event_type varchar(200),
        kind varchar(200), subject varchar(200), payload json, created_at datetime(6), status varchar(20) not null,
        retry_count smallint, max_retries int, next_retry_at datetime(6), last_error varchar(18), sent_at datetime(6),
        locked_by varchar(20), locked_at datetime(6), version int, key (status)
    );
    create table moments (
        id int unsigned auto_increment primary key, event_id varchar(200) not null, event_type varchar(200),
        kind varchar(200), subject varchar(200), payload json, created_at timestamp(6) null, status varchar(20) not null,
        retry_count smallint, max_retries int, next_retry_at timestamp(6) null, last_error varchar(18),
        sent_at timestamp(6) null, locked_by varchar(20), locked_at timestamp(6) null, version int, key (status)
    );";

fn in_seoul() -> Layout {
    let text = r#"
        name = "seoul"
        table = "full_letters"
        way = "lease"
        order = "none"
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
        pending = "PENDING"
        leased = "PROCESSING"
        published = "COMPLETED"
        dead = "DEAD_LETTER"
        retry = "FAILED"
    "#;
    Layout::parse("seoul.toml", text.as_bytes()).unwrap()
}

fn write(harness: &Harness, table: &str, created: &str, due: &str) {
    harness.database.query(&format!(
        "insert into {table} (event_id, event_type, kind, subject, payload, created_at, status, next_retry_at) values \
         ('e', 'x', 'Order', '1', '{{}}', {created}, 'PENDING', {due})"
    ));
}

/// F1, issue 6: a DATETIME is what the clock on the wall of the layout's zone shows, in each column, read and written.
fn datetimes_are_read_and_written_in_the_layouts_zone(harness: &Harness) {
    // It is nine o'clock there at the beginning of 1970.
    write(harness, "full_letters", "'2026-01-02 12:00:00.5'", "'1970-01-01 09:00:30'");
    block_on(async {
        let relay = harness.open("relay").await;
        assert!(relay.drain(&ask()).await.is_empty(), "it is not due for half a minute");
        harness.pass_blocking(Duration::from_secs(30));
        let claim = relay.take(&ask()).await;
        assert_eq!(claim.entries[0].envelope.time.to_string(), "2026-01-02T03:00:00.5Z");
        assert_eq!(harness.row("select locked_at from full_letters"), ["1970-01-01 09:00:30.000000"]);
        let later = Duration::from_secs(60);
        let retried = Settlement::Retried { retries: 1, after: later, reason: Reason::new("no") };
        relay.finish(claim, |_| retried.clone()).await;
        assert_eq!(harness.row("select next_retry_at from full_letters"), ["1970-01-01 09:01:30.000000"]);
        harness.pass_blocking(later);
        assert_eq!(relay.drain(&ask()).await, ["e"]);
        assert_eq!(harness.row("select sent_at from full_letters"), ["1970-01-01 09:01:30.000000"]);
        let shown = open_store(&harness.config("operator")).await.unwrap().show(&1.into()).await.unwrap();
        assert_eq!(shown.unwrap().published_at.unwrap().to_string(), "1970-01-01T00:01:30Z");
        relay.retire().await.unwrap();
    });
}

/// A TIMESTAMP is a moment: neither the layout's zone nor the session's of whoever wrote it moves it.
fn timestamps_are_moments_whatever_the_servers_zone(harness: &Harness) {
    harness.database.query(
        "set time_zone = '-05:00'; insert into moments (event_id, event_type, kind, subject, payload, created_at, status) \
         values ('e', 'x', 'Order', '1', '{}', '2026-01-02 12:00:00.5', 'PENDING')",
    );
    // The first second of all is no TIMESTAMP.
    harness.pass_blocking(Duration::from_secs(86_400));
    block_on(async {
        let table = postrider_core::layout::Identifier::new("moments").unwrap();
        let config = harness.config("relay").table(table);
        postrider_mysql::migrate(&config).await.unwrap();
        let source = postrider_mysql::open_source(&config).await.unwrap();
        let postrider_core::source::Claimed::Batch(claim) = source.claim(&ask()).await.unwrap() else {
            panic!("there is something to claim")
        };
        assert_eq!(claim.entries[0].envelope.time.to_string(), "2026-01-02T17:00:00.5Z");
        let locked = "set time_zone = '+00:00'; select locked_at from moments";
        assert_eq!(harness.row(locked), ["1970-01-02 00:00:00.000000"]);
        source.release(claim.hold).await.unwrap();
    });
}
