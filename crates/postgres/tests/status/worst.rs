//! Writers at their worst on status tables: nothing is lost, nothing that was rolled back comes, keys stay in order.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use postrider_core::layout::Order;
use postrider_core::source::{Claim, Claimed, Source, SourceError};
use postrider_core::{Entry, Settlement};
use postrider_postgres::open_source;
use postrider_servers::{Database, Options, PrivatePostgres};

use crate::common::tables::{
    logistics_layout, logistics_tables, quoted_layout, status_layout, status_tables,
};
use crate::common::{Harness, ask_for, block_on};
use crate::wait;
use crate::writers::{LETTERS, LOGISTICS, Log, QUOTED, Seen, Writer, Written, client, scene};

const REAL: &str = "create or replace function shifted.clock_timestamp() returns timestamptz \
    language sql volatile as $$ select pg_catalog.clock_timestamp() $$";

/// What a relay that died held is free again after this long.
const TTL: Duration = Duration::from_secs(2);
/// A relay dies with every such claim in its hands.
const DIES_EVERY: usize = 25;

fn seen(entry: &Entry) -> Seen {
    Seen {
        id: entry.envelope.id.to_string(),
        key: entry.envelope.aggregate_id.to_string(),
        version: std::str::from_utf8(&entry.envelope.data).unwrap().parse().unwrap(),
    }
}

/// Publishes what there is until it is told to stop. At some claims the process is gone with all that it knew.
async fn relay(harness: &Harness, log: &Log, stop: &AtomicBool) {
    let mut claims = 0;
    let mut config = harness.config("relay");
    config.lease_ttl = TTL;
    while !stop.load(Ordering::SeqCst) {
        let source = open_source(&config).await.unwrap();
        while !stop.load(Ordering::SeqCst) {
            match source.claim(&ask_for(100)).await.unwrap() {
                Claimed::Batch(Claim { mut hold, entries, .. }) => {
                    log.see(entries.iter().map(seen));
                    claims += 1;
                    let ids = || entries.iter().map(|entry| entry.envelope.id.to_string());
                    if claims % DIES_EVERY == 7 {
                        log.die(ids());
                        break;
                    }
                    let all: Vec<_> = (0..entries.len()).map(|at| (at, Settlement::Published)).collect();
                    let settled = match source.settle(&mut hold, &all).await {
                        Ok(()) => source.release(hold).await,
                        refused => refused,
                    };
                    match settled {
                        Ok(()) => {}
                        // This machine slept for longer than the lease: whoever is late has lost it, as one that died.
                        Err(SourceError::Fenced | SourceError::Unreachable(_)) => log.die(ids()),
                        Err(error) => panic!("{error}"),
                    }
                }
                Claimed::Nothing(_) | Claimed::Standby => wait::nap(2).await,
            }
        }
    }
}

/// F2, F3, F8: writers with random sleeps, rollbacks, savepoints, many rows in one statement, COPY, a slow trigger and prepared
/// transactions, beside one transaction that stays open throughout, and a relay that dies again and again with entries in its
/// hands. All that was committed arrives while that one is still open; what comes twice is what a dead relay held.
fn survive(harness: &Harness, written: &Written, writers: u64, rounds: u64) {
    harness.database.query(REAL);
    harness.database.query(&scene(written.table));
    let (log, stop) = (Log::default(), AtomicBool::new(false));
    block_on(async {
        let open = client(harness).await;
        let held = vec!["held".to_owned()];
        open.batch_execute(&format!("begin; {}", written.insert(&held, "held", 1))).await.unwrap();
        let write_all = async {
            let all = (0..writers).map(async |number| {
                Writer::new(harness, written, number).await.write(rounds, &log).await;
            });
            join_all(all).await;
            wait::until("what an open transaction does not hold arrives", || log.lost().is_empty()).await;
            assert_eq!(
                log.ghosts(),
                [""; 0],
                "nothing of the open transaction, nothing that was rolled back"
            );
            open.batch_execute("commit").await.unwrap();
            log.commit(held);
            wait::until("what was held open arrives", || log.lost().is_empty()).await;
            stop.store(true, Ordering::SeqCst);
        };
        tokio::join!(relay(harness, &log, &stop), write_all);
    });
    assert_eq!(log.ghosts(), [""; 0]);
    if harness.layout.order == Order::Key {
        assert!(log.inverted().is_empty(), "out of order: {:?}", log.inverted());
    }
    let (again, unexplained) = log.repeated();
    assert!(again > 0, "the relay died with entries in its hands");
    assert_eq!(unexplained, [""; 0], "each of {again} that came again was in a dead relay's hands");
}

/// By ids that the table hands out.
#[test]
fn every_committed_event_of_24_writers_arrives_in_order_by_lease() {
    survive(&Harness::new(status_layout(Order::Key), &status_tables()), &LETTERS, 24, 20);
}

/// By a clock and a UUID, which say nothing of who commits first.
#[test]
fn every_committed_event_of_24_writers_arrives_in_order_by_time() {
    survive(&Harness::new(quoted_layout(Order::Key), &status_tables()), &QUOTED, 24, 20);
}

#[test]
fn every_committed_event_of_24_writers_arrives_by_hold() {
    survive(&Harness::new(logistics_layout(), &logistics_tables()), &LOGISTICS, 24, 20);
}

/// On servers of their own, which have so many connections to give; in `cargo xtask soak`.
#[test]
fn every_committed_event_of_200_writers_arrives_from_status_tables() {
    if std::env::var_os("POSTRIDER_SOAK").is_none() {
        return;
    }
    let settings = vec!["max_prepared_transactions = 250".to_owned()];
    for (layout, tables, written) in [
        (status_layout(Order::Key), status_tables(), &LETTERS),
        (logistics_layout(), logistics_tables(), &LOGISTICS),
    ] {
        let server =
            PrivatePostgres::start_with(&Options { settings: settings.clone(), ..Options::default() });
        let harness = Harness::within(Database::create_blocking_on(&server.url()), layout, &tables);
        survive(&harness, written, 200, 4);
    }
}
