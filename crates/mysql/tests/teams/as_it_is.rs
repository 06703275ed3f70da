//! Donation's table exactly as the team has it: times to the second, columns of their lengths.

use std::time::Duration;

use postrider_core::rows::content_hash;
use postrider_core::source::Source;
use postrider_core::verdict::Reason;
use postrider_core::{Layout, Settlement};

use crate::common::{Harness, ask, block_on};
use postrider_conformance::source::SourceHarness;

const TABLES: &str = "
    create table donation_outbox (
        id bigint auto_increment primary key, version bigint default 0, request_id varchar(50) not null unique,
        event_type varchar(50) not null, payload text not null, content_hash varchar(64) not null,
        status varchar(20) not null default 'PENDING', locked_by varchar(100), locked_at datetime,
        retry_count int default 0, max_retries int default 3, last_error varchar(500), next_retry_at datetime,
        created_at datetime, updated_at datetime,
        index idx_pending_poll (status, next_retry_at, id), index idx_locked (locked_by, locked_at)
    );
    create table donation_dlq (
        id bigint auto_increment primary key, original_id bigint not null, request_id varchar(50) not null,
        event_type varchar(50) not null, payload text not null, reason varchar(500), created_at datetime,
        index idx_request_id (request_id)
    );";

on_each_server!(
    Layout::built_in("donation").unwrap(),
    TABLES,
    [
        a13_what_is_written_fits_its_column,
        a13_times_to_the_second_are_enough,
        a13_a_row_without_a_time_goes_without_it,
    ]
);

fn donate(harness: &Harness, request: &str, more: &str) {
    let (kind, payload) = ("DONATION_COMPLETED", "{\"amount\": 100}");
    let hash = content_hash(request, kind, payload.as_bytes());
    harness.database.query(&format!(
        "insert into donation_outbox set request_id = '{request}', event_type = '{kind}', payload = '{payload}', \
         content_hash = '{hash}'{more}"
    ));
}

/// A13: `locked_by` takes 100 characters, `last_error` and `reason` 500: what is longer is cut, by characters, and who was cut
/// is still the owner.
fn a13_what_is_written_fits_its_column(harness: &Harness) {
    for request in ["retried", "dead"] {
        donate(harness, request, "");
    }
    let holder = "relay-of-a-long-name-".repeat(8);
    let long = "сломано 💥 ".repeat(100);
    block_on(async {
        let relay = harness.open(&holder).await;
        let claim = relay.take(&ask()).await;
        let locked = harness.row("select locked_by, char_length(locked_by) from donation_outbox limit 1");
        assert_eq!(locked, [&holder[..100], "100"]);
        relay
            .finish(claim, |entry| match &*entry.envelope.id {
                "dead" => Settlement::Dead { retries: 3, reason: Reason::new(long.clone()) },
                _ => Settlement::Retried {
                    retries: 1,
                    after: Duration::from_secs(30),
                    reason: Reason::new(long.clone()),
                },
            })
            .await;
    });
    let kept: String = long.chars().take(500).collect();
    let rows = harness.database.query("select status, last_error from donation_outbox order by id");
    let rows: Vec<(&str, &str)> =
        rows.iter().map(|row| (row[0].as_deref().unwrap(), row[1].as_deref().unwrap())).collect();
    assert_eq!(rows, [("FAILED", kept.as_str()), ("DEAD_LETTER", kept.as_str())]);
    assert_eq!(harness.value("select reason from donation_dlq").unwrap(), kept);
}

/// A7–A9, A13: a due time and a lock's time without fractions work as those with them do, at most half a second off.
fn a13_times_to_the_second_are_enough(harness: &Harness) {
    donate(harness, "r", ", next_retry_at = '1970-01-01 00:00:00'");
    harness.pass_blocking(Duration::from_millis(700));
    block_on(async {
        let relay = harness.open("relay").await;
        let mut claim = relay.take(&ask()).await;
        assert_eq!(harness.row("select status, locked_at from donation_outbox")[0], "PROCESSING");
        harness.pass_blocking(Duration::from_secs(2));
        relay.extend(&mut claim.hold).await.unwrap();
        let failed =
            Settlement::Retried { retries: 1, after: Duration::from_secs(30), reason: Reason::new("no") };
        relay.finish(claim, |_| failed.clone()).await;
        assert!(relay.drain(&ask()).await.is_empty(), "it is not due");
        harness.pass_blocking(Duration::from_secs(29));
        assert!(relay.drain(&ask()).await.is_empty(), "it is not due");
        harness.pass_blocking(Duration::from_millis(1_500));
        assert_eq!(relay.drain(&ask()).await, ["r"]);
    });
    assert_eq!(harness.row("select status, version from donation_outbox"), ["COMPLETED", "4"]);
}

/// A13: `created_at` may be NULL: the row is an event all the same, and the NULL hides nothing.
fn a13_a_row_without_a_time_goes_without_it(harness: &Harness) {
    donate(harness, "timeless", ", created_at = null, updated_at = null, max_retries = null");
    block_on(async {
        let relay = harness.open("relay").await;
        let claim = relay.take(&ask()).await;
        assert!(claim.entries[0].flaw.is_none(), "{:?}", claim.entries[0].flaw);
        relay.finish(claim, |_| Settlement::Published).await;
    });
    assert_eq!(harness.row("select status from donation_outbox"), ["COMPLETED"]);
}
