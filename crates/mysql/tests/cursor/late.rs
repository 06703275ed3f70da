//! B10: ids are drawn before their transactions commit. The writers here do everything that has been seen to lose events.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use postrider_conformance::log::{Log, Seen};
use postrider_conformance::source::SourceHarness;
use postrider_core::Entry;
use postrider_core::source::{Claim, Claimed, Source, SourceError};

use crate::common::{Harness, ask_for, block_on};
use crate::scene::{
    append, drain, gaps_open, insert, native, numbers, publish, run, servers, source, writer,
};
use crate::wait;
use crate::writers::{SCENE, write};

const WRITERS: u64 = 24;
const ROUNDS: u64 = 16;

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
        let source = source(outbox, "relay").await;
        while !stop.load(Ordering::SeqCst) {
            match source.claim(&ask_for(100)).await.unwrap() {
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

/// The reader that loses events: it only moves forward.
async fn read_naively(outbox: &Harness, log: &Log, stop: &AtomicBool) {
    let (mut conn, mut position) = (writer(outbox).await, 0);
    run(&mut conn, "set session transaction isolation level read committed").await;
    while !stop.load(Ordering::SeqCst) {
        let next = format!("select id from outbox where id > {position} order by id limit 200");
        for id in numbers(&mut conn, &next).await {
            position = id;
            log.see([Seen { id, key: String::new(), version: 0 }]);
        }
        wait::nap(2).await;
    }
}

/// B10, F2, F3, F8: writers with random sleeps, rollbacks, savepoints, many rows in one statement that waits for a unique key,
/// reserved ids that nobody uses, a slow trigger and prepared transactions whose sessions are gone, beside one that stays open
/// throughout, and a relay that dies again and again while its gaps are open. Nothing is lost, nothing that was rolled back
/// comes, keys are in order, and what comes twice is what a relay had in its hands when it died. A naive reader beside it
/// loses events (the test of the test); that one which asks by NOWAIT does so too is staged in `rules.rs`, where it is sure.
pub(crate) fn survive(server: &str, lock_mode: i64) {
    let outbox = &Harness::by_the_real_clock(server, native(), "");
    outbox.database.query(SCENE);
    let (log, forward) = (Log::default(), Log::default());
    let stop = AtomicBool::new(false);
    block_on(async {
        let mut open = writer(outbox).await;
        assert_eq!(numbers(&mut open, "select @@innodb_autoinc_lock_mode").await, [lock_mode]);
        run(&mut open, "begin").await;
        let held = [append(&mut open, "held", 1).await];
        let write_all = async {
            let logs = [&log, &forward];
            join_all((0..WRITERS).map(|number| write(outbox, number, ROUNDS, &logs))).await;
            wait::until("what an open transaction does not hold arrives", || log.lost().is_empty()).await;
            assert_eq!(log.ghosts(), [0; 0], "nothing of the open transaction, nothing that was rolled back");
            run(&mut open, "commit").await;
            log.commit(&held);
            wait::until("what was held open arrives", || log.lost().is_empty()).await;
            stop.store(true, Ordering::SeqCst);
        };
        tokio::join!(relay(outbox, &log, &stop), write_all, read_naively(outbox, &forward, &stop));
        assert_eq!(log.ghosts(), [0; 0]);
        assert!(log.inverted().is_empty(), "out of order: {:?}", log.inverted());
        let (again, unexplained) = log.repeated();
        assert!(again > 0, "the relay died with entries in its hands");
        assert_eq!(unexplained, [0; 0], "each of {again} that came again was in a dead relay's hands");
        assert!(!forward.lost().is_empty(), "a reader that only moves forward has missed nothing");
        // And in the end nothing is left to wait for.
        let source = source(outbox, "relay").await;
        assert!(drain(&source).await.len() < 1_000, "what is published does not come for ever");
        wait::until_async("every gap closes", async || gaps_open(&source).await == 0).await;
    });
}

/// The net: what appears where a gap was closed was written with an id of the application's own; it is read again after a
/// minute, ten minutes, an hour and a day, by whichever relay is active then.
#[test]
fn ids_that_are_given_by_hand_are_caught_by_the_net() {
    for server in servers() {
        let outbox = Harness::on(&server, native(), "");
        let by_hand = |id: i64| {
            outbox.database.query(&format!(
                "insert into outbox (id, type, aggregate_type, aggregate_id, payload) \
                 values ({id}, 'scene.row.written.v1', 'Row', 'a', '3')"
            ));
            [id]
        };
        block_on(async {
            let first = source(&outbox, "relay").await;
            by_hand(10);
            assert_eq!(drain(&first).await, [10]);
            wait::until_async("nobody is alive who could fill the gap", async || {
                gaps_open(&first).await == 0
            })
            .await;
            by_hand(3);
            assert_eq!(drain(&first).await, [0; 0], "its gap was closed");
            outbox.pass(Duration::from_secs(61)).await;
            assert_eq!(drain(&first).await, [3], "closed gaps are read again");
            by_hand(5);
            first.retire().await.unwrap();
            drop(first);
            let next = source(&outbox, "next").await;
            assert_eq!(drain(&next).await, [5], "what was due for a look before it came is looked at first");
            let watched = outbox.value("select sum(last_id - first_id + 1) from postrider_closed");
            assert_eq!(watched.as_deref(), Some("7"), "what came is watched no more");
            outbox.pass(Duration::from_secs(86_400)).await;
            assert_eq!(drain(&next).await, [0; 0]);
            outbox.database.query(&insert("c", 1));
            assert_eq!(drain(&next).await.len(), 1);
            let old = "select 1 from postrider_closed where first_id < 10";
            assert!(outbox.database.query(old).is_empty(), "after a day it is over");
        });
    }
}

/// F8: connections that are cut with a claim in hand and a gap open: everything comes, in order, under new ones.
#[test]
fn cut_connections_lose_nothing() {
    for server in servers() {
        let outbox = Harness::on(&server, native(), "");
        block_on(async {
            let source = source(&outbox, "relay").await;
            let mut open = writer(&outbox).await;
            run(&mut open, "begin").await;
            let late = append(&mut open, "late", 1).await;
            for version in 1..=2 {
                outbox.database.query(&insert("a", version));
            }
            let Claimed::Batch(Claim { mut hold, entries, .. }) = source.claim(&ask_for(100)).await.unwrap()
            else {
                panic!("there is something")
            };
            assert_eq!(entries.len(), 2);
            let own = numbers(&mut open, "select connection_id()").await[0];
            let others = format!(
                "select id from information_schema.processlist where db = '{}' and id not in ({own}, connection_id())",
                outbox.database.name()
            );
            for id in outbox.database.query(&others).into_iter().flatten().flatten() {
                let _ = outbox.database.try_query(&format!("kill {id}"));
            }
            let all =
                [(0, postrider_core::Settlement::Published), (1, postrider_core::Settlement::Published)];
            assert!(source.settle(&mut hold, &all).await.is_err(), "nobody knows what became of it");
            let again = source.settle(&mut hold, &all).await;
            assert!(matches!(again, Err(SourceError::Fenced)), "the claim is void");
            source.release(hold).await.unwrap();
            let came = wait::answer("a connection is there again", async || {
                match source.claim(&ask_for(100)).await {
                    Err(SourceError::Unreachable(_)) => None,
                    claimed => Some(claimed.unwrap()),
                }
            })
            .await;
            let Claimed::Batch(claim) = came else { panic!("they come again") };
            assert_eq!(
                claim.entries.iter().filter_map(|entry| entry.id.int()).collect::<Vec<_>>(),
                [late + 1, late + 2]
            );
            publish(&source, claim).await;
            run(&mut open, "commit").await;
            assert_eq!(drain(&source).await, [late]);
        });
    }
}

/// SRC-02, F8: who asks for a claim and does not wait for it leaves nothing in nobody's hands.
#[test]
fn a_claim_that_nobody_waits_for_is_given_back() {
    let outbox = Harness::new(native(), "");
    block_on(async {
        let source = source(&outbox, "relay").await;
        assert_eq!(drain(&source).await, [0; 0]);
        outbox.database.query(&insert("a", 1));
        // The mark waits for this row, and whoever asked goes away meanwhile.
        let mut operator = writer(&outbox).await;
        run(&mut operator, "begin").await;
        numbers(&mut operator, "select 1 from postrider_position for update").await;
        let asked = ask_for(100);
        let mut claim = Box::pin(source.claim(&asked));
        let waits = format!(
            "select 1 from information_schema.processlist where db = '{}' and info like 'update%postrider_position%'",
            outbox.database.name()
        );
        wait::until("the claim comes to where it waits", || {
            assert!((&mut claim).now_or_never().is_none(), "an operator is in its way");
            !outbox.database.query(&waits).is_empty()
        })
        .await;
        drop(claim);
        run(&mut operator, "rollback").await;
        assert_eq!(drain(&source).await.len(), 1);
    });
}
