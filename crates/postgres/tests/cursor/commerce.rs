//! The Commerce team's own tables (B4, B6, B8, B19).

use std::time::Duration;

use postrider_conformance::source::SourceHarness;
use postrider_core::source::{Claim, Claimed, Source, SourceError};
use postrider_core::store::Filter;
use postrider_core::verdict::Reason;
use postrider_core::{Layout, Settlement, Start};
use postrider_postgres::{Hold, PostgresSource, open_source};
use postrider_servers::Rows;

use crate::harness::{Harness, block_on, commerce, id};
use crate::late::{ask, drain};
use crate::writers::numbers;

/// Without the job of their own, retries come with every claim.
pub(crate) fn outbox() -> Harness {
    Harness::new(Layout { retry_runs: None, ..commerce() })
}

fn event(name: &str, key: &str) -> String {
    format!(
        "insert into outbox (event_id, event_type, source, aggregate_type, aggregate_id, payload, created_at) \
         values ('{name}', 'loopers.order.created.v1', '/shop', 'Order', '{key}', '{{\"n\":\"{name}\"}}', '2026-02-03 04:05:06Z') \
         returning id"
    )
}

pub(crate) fn append(outbox: &Harness, name: &str, key: &str) -> i64 {
    id(&outbox.query(&event(name, key))[0])
}

pub(crate) fn retried(retries: u32, seconds: u64) -> Settlement {
    let reason = Reason::new("the broker said no, at some length");
    Settlement::Retried { retries, after: Duration::from_secs(seconds), reason }
}

pub(crate) async fn claim(source: &PostgresSource) -> Claim<Hold> {
    let Claimed::Batch(claim) = source.claim(&ask()).await.unwrap() else { panic!("there is something") };
    claim
}

/// Settles a whole claim alike; what it held.
pub(crate) async fn settle(source: &PostgresSource, settlement: Settlement) -> Vec<(i64, u32)> {
    let Claim { mut hold, entries, .. } = claim(source).await;
    let all: Vec<_> = (0..entries.len()).map(|index| (index, settlement.clone())).collect();
    source.settle(&mut hold, &all).await.unwrap();
    source.release(hold).await.unwrap();
    entries.iter().map(|entry| (entry.id.int().unwrap(), entry.retries)).collect()
}

fn text(rows: &Rows) -> Vec<String> {
    let cell = |cell: &Option<String>| cell.clone().unwrap_or_else(|| "null".into());
    rows.iter().map(|row| row.iter().map(cell).collect::<Vec<_>>().join(" ")).collect()
}

pub(crate) fn failed(outbox: &Harness) -> Vec<String> {
    text(&outbox.query(
        "select event_id, event_type, source, aggregate_type, aggregate_id, payload ->> 'n', retry_count, last_error, \
         extract(epoch from next_retry_at - clock_timestamp())::int from outbox_failed order by id",
    ))
}

/// B4: one row for each move of the position, in the order of their ids; no row of the outbox is ever touched.
#[test]
fn the_position_is_appended_and_the_outbox_left_alone() {
    let outbox = outbox();
    block_on(async {
        let source = outbox.source("relay").await;
        append(&outbox, "a1", "a");
        append(&outbox, "b1", "b");
        let before = outbox.query("select id, xmin, ctid from outbox order by id");
        assert_eq!(drain(&source).await, [1, 2]);
        append(&outbox, "a2", "a");
        settle(&source, retried(1, 60)).await;
        let positions = outbox.query("select last_processed_id from outbox_cursor order by id");
        assert_eq!(text(&positions), ["2", "3"]);
        assert_eq!(drain(&source).await, [0; 0]);
        assert_eq!(outbox.query("select id, xmin, ctid from outbox where id <= 2 order by id"), before);
        assert_eq!(outbox.query("select id from outbox").len(), 3);
        assert_eq!(text(&outbox.query("select count(*) from outbox_cursor")), ["2"], "nothing moved");
    });
}

/// B6, B8: a failed row is kept whole, counts the retries that failed, and is gone when it is published; its successors wait
/// beside it. What does not fit a column is cut.
#[test]
fn a_failed_row_is_kept_whole_until_it_is_published() {
    let outbox = outbox();
    block_on(async {
        let source = outbox.source("relay").await;
        append(&outbox, "a1", "a");
        assert_eq!(settle(&source, retried(1, 0)).await, [(1, 0)]);
        let kept = "a1 loopers.order.created.v1 /shop Order a a1";
        assert_eq!(failed(&outbox), [format!("{kept} 0 the broker said no,  0")]);
        append(&outbox, "a2", "a");
        let Claim { mut hold, entries, .. } = claim(&source).await;
        assert_eq!(entries.len(), 2);
        assert_eq!(
            entries[0].envelope.time.to_string(),
            "2026-02-03T04:05:06Z",
            "the event's own time is kept"
        );
        let some = [(0, retried(2, 7)), (1, Settlement::Released)];
        source.settle(&mut hold, &some).await.unwrap();
        source.release(hold).await.unwrap();
        assert_eq!(failed(&outbox), [format!("{kept} 1 the broker said no,  7")]);
        assert_eq!(drain(&source).await, [0; 0], "a1 waits, and a2 behind it");
        assert_eq!(failed(&outbox).len(), 1, "what is parked has not failed");
        outbox.pass(Duration::from_secs(7)).await;
        assert_eq!(drain(&source).await, [1, 2]);
        assert_eq!(failed(&outbox), [""; 0]);
        assert_eq!(outbox.query("select * from postrider_exceptions").len(), 0);
    });
}

/// B8: given up, it stays for a person with the count at its most, and lets its key go on; set back by a person, it is tried
/// again.
#[test]
fn what_is_given_up_stays_until_a_person_sets_it_back() {
    let outbox = outbox();
    block_on(async {
        let source = outbox.source("relay").await;
        append(&outbox, "a1", "a");
        settle(&source, Settlement::Dead { retries: 0, reason: Reason::new("too large") }).await;
        append(&outbox, "a2", "a");
        assert_eq!(drain(&source).await, [2], "the key goes on");
        assert_eq!(failed(&outbox), ["a1 loopers.order.created.v1 /shop Order a a1 10 too large 0"]);
        outbox.pass(Duration::from_secs(3600)).await;
        assert_eq!(drain(&source).await, [0; 0]);
        outbox.query(
            "update outbox_failed set retry_count = 3, next_retry_at = clock_timestamp() + interval '5 s'",
        );
        outbox.pass(Duration::from_secs(2)).await;
        assert_eq!(drain(&source).await, [0; 0], "not before its time");
        outbox.pass(Duration::from_secs(4)).await;
        assert_eq!(settle(&source, retried(5, 60)).await, [(1, 4)], "with the count that the person gave it");
        assert_eq!(failed(&outbox).len(), 1);
        outbox.query("update outbox_failed set next_retry_at = clock_timestamp()");
        outbox.pass(Duration::from_secs(2)).await;
        assert_eq!(drain(&source).await, [1], "a person may hurry it");
        append(&outbox, "b1", "b");
        settle(&source, retried(1, 60)).await;
        append(&outbox, "b2", "b");
        assert_eq!(drain(&source).await, [0; 0]);
        outbox.query("delete from outbox_failed");
        outbox.pass(Duration::from_secs(2)).await;
        assert_eq!(drain(&source).await, [4], "a person may drop it, and its key goes on");
    });
}

/// What an operator does by Postrider's verbs, the team's table says too: the relay does not take it for a person's change.
#[test]
fn verbs_and_the_teams_table_agree() {
    let outbox = outbox();
    block_on(async {
        let (source, store) = (outbox.source("relay").await, outbox.store().await);
        let one = append(&outbox, "a1", "a");
        settle(&source, retried(1, 60)).await;
        let filter = Filter { ids: vec![one.into()], ..Filter::default() };
        assert_eq!(store.bury(&filter, "enough", false).await.unwrap(), 1);
        outbox.pass(Duration::from_secs(60)).await;
        assert_eq!(drain(&source).await, [0; 0], "it stays buried");
        assert_eq!(text(&outbox.query("select retry_count from outbox_failed")), ["10"]);
        assert_eq!(store.revive(&filter, false).await.unwrap(), 1);
        assert_eq!(text(&outbox.query("select retry_count from outbox_failed")), ["0"]);
        assert_eq!(drain(&source).await, [one]);
        assert_eq!(failed(&outbox), [""; 0]);
    });
}

/// One event that the team's table refuses ends nothing, and is not sent for ever.
#[test]
fn a_row_that_the_teams_table_refuses_is_kept_beside_it() {
    let outbox = outbox();
    outbox.query("alter table outbox_failed add constraint no_b check (aggregate_id <> 'b')");
    block_on(async {
        let source = outbox.source("relay").await;
        for (name, key) in [("a1", "a"), ("b1", "b"), ("c1", "c")] {
            append(&outbox, name, key);
        }
        assert_eq!(settle(&source, retried(1, 60)).await.len(), 3);
        assert_eq!(text(&outbox.query("select event_id from outbox_failed order by id")), ["a1", "c1"]);
        let kept =
            outbox.query("select entry, shelf, failed is null from postrider_exceptions order by entry");
        assert_eq!(text(&kept), ["1 waiting f", "2 waiting t", "3 waiting f"]);
        outbox.pass(Duration::from_secs(60)).await;
        assert_eq!(drain(&source).await, [1, 2, 3]);
    });
}

/// B8: rows that somebody else wrote to the team's table are retried as Postrider's own are, with the count and the time that
/// they have; at the most they are left for a person, and one whose event is gone stops nothing.
#[test]
fn rows_that_others_wrote_to_the_teams_table_are_retried() {
    let outbox = outbox();
    let failed_row = |name: &str, key: &str, retries: u32, after: &str| {
        outbox.query(&format!(
            "insert into outbox_failed (event_id, event_type, source, aggregate_type, aggregate_id, payload, retry_count, \
             failed_at, next_retry_at) values ('{name}', 'loopers.order.created.v1', '/shop', 'Order', '{key}', '{{}}', \
             {retries}, clock_timestamp(), clock_timestamp() + interval '{after}')"
        ));
    };
    block_on(async {
        let source = outbox.source("relay").await;
        for (name, key) in [("a1", "a"), ("b1", "b"), ("c1", "c")] {
            append(&outbox, name, key);
        }
        assert_eq!(drain(&source).await, [1, 2, 3]);
        for (name, key, retries, after) in
            [("a1", "a", 3, "0 s"), ("b1", "b", 10, "0 s"), ("c1", "c", 0, "60 s"), ("gone", "g", 0, "0 s")]
        {
            failed_row(name, key, retries, after);
        }
        append(&outbox, "c2", "c");
        outbox.pass(Duration::from_secs(5)).await;
        assert_eq!(settle(&source, retried(5, 60)).await, [(1, 4)], "with its own count; c2 waits behind c1");
        assert_eq!(
            failed(&outbox)[0],
            "a1 loopers.order.created.v1 /shop Order a null 4 the broker said no,  60"
        );
        outbox.pass(Duration::from_secs(55)).await;
        assert_eq!(drain(&source).await, [3, 4]);
        outbox.pass(Duration::from_secs(5)).await;
        assert_eq!(drain(&source).await, [1]);
        outbox.pass(Duration::from_secs(60)).await;
        assert_eq!(drain(&source).await, [0; 0]);
        let left = outbox.query("select event_id from outbox_failed order by id");
        assert_eq!(text(&left), ["b1", "gone"], "for a person, and what nobody can send");
        outbox.query("update outbox_failed set retry_count = 0 where event_id = 'b1'");
        outbox.pass(Duration::from_secs(5)).await;
        assert_eq!(drain(&source).await, [2]);
    });
}

/// What the team's table does not let go is not taken for somebody else's, and sent again and again.
#[test]
fn a_row_that_cannot_be_deleted_is_not_sent_again() {
    for keeps in ["raise exception 'nothing goes'", "return null"] {
        let outbox = outbox();
        outbox.query(&format!(
            "create function keep() returns trigger language plpgsql as $$ begin {keeps}; end $$; \
             create trigger keep before delete on outbox_failed for each row execute function keep()"
        ));
        block_on(async {
            let source = outbox.source("relay").await;
            append(&outbox, "a1", "a");
            settle(&source, retried(1, 0)).await;
            append(&outbox, "a2", "a");
            assert_eq!(drain(&source).await, [1, 2]);
            assert_eq!(outbox.query("select 1 from outbox_failed").len(), 1);
            for _ in 0..3 {
                outbox.pass(Duration::from_secs(10)).await;
                assert_eq!(drain(&source).await, [0; 0], "{keeps}");
            }
        });
    }
}

/// B4: a row that somebody else writes to the table of positions means that another relay is running.
#[test]
fn another_relay_on_the_same_position_stops_this_one() {
    let outbox = outbox();
    block_on(async {
        let source = outbox.source("relay").await;
        append(&outbox, "a1", "a");
        assert_eq!(drain(&source).await, [1]);
        outbox.query("insert into outbox_cursor (last_processed_id) values (1)");
        let Err(SourceError::Broken(told)) = source.claim(&ask()).await else {
            panic!("another one is running")
        };
        assert!(told.problem.contains("outbox_cursor") && told.problem.contains("another relay"), "{told}");
    });
}

/// The first start on the team's own position goes on from there, looks back for what was under way, and takes over what is to
/// be tried again; its own relay would have lost the first (B10).
#[test]
fn an_existing_position_is_taken_over() {
    let outbox = outbox();
    block_on(async {
        let open = outbox.client().await;
        let late = numbers(&open, &format!("begin; {}", event("late", "l"))).await;
        for name in ["a1", "a2", "b1", "c1"] {
            append(&outbox, name, &name[..1]);
        }
        // By the clock an older row is the latest; the id decides.
        outbox.query(
            "insert into outbox_cursor (last_processed_id, created_at) values (3, clock_timestamp() + interval '1 h'), (4, clock_timestamp()); \
             insert into outbox_failed (event_id, event_type, source, aggregate_type, aggregate_id, payload, retry_count, \
             last_error, failed_at, next_retry_at) select event_id, event_type, source, aggregate_type, aggregate_id, payload, \
             case event_id when 'a2' then 4 else 10 end, 'x', clock_timestamp(), clock_timestamp() from outbox where id in (3, 4)",
        );
        let source = outbox.source("relay").await;
        let Claim { entries, hold, .. } = claim(&source).await;
        let came: Vec<_> = entries.iter().map(|entry| (entry.id.int().unwrap(), entry.retries)).collect();
        assert_eq!(came, [(3, 5), (5, 0)], "what waits for a retry, and what comes behind the position");
        source.release(hold).await.unwrap();
        open.batch_execute("commit").await.unwrap();
        assert_eq!(drain(&source).await, [late[0], 3, 5]);
        assert_eq!(
            text(&outbox.query("select event_id from outbox_failed")),
            ["b1"],
            "given up before, and left so"
        );
    });
}

/// B8: as the layout has it, retries run every 5 s, and the rest goes on meanwhile.
#[test]
fn retries_run_as_a_job_of_their_own() {
    let outbox = Harness::new(commerce());
    block_on(async {
        let source = outbox.source("relay").await;
        append(&outbox, "a1", "a");
        settle(&source, retried(1, 0)).await;
        assert_eq!(settle(&source, retried(2, 1)).await, [(1, 1)], "the first retry at once");
        outbox.pass(Duration::from_secs(2)).await;
        let two = append(&outbox, "b1", "b");
        assert_eq!(drain(&source).await, [two], "a1 is due, and waits for the next run");
        outbox.pass(Duration::from_secs(3)).await;
        assert_eq!(drain(&source).await, [1]);
    });
}

/// The team's tables are looked at before anything is published.
#[test]
fn a_table_of_the_teams_that_does_not_fit_is_refused() {
    for (change, told) in [
        ("drop table outbox_failed", "there is no such table"),
        ("alter table outbox_failed drop column next_retry_at", "next_retry_at"),
        ("alter table outbox_cursor rename last_processed_id to last_id", "last_processed_id"),
    ] {
        let outbox = outbox();
        outbox.query(change);
        block_on(async {
            let config = outbox.config("relay").start(Start::Beginning);
            let fault = open_source(&config).await.err().unwrap().to_string();
            assert!(fault.contains(told) && fault.contains("table"), "{fault}");
        });
    }
}
