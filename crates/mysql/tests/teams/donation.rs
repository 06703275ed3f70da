//! Donation's requirements on its own table, by plain SQL.

use std::time::Duration;

use postrider_core::rows::content_hash;
use postrider_core::source::{Source, SourceError};
use postrider_core::store::{Filter, Store};
use postrider_core::verdict::Reason;
use postrider_core::{Entry, Layout, Settlement};
use postrider_mysql::open_store;

use crate::common::tables::DONATION;
use crate::common::{Harness, Lossy, ask, ask_for, block_on};
use postrider_conformance::source::SourceHarness;

on_each_server!(
    Layout::built_in("donation").unwrap(),
    DONATION,
    [
        a5_what_is_due_comes_in_order_of_its_id,
        a6_a_tampered_row_is_a_flaw,
        a7_a_claim_is_written_down,
        a7_a_row_whose_version_moved_on_is_not_completed,
        a8_a_failure_is_written_down,
        a10_a_dead_letter_is_in_both_tables_or_in_neither,
        a9_stalled_rows_go_back,
    ]
);

/// A row as the service writes it: counters and due time are NULL unless `more` says otherwise.
fn donate(harness: &Harness, request: &str, more: &str) {
    let (kind, payload) = ("DONATION_COMPLETED", format!("{{\"request\": \"{request}\"}}"));
    let hash = content_hash(request, kind, payload.as_bytes());
    harness.database.query(&format!(
        "insert into donation_outbox set request_id = '{request}', event_type = '{kind}', payload = '{payload}', \
         content_hash = '{hash}', created_at = '1970-01-01'{more}"
    ));
}

fn row(harness: &Harness, request: &str, columns: &str) -> Vec<String> {
    harness.row(&format!("select {columns} from donation_outbox where request_id = '{request}'"))
}

fn failed(retries: u32) -> impl Fn(&Entry) -> Settlement {
    move |_| Settlement::Retried {
        retries,
        after: Duration::from_secs(30),
        reason: Reason::new("no answer ".repeat(60)),
    }
}

async fn relay(harness: &Harness) -> Lossy {
    harness.open("relay").await
}

/// A5: PENDING and FAILED that are due, in id order, so many at most; NULL counts as due, a time to come does not.
fn a5_what_is_due_comes_in_order_of_its_id(harness: &Harness) {
    donate(harness, "late", ", next_retry_at = '1970-01-01 00:00:30'");
    donate(harness, "retried", ", status = 'FAILED', next_retry_at = '1970-01-01'");
    donate(harness, "new", "");
    donate(harness, "done", ", status = 'COMPLETED'");
    donate(harness, "failed", ", status = 'FAILED'");
    donate(harness, "dead", ", status = 'DEAD_LETTER'");
    donate(harness, "strange", ", status = 'ON_HOLD'");
    block_on(async {
        let relay = relay(harness).await;
        let first = relay.take(&ask_for(2)).await;
        let ids = |entries: &[Entry]| entries.iter().map(|e| e.envelope.id.to_string()).collect::<Vec<_>>();
        assert_eq!(ids(&first.entries), ["retried", "new"]);
        relay.finish(first, |_| Settlement::Published).await;
        assert_eq!(relay.drain(&ask()).await, ["failed"]);
        harness.pass_blocking(Duration::from_secs(30));
        assert_eq!(relay.drain(&ask()).await, ["late"]);
    });
    assert_eq!(
        row(harness, "strange", "status, version"),
        ["ON_HOLD", "-"],
        "what is no word of ours is left alone"
    );
    let layout = Layout::built_in("donation").unwrap();
    assert_eq!(layout.batch, 100);
    assert_eq!(layout.interval, postrider_core::layout::Interval::Every(Duration::from_secs(10)));
}

/// A4, A6: what was changed after it was written is dead at once, and the rest flows on.
fn a6_a_tampered_row_is_a_flaw(harness: &Harness) {
    for request in ["payload", "hash", "type", "id", "fine"] {
        donate(harness, request, "");
    }
    donate(harness, "a|b", "");
    harness.database.query(
        "update donation_outbox set payload = concat(payload, ' ') where request_id = 'payload'; \
         update donation_outbox set content_hash = upper(content_hash) where request_id = 'hash'; \
         update donation_outbox set event_type = 'DONATION_CANCELED' where request_id = 'type'; \
         update donation_outbox set request_id = 'other' where request_id = 'id'",
    );
    block_on(async {
        let relay = relay(harness).await;
        let claim = relay.take(&ask()).await;
        let flaws: Vec<(&str, bool)> =
            claim.entries.iter().map(|entry| (&*entry.envelope.id, entry.flaw.is_some())).collect();
        assert_eq!(
            flaws,
            [
                ("payload", true),
                ("hash", true),
                ("type", true),
                ("other", true),
                ("fine", false),
                ("a|b", true)
            ]
        );
        let flaw = &claim.entries[0].flaw.as_ref().unwrap().0;
        assert!(flaw.contains("column \"content_hash\" of table \"donation_outbox\""), "{flaw}");
        assert!(!flaw.contains("request\":"), "the payload is in no message: {flaw}");
        relay.finish(claim, |_| Settlement::Released).await;
    });
}

/// A7: a claim writes PROCESSING, who and since when, and bumps the version; success writes COMPLETED. NULL counts as 0.
fn a7_a_claim_is_written_down(harness: &Harness) {
    donate(harness, "null", "");
    donate(harness, "seven", ", version = 7, retry_count = 2, max_retries = 9");
    harness.pass_blocking(Duration::from_secs(1));
    block_on(async {
        let relay = relay(harness).await;
        let mut claim = relay.take(&ask()).await;
        let counts: Vec<_> = claim.entries.iter().map(|entry| (entry.retries, entry.retries_max)).collect();
        assert_eq!(counts, [(0, None), (2, Some(9))]);
        let columns = "status, locked_by, locked_at, version";
        let since = "1970-01-01 00:00:01.000000";
        assert_eq!(row(harness, "null", columns), ["PROCESSING", "relay", since, "1"]);
        assert_eq!(row(harness, "seven", columns), ["PROCESSING", "relay", since, "8"]);
        harness.pass_blocking(Duration::from_secs(3));
        relay.extend(&mut claim.hold).await.unwrap();
        assert_eq!(
            row(harness, "null", "locked_at"),
            ["1970-01-01 00:00:04.000000"],
            "renewed while its owner lives"
        );
        relay.finish(claim, |_| Settlement::Published).await;
        assert_eq!(row(harness, "null", columns), ["COMPLETED", "-", "-", "2"]);
        assert_eq!(row(harness, "seven", columns), ["COMPLETED", "-", "-", "9"]);
    });
}

/// A7: an owner that was taken over completes nothing.
fn a7_a_row_whose_version_moved_on_is_not_completed(harness: &Harness) {
    donate(harness, "taken", "");
    donate(harness, "kept", "");
    block_on(async {
        let relay = relay(harness).await;
        let mut claim = relay.take(&ask()).await;
        harness.database.query(
            "update donation_outbox set version = version + 1, locked_by = 'the team' where request_id = 'taken'",
        );
        let all: Vec<_> = (0..2).map(|at| (at, Settlement::Published)).collect();
        let lost = relay.settle(&mut claim.hold, &all).await;
        assert!(matches!(lost, Err(SourceError::Fenced)), "{lost:?}");
    });
    assert_eq!(row(harness, "taken", "status, locked_by, version"), ["PROCESSING", "the team", "2"]);
}

/// A8, A13: FAILED with the error cut to its column, and when it is due; the row's own bound on retries is handed out.
fn a8_a_failure_is_written_down(harness: &Harness) {
    donate(harness, "r", ", max_retries = 1");
    block_on(async {
        let relay = relay(harness).await;
        let claim = relay.take(&ask()).await;
        assert_eq!(claim.entries[0].retries_max, Some(1));
        relay.finish(claim, failed(1)).await;
        let columns = "status, retry_count, char_length(last_error), next_retry_at, locked_by, version";
        assert_eq!(
            row(harness, "r", columns),
            ["FAILED", "1", "500", "1970-01-01 00:00:30.000000", "-", "2"]
        );
        assert!(relay.drain(&ask()).await.is_empty(), "it is not due");
        harness.pass_blocking(Duration::from_secs(30));
        assert_eq!(relay.drain(&ask()).await, ["r"]);
    });
    let retry = Layout::built_in("donation").unwrap().retry;
    assert_eq!(retry.retries_max, 3);
    let waits: Vec<u64> = (1..=4).map(|nth| retry.backoff.wait(nth, 0.5).as_secs()).collect();
    assert_eq!(waits, [30, 60, 120, 240]);
}

/// A10: a dead letter is written down in `donation_dlq` in the transaction that makes it dead, by the relay and by an operator.
fn a10_a_dead_letter_is_in_both_tables_or_in_neither(harness: &Harness) {
    for request in ["given-up", "buried", "refused"] {
        donate(harness, request, "");
    }
    let dlq = "select original_id, request_id, event_type, payload, reason, created_at from donation_dlq order by id";
    let die = |_: &Entry| Settlement::Dead { retries: 3, reason: Reason::new("x".repeat(600)) };
    block_on(async {
        let relay = relay(harness).await;
        let claim = relay.take(&ask_for(1)).await;
        relay.finish(claim, die).await;
        let kept = harness.row(dlq);
        assert_eq!(kept[..4], ["1", "given-up", "DONATION_COMPLETED", "{\"request\": \"given-up\"}"]);
        assert_eq!((kept[4].chars().count(), kept[5].as_str()), (500, "1970-01-01 00:00:00.000000"));
        assert_eq!(row(harness, "given-up", "status, retry_count"), ["DEAD_LETTER", "3"]);

        let store = open_store(&harness.config("operator")).await.unwrap();
        let buried = Filter { ids: vec![2.into()], ..Filter::default() };
        assert_eq!(store.bury(&buried, "by hand", false).await.unwrap(), 1);
        assert_eq!(row(harness, "buried", "status, last_error"), ["DEAD_LETTER", "by hand"]);
        assert_eq!(
            harness.value("select reason from donation_dlq where request_id = 'buried'").unwrap(),
            "by hand"
        );

        harness.database.query("rename table donation_dlq to away");
        let mut claim = relay.take(&ask()).await;
        let all = [(0, die(&claim.entries[0]))];
        let refused = relay.settle(&mut claim.hold, &all).await;
        assert!(matches!(refused, Err(SourceError::Unfit(_))), "{refused:?}");
        assert_eq!(row(harness, "refused", "status"), ["PROCESSING"], "neither is written");
        harness.database.query("rename table away to donation_dlq");
        relay.settle(&mut claim.hold, &all).await.unwrap();
        assert_eq!(row(harness, "refused", "status"), ["DEAD_LETTER"]);
        assert_eq!(harness.value("select count(*) from donation_dlq").unwrap(), "3");
    });
}

/// A9: rows that somebody has had for over five minutes go back to PENDING, and FAILED ones are not touched.
fn a9_stalled_rows_go_back(harness: &Harness) {
    harness.pass_blocking(Duration::from_secs(600));
    let held = ", status = 'PROCESSING', locked_by = 'gone', version = 4, locked_at = '1970-01-01 00:0";
    donate(harness, "stalled", &format!("{held}4:59'"));
    donate(harness, "working", &format!("{held}5:01'"));
    donate(harness, "failed", ", status = 'FAILED', next_retry_at = '1970-01-02', locked_at = '1970-01-01'");
    block_on(async {
        let relay = relay(harness).await;
        let store = open_store(&harness.config("store")).await.unwrap();
        assert_eq!(store.reap().await.unwrap(), 1);
        let columns = "status, locked_by, locked_at, version";
        assert_eq!(row(harness, "stalled", columns), ["PENDING", "-", "-", "5"]);
        assert_eq!(row(harness, "working", "status, locked_by, version"), ["PROCESSING", "gone", "4"]);
        assert_eq!(row(harness, "failed", "status, version"), ["FAILED", "-"]);
        assert_eq!(relay.drain(&ask()).await, ["stalled"]);
        assert_eq!(store.reap().await.unwrap(), 0);
    });
    assert_eq!(Layout::built_in("donation").unwrap().stalled, Some(Duration::from_secs(300)));
}
