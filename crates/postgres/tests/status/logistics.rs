//! Logistics (D): row locks held while publishing.

use std::time::Duration;

use postrider_conformance::source::SourceHarness;
use postrider_core::source::{Claim, Claimed, Source, SourceError};
use postrider_core::{Layout, Settlement};
use postrider_servers::until;

use crate::common::tables::{LOGISTICS, debezium_layout, debezium_tables};
use crate::common::{Harness, ask, ask_for, block_on};
use crate::{dead, retried, uuid};

fn harness() -> Harness {
    Harness::new(Layout::built_in("logistics").unwrap(), LOGISTICS)
}

fn write(harness: &Harness, number: usize, columns: &str, values: &str) {
    harness.database.query(&format!(
        "insert into outbox_events (id, aggregate_type, aggregate_id, event_type, payload{columns}) \
         values ('{}', 'Order', '{}', 'Shipped', '{{\"n\": {number}}}'{values})",
        uuid(number),
        uuid(900)
    ));
}

fn row(harness: &Harness, number: usize, column: &str) -> Option<String> {
    harness.value(&format!("select {column} from outbox_events where id = '{}'", uuid(number)))
}

/// D1: PENDING becomes PUBLISHED with processed_at, and only when the claim ends.
#[test]
fn d1_a_row_written_by_plain_sql_is_published() {
    let harness = harness();
    write(&harness, 1, "", "");
    block_on(async {
        let source = harness.open("one").await;
        let Claim { mut hold, entries, .. } = source.take(&ask_for(50)).await;
        assert_eq!((&*entries[0].envelope.id, &*entries[0].envelope.event_type), (&*uuid(1), "Shipped"));
        assert_eq!(&*entries[0].envelope.data, b"{\"n\": 1}");
        source.settle(&mut hold, &[(0, Settlement::Published)]).await.unwrap();
        assert_eq!(
            row(&harness, 1, "status").as_deref(),
            Some("PENDING"),
            "nothing is durable before the end"
        );
        source.release(hold).await.unwrap();
    });
    assert_eq!(row(&harness, 1, "status").as_deref(), Some("PUBLISHED"));
    assert_eq!(row(&harness, 1, "processed_at").as_deref(), Some("1970-01-01 00:00:00+00"));
}

/// D2: by next_attempt_at, occurred_at, id; what is not due does not come; NULL hides no row.
#[test]
fn d2_rows_come_when_due_and_null_hides_none() {
    let harness = harness();
    let at = ", next_attempt_at, occurred_at";
    write(&harness, 1, at, ", '1970-01-01 00:00:03Z', '1970-01-01 00:00:01Z'");
    write(&harness, 2, at, ", '1970-01-01 00:00:02Z', '1970-01-01 00:00:05Z'");
    write(&harness, 3, at, ", '1970-01-01 00:00:02Z', '1970-01-01 00:00:04Z'");
    write(&harness, 4, at, ", '1970-01-01 00:00:02Z', null");
    write(&harness, 5, at, ", null, '1970-01-01 00:00:01Z'");
    write(&harness, 6, ", next_attempt_at, retry_count", ", null, null");
    write(&harness, 7, at, ", '1970-01-01 00:00:11Z', '1970-01-01 00:00:01Z'");
    block_on(async {
        harness.pass(Duration::from_secs(10)).await;
        let source = harness.open("one").await;
        for size in [1, 2, 3, 50] {
            let mut came = Vec::new();
            let mut claims = Vec::new();
            while let Claimed::Batch(claim) = source.claim(&ask_for(size)).await.unwrap() {
                came.extend(
                    claim.entries.iter().map(|entry| (entry.envelope.id.to_string(), entry.flaw.clone())),
                );
                claims.push(claim);
            }
            let ids: Vec<&str> = came.iter().map(|(id, _)| id.as_str()).collect();
            assert_eq!(ids, [3, 2, 4, 1, 6, 5].map(uuid), "in claims of {size}");
            assert!(came.iter().all(|(_, flaw)| flaw.is_none()), "NULL buries none: {came:?}");
            for claim in claims {
                source.release(claim.hold).await.unwrap();
            }
        }
        let Claimed::Batch(claim) = source.claim(&ask()).await.unwrap() else { panic!("six are due") };
        source.finish(claim, |_| Settlement::Published).await;
        let Claimed::Nothing(idle) = source.claim(&ask()).await.unwrap() else { panic!("one is not due") };
        assert_eq!(idle.due_in, Some(Duration::from_secs(1)));
        harness.pass(Duration::from_secs(1)).await;
        assert_eq!(source.drain(&ask()).await, [uuid(7)]);
    });
}

/// D4: PENDING, the count, the error and the next try after 1, 2, 4, 8, 16 s; the sixth failed try makes it FAILED.
#[test]
fn d4_a_failed_try_is_written_into_the_row() {
    let harness = harness();
    write(&harness, 1, ", retry_count", ", null");
    block_on(async {
        let source = harness.open("one").await;
        for (retries, seconds) in (1u32..).zip([1, 2, 4, 8, 16]) {
            let claim = source.take(&ask()).await;
            assert_eq!(claim.entries[0].retries, retries - 1);
            source.finish(claim, |_| retried(retries, seconds * 1_000)).await;
            assert_eq!(row(&harness, 1, "status").as_deref(), Some("PENDING"));
            assert_eq!(row(&harness, 1, "retry_count"), Some(retries.to_string()));
            assert_eq!(row(&harness, 1, "last_error").as_deref(), Some("the broker said no"));
            let wait = row(&harness, 1, "extract(epoch from next_attempt_at - now())::int");
            assert_eq!(wait, Some(seconds.to_string()));
            harness.pass(Duration::from_secs(seconds)).await;
        }
        let claim = source.take(&ask()).await;
        source.finish(claim, |_| dead(5)).await;
        assert_eq!(row(&harness, 1, "status").as_deref(), Some("FAILED"));
        assert_eq!(row(&harness, 1, "retry_count").as_deref(), Some("5"));
        harness.pass(Duration::from_secs(3_600)).await;
        assert_eq!(source.drain(&ask()).await, Vec::<String>::new());
    });
}

/// D5: whoever dies frees its rows at once, by no clock; what it settled and did not commit is not settled.
#[test]
fn d5_a_dead_relay_frees_its_rows_at_once() {
    let harness = harness();
    (1..=3).for_each(|number| write(&harness, number, "", ""));
    block_on(async {
        let (one, two) = (harness.open("one").await, harness.open("two").await);
        let Claim { mut hold, entries, .. } = one.take(&ask()).await;
        assert_eq!(entries.len(), 3);
        one.settle(&mut hold, &[(0, Settlement::Published)]).await.unwrap();
        assert!(matches!(two.claim(&ask()).await.unwrap(), Claimed::Nothing(_)));
        harness.database.query(
            "select pg_terminate_backend(pid, 60000) from pg_stat_activity where application_name = 'one' \
             and datname = current_database()",
        );
        assert_eq!(two.drain(&ask()).await, [1, 2, 3].map(uuid));
        let answer = one.settle(&mut hold, &[(1, Settlement::Published)]).await;
        assert!(matches!(answer, Err(SourceError::Unreachable(_) | SourceError::Fenced)), "{answer:?}");
        assert!(matches!(one.release(hold).await, Err(SourceError::Fenced)));
        write(&harness, 4, "", "");
        let mut came = Vec::new();
        for _ in 0..100 {
            // Each connection finds out for itself that it was cut.
            if let Ok(Claimed::Batch(claim)) = one.claim(&ask()).await {
                came.extend(claim.entries.iter().map(|entry| entry.envelope.id.to_string()));
                one.finish(claim, |_| Settlement::Published).await;
                break;
            }
        }
        assert_eq!(came, [uuid(4)], "it comes back by itself");
    });
}

/// F1: Debezium's table has neither status nor counters: what waits and what is dead is known beside it, what is published
/// is deleted.
#[test]
fn f1_debeziums_table_is_taken_over_as_it_is() {
    let harness = Harness::new(debezium_layout(), &debezium_tables());
    for id in ["a1", "b1", "c1"] {
        harness.database.query(&format!(
            "insert into outbox (event_id, aggregatetype, aggregateid, type, payload) \
             values ('{id}', 'Order', '1', 'OrderPlaced', '{{}}')"
        ));
    }
    block_on(async {
        let source = harness.open("one").await;
        let claim = source.take(&ask()).await;
        source
            .finish(claim, |entry| match &*entry.envelope.id {
                "a1" => retried(1, 1_000),
                "b1" => dead(0),
                _ => Settlement::Published,
            })
            .await;
        assert_eq!(harness.value("select count(*) from outbox").as_deref(), Some("2"));
        let Claimed::Nothing(idle) = source.claim(&ask()).await.unwrap() else {
            panic!("a1 waits, b1 is dead")
        };
        assert_eq!(idle.due_in, Some(Duration::from_secs(1)));
        harness.pass(Duration::from_secs(1)).await;
        let claim = source.take(&ask()).await;
        assert_eq!((&*claim.entries[0].envelope.id, claim.entries[0].retries), ("a1", 1));
        source.finish(claim, |_| Settlement::Published).await;
        assert_eq!(harness.value("select string_agg(event_id, ' ') from outbox").as_deref(), Some("b1"));
        let kept = "select count(*) from postrider_entries where dead";
        until("only the dead is known beside the table", || harness.value(kept).as_deref() == Some("1"));
    });
}

/// F8, F1: Debezium's table has no time, and may have no payload: such an event is sent without them, the same each time.
#[test]
fn f8_what_debeziums_table_does_not_have_is_left_out_and_the_same_each_time() {
    let harness = Harness::new(debezium_layout(), &debezium_tables());
    harness.database.query(
        "insert into outbox (event_id, aggregatetype, aggregateid, type, payload) values ('a1', 'Order', '1', 'OrderGone', null)",
    );
    block_on(async {
        let mut sent = Vec::new();
        for holder in ["one", "two"] {
            let source = harness.open(holder).await;
            let claim = source.take(&ask()).await;
            let entry = &claim.entries[0];
            assert_eq!(
                (&entry.flaw, entry.envelope.known_time(), entry.envelope.data.len()),
                (&None, None, 0)
            );
            let mut line = Vec::new();
            postrider_core::cloudevents::structured::encode(&entry.envelope, &mut line).unwrap();
            sent.push(String::from_utf8(line).unwrap());
            // It dies with the receipt in its hands.
            drop(claim);
            harness.kill(source).await;
            harness.pass(Duration::from_secs(60)).await;
        }
        assert_eq!(sent[0], sent[1]);
        assert!(!sent[0].contains("time") && !sent[0].contains("data"), "{}", sent[0]);
    });
}
