//! B10: ids are drawn before their transactions commit. The writers here do everything that has been seen to lose events.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use postrider_conformance::log::{Log, Seen};
use postrider_conformance::source::SourceHarness;
use postrider_core::route::Router;
use postrider_core::source::{Ask, Claim, Claimed, Source, SourceError};
use postrider_core::{Entry, Settlement};
use postrider_postgres::{PostgresSource, open_source};
use postrider_servers::{Database, Options, PrivatePostgres};

use crate::harness::{Harness, block_on, id, native};
use crate::wait;
use crate::writers::{SCENE, insert, numbers, write};

pub(crate) fn ask() -> Ask {
    let router = Arc::new(Router::new(vec![], "sink", "{type}"));
    Ask { entries_max: 100, bytes_max: 1 << 24, holds: Arc::default(), router }
}

fn seen(entry: &Entry) -> Seen {
    Seen {
        id: entry.id.int().unwrap(),
        key: entry.envelope.aggregate_id.to_string(),
        version: std::str::from_utf8(&entry.envelope.data).unwrap().parse().unwrap(),
    }
}

/// Publishes what there is until it is told to stop. At some claims the process is gone with all that it knew.
async fn relay(outbox: &Harness, log: &Log, stop: &AtomicBool) {
    let mut claims = 0;
    while !stop.load(Ordering::SeqCst) {
        let source = outbox.source("relay").await;
        while !stop.load(Ordering::SeqCst) {
            match source.claim(&ask()).await.unwrap() {
                Claimed::Batch(claim) => {
                    log.see(claim.entries.iter().map(seen));
                    claims += 1;
                    if claims % 25 == 7 {
                        log.die(claim.entries.iter().filter_map(|entry| entry.id.int()));
                        break;
                    }
                    publish(&source, claim).await;
                }
                Claimed::Nothing(_) | Claimed::Standby => wait::nap(2).await,
            }
        }
    }
}

pub(crate) async fn publish<S: Source>(source: &S, claim: Claim<S::Hold>) {
    let Claim { mut hold, entries, .. } = claim;
    let all: Vec<_> = (0..entries.len()).map(|index| (index, Settlement::Published)).collect();
    source.settle(&mut hold, &all).await.unwrap();
    source.release(hold).await.unwrap();
}

/// Everything there is, published; the ids.
pub(crate) async fn drain(source: &PostgresSource) -> Vec<i64> {
    let mut came = Vec::new();
    loop {
        match source.claim(&ask()).await.unwrap() {
            Claimed::Batch(claim) => {
                came.extend(claim.entries.iter().map(|entry| entry.id.int().unwrap()));
                publish(source, claim).await;
            }
            Claimed::Nothing(idle) if idle.more => {}
            Claimed::Nothing(_) | Claimed::Standby => return came,
        }
    }
}

/// B10, F2, F3, F8: writers with random sleeps, rollbacks, savepoints, many rows in one statement, COPY, a slow trigger, direct
/// inserts into a partition and prepared transactions, beside one that stays open throughout, and a relay that dies again and
/// again while its gaps are open. Nothing is lost, nothing that was rolled back comes, keys are in order, and what comes twice
/// is what a relay had in its hands when it died. A reader that only moves forward, beside it, loses events (the test of the test).
fn survive(outbox: &Harness, writers: u64, rounds: u64) {
    outbox.query(SCENE);
    let (log, forward, stop) = (Log::default(), Log::default(), AtomicBool::new(false));
    block_on(async {
        let open = outbox.client().await;
        let held = numbers(&open, &format!("begin; {}", insert("outbox", "held", 1))).await;
        let write_all = async {
            join_all((0..writers).map(|number| write(outbox, number, rounds, [&log, &forward]))).await;
            wait::until("what an open transaction does not hold arrives", || log.lost().is_empty()).await;
            assert_eq!(log.ghosts(), [0; 0], "nothing of the open transaction, nothing that was rolled back");
            open.batch_execute("commit").await.unwrap();
            log.commit(&held);
            wait::until("what was held open arrives", || log.lost().is_empty()).await;
            stop.store(true, Ordering::SeqCst);
        };
        tokio::join!(relay(outbox, &log, &stop), write_all, read_forward(outbox, &forward, &stop));
        assert_eq!(log.ghosts(), [0; 0]);
        assert!(log.inverted().is_empty(), "out of order: {:?}", log.inverted());
        let (again, unexplained) = log.repeated();
        assert!(again > 0, "the relay died with entries in its hands");
        assert_eq!(unexplained, [0; 0], "each of {again} that came again was in a dead relay's hands");
        assert!(
            !forward.lost().is_empty(),
            "a reader that only moves forward has missed nothing: these writers are tame"
        );
        // And in the end nothing is left to wait for.
        let source = outbox.source("relay").await;
        let mut last = drain(&source).await.len();
        loop {
            match source.claim(&ask()).await.unwrap() {
                Claimed::Nothing(idle) if idle.gaps_open == 0 => break,
                Claimed::Nothing(_) => wait::nap(20).await,
                Claimed::Batch(claim) => {
                    last += claim.entries.len();
                    publish(&source, claim).await;
                }
                Claimed::Standby => panic!("it is alone"),
            }
            assert!(last < 1_000, "what is published does not come for ever");
        }
    });
}

#[test]
fn every_committed_event_of_24_writers_arrives_in_order() {
    survive(&Harness::by_the_real_clock(native()), 24, 20);
}

/// On a server of its own: it has so many connections to give.
#[test]
fn every_committed_event_of_200_writers_arrives_in_order() {
    let settings = vec!["max_prepared_transactions = 250".to_owned()];
    let server = PrivatePostgres::start_with(&Options { settings, ..Options::default() });
    survive(&Harness::within(Database::create_blocking_on(&server.url()), native()), 200, 4);
}

/// A reader that follows the table by id and keeps no gaps: the first rule of MEASUREMENTS.md, which loses events.
async fn read_forward(outbox: &Harness, log: &Log, stop: &AtomicBool) {
    let (client, mut position) = (outbox.client().await, 0);
    while !stop.load(Ordering::SeqCst) {
        let next = format!("select id from outbox where id > {position} order by id limit 100");
        for id in numbers(&client, &next).await {
            position = id;
            log.see([Seen { id, key: String::new(), version: 0 }]);
        }
        wait::nap(2).await;
    }
}

/// The test of the test: ids that were drawn long before their INSERT are not safe, whoever reads. That is why such a sequence
/// is refused; what is closed is read again after a minute, as the net.
#[test]
fn a_sequence_with_a_cache_loses_events_until_the_net_catches_them() {
    let outbox = Harness::new(native());
    block_on(async {
        let source = outbox.source("relay").await;
        outbox.query("alter sequence outbox_id_seq cache 50");
        let (one, two) = (outbox.client().await, outbox.client().await);
        let first = numbers(&one, &insert("outbox", "a", 1)).await;
        let second = numbers(&two, &insert("outbox", "b", 1)).await;
        assert_eq!(drain(&source).await, [first[0], second[0]]);
        let mut looks = 0;
        while !matches!(source.claim(&ask()).await.unwrap(), Claimed::Nothing(idle) if idle.gaps_open == 0) {
            looks += 1;
            assert!(looks < 10, "nobody is alive who could fill the gap");
            outbox.pass(Duration::from_millis(100)).await;
        }
        let third = numbers(&one, &insert("outbox", "a", 2)).await;
        assert!(third[0] < second[0], "it was drawn before");
        assert_eq!(drain(&source).await, [0; 0], "its gap was closed");
        outbox.pass(Duration::from_secs(61)).await;
        assert_eq!(drain(&source).await, third, "closed gaps are read again");
        // The next relay knows what was given up before it came, and that the third has come.
        outbox.query("alter sequence outbox_id_seq cache 1");
        let by_itself = |id: i64| {
            outbox.query(&format!(
                "insert into outbox (id, type, aggregate_type, aggregate_id, payload) \
                 values ({id}, 'scene.row.written.v1', 'Row', 'a', '3')"
            ));
            [id]
        };
        let fourth = by_itself(third[0] + 1);
        source.retire().await.unwrap();
        drop(source);
        let source = outbox.source("next").await;
        assert_eq!(drain(&source).await, fourth, "what was due for a look before it came is looked at first");
        let fifth = by_itself(third[0] + 2);
        assert_eq!(drain(&source).await, [0; 0]);
        outbox.pass(Duration::from_secs(540)).await;
        drop(source);
        outbox.pass(Duration::from_secs(60)).await;
        let source = outbox.source("last").await;
        assert_eq!(drain(&source).await, fifth, "a relay that was killed left it behind too");
        let watched = "select sum(last - first + 1) from postrider_closed";
        assert_eq!(id(&outbox.query(watched)[0]), 50 - 4, "what came is watched no more");
        outbox.pass(Duration::from_secs(86_400)).await;
        assert_eq!(drain(&source).await, [0; 0]);
        outbox.query(&insert("outbox", "c", 1));
        assert_eq!(drain(&source).await.len(), 1);
        let old = format!("select 1 from postrider_closed where first < {}", second[0]);
        assert!(outbox.query(&old).is_empty(), "after a day it is over");
        outbox.query("alter sequence outbox_id_seq cache 50");
        let refused = open_source(&outbox.config("another")).await.err().unwrap().to_string();
        assert!(refused.contains("cache"), "{refused}");
    });
}

/// Whether a row that commits late is lost, with this in place of `pg_locks`.
fn loses(locks: Option<&str>, table: &str) -> bool {
    let outbox = Harness::new(native());
    if let Some(locks) = locks {
        outbox.query(&format!(
            "create view shifted.pg_locks as select * from pg_catalog.pg_locks where {locks}"
        ));
    }
    let mut came = Vec::new();
    let mut late = Vec::new();
    block_on(async {
        let source = outbox.source("relay").await;
        let open = outbox.client().await;
        late = numbers(&open, &format!("begin; {}", insert(table, "late", 1))).await;
        outbox.query(&insert("outbox", "early", 1));
        for _ in 0..3 {
            came.extend(drain(&source).await);
            outbox.pass(Duration::from_millis(200)).await;
        }
        open.batch_execute("commit").await.unwrap();
        came.extend(drain(&source).await);
    });
    assert_eq!(came.len(), if came.contains(&late[0]) { 2 } else { 1 });
    !came.contains(&late[0])
}

/// The test of the test: it is who holds a lock on the table, and on each of its partitions, that decides. A cursor that does
/// not see it loses what these writers commit.
#[test]
fn a_cursor_that_does_not_see_who_is_alive_loses_events() {
    assert!(!loses(None, "outbox") && !loses(None, "outbox_p0"));
    assert!(loses(Some("false"), "outbox"), "nobody seems to be alive");
    assert!(loses(Some("relation = 'outbox'::regclass"), "outbox_p0"), "the partition is not watched");
}

/// F8: a connection that is cut with a claim in hand and a gap open: everything comes, in order, under a new one.
#[test]
fn a_cut_connection_loses_nothing() {
    let outbox = Harness::new(native());
    block_on(async {
        let source = outbox.source("relay").await;
        let open = outbox.client().await;
        let late = numbers(&open, &format!("begin; {}", insert("outbox", "late", 1))).await;
        outbox.query(&insert("outbox", "a", 1));
        outbox.query(&insert("outbox", "a", 2));
        let Claimed::Batch(Claim { mut hold, entries, .. }) = source.claim(&ask()).await.unwrap() else {
            panic!("there is something")
        };
        assert_eq!(entries.len(), 2);
        outbox.query(
            "select pg_terminate_backend(pid, 60000) from pg_stat_activity \
             where application_name = 'postrider' and datname = current_database()",
        );
        let all = [(0, Settlement::Published), (1, Settlement::Published)];
        assert!(source.settle(&mut hold, &all).await.is_err(), "nobody knows what became of it");
        assert!(
            matches!(source.settle(&mut hold, &all).await, Err(SourceError::Fenced)),
            "the claim is void"
        );
        source.release(hold).await.unwrap();
        assert_eq!(drain(&source).await, [late[0] + 1, late[0] + 2], "they come again");
        open.batch_execute("commit").await.unwrap();
        assert_eq!(drain(&source).await, late);
    });
}

/// A column whose type is changed under a running relay: the next connection reads it as it is.
#[test]
fn a_change_of_the_table_is_outlived() {
    let outbox = Harness::new(native());
    block_on(async {
        let source = outbox.source("relay").await;
        outbox.query(&insert("outbox", "a", 1));
        assert_eq!(drain(&source).await.len(), 1);
        outbox.query("alter table outbox alter column aggregate_id type varchar(300)");
        outbox.query(&insert("outbox", "a", 2));
        let mut came = Vec::new();
        for _ in 0..3 {
            match source.claim(&ask()).await {
                Ok(Claimed::Batch(claim)) => {
                    came.extend(claim.entries.iter().map(|entry| entry.id.int().unwrap()));
                    publish(&source, claim).await;
                }
                Ok(_) => {}
                Err(SourceError::Unreachable(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(came.len(), 1);
    });
}

/// SRC-02, F8: who asks for a claim and does not wait for it leaves nothing in nobody's hands.
#[test]
fn a_claim_that_nobody_waits_for_is_given_back() {
    let outbox = Harness::new(native());
    block_on(async {
        let source = outbox.source("relay").await;
        assert_eq!(drain(&source).await, [0; 0]);
        outbox.query(&insert("outbox", "a", 1));
        // The mark waits for this row, and whoever asked goes away meanwhile.
        let operator = outbox.client().await;
        operator.batch_execute("begin; select 1 from postrider_position for update").await.unwrap();
        let asked = ask();
        let mut claim = Box::pin(source.claim(&asked));
        let blocked =
            "select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()";
        let mut looks = 0;
        while outbox.query(blocked).is_empty() {
            looks += 1;
            assert!(looks < 5_000, "the claim comes to where it waits");
            assert!(futures_util::poll!(&mut claim).is_pending(), "an operator is in its way");
            wait::nap(5).await;
        }
        drop(claim);
        operator.batch_execute("commit").await.unwrap();
        assert_eq!(drain(&source).await.len(), 1, "it is in nobody's hands");
    });
}

/// B10: a prepared transaction that outlives its session holds its gap open, and the next relay knows it too.
#[test]
fn a_prepared_transaction_keeps_its_gap_open() {
    let outbox = Harness::new(native());
    block_on(async {
        let source = outbox.source("one").await;
        let prepared = {
            let client = outbox.client().await;
            let prepared = numbers(&client, &format!("begin; {}", insert("outbox", "p", 1))).await;
            client.batch_execute("prepare transaction 'keeps-its-gap'").await.unwrap();
            prepared
        };
        outbox.query(&insert("outbox", "q", 1));
        assert_eq!(drain(&source).await.len(), 1);
        for _ in 0..5 {
            outbox.pass(Duration::from_millis(200)).await;
            assert_eq!(drain(&source).await, [0; 0]);
        }
        drop(source);
        let next = outbox.source("one").await;
        assert_eq!(drain(&next).await, [0; 0]);
        outbox.pass(Duration::from_millis(200)).await;
        assert!(matches!(next.claim(&ask()).await.unwrap(), Claimed::Nothing(idle) if idle.gaps_open == 1));
        outbox.query("commit prepared 'keeps-its-gap'");
        assert_eq!(drain(&next).await, prepared);
    });
}
