//! The hold way on a real MariaDB, and on MySQL 8.0 where there is one: what row locks do that no lease does.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;
#[path = "cursor/wait.rs"]
#[allow(dead_code, reason = "other tests use the rest of it")]
mod wait;

use common::tables::{STATUS_TABLES, status_layout};
use common::{Harness, ask, ask_for, block_on};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use postrider_core::layout::{Order, Way};
use postrider_core::source::{Claim, Claimed, Source, SourceError};
use postrider_core::store::{Filter, Store};
use postrider_core::{EntryId, Layout, Settlement, State};
use postrider_mysql::{Hold, MysqlSource, open_source, open_store};
use postrider_servers::{mariadb, mysql};

fn layout() -> Layout {
    Layout { way: Way::Hold, ..status_layout(Order::None) }
}

fn servers() -> impl Iterator<Item = String> {
    [Some(mariadb()), mysql()].into_iter().flatten()
}

fn letters(outbox: &Harness, count: u32) {
    for n in 1..=count {
        outbox.database.query(&format!(
            "insert into letters (event_id, event_type, kind, subject, payload, created_at, status) \
             values ('e{n}', 'letter.sent.v1', 'Letter', 's{n}', '{{}}', '2026-01-01', 'NEW')"
        ));
    }
}

async fn take(source: &MysqlSource, entries_max: usize) -> Claim<Hold> {
    match source.claim(&ask_for(entries_max)).await.unwrap() {
        Claimed::Batch(claim) => claim,
        Claimed::Nothing(_) | Claimed::Standby => panic!("there is something to claim"),
    }
}

fn all(claim: &Claim<Hold>) -> Vec<(usize, Settlement)> {
    (0..claim.entries.len()).map(|at| (at, Settlement::Published)).collect()
}

async fn run(conn: &mut Conn, sql: &str) {
    conn.query_drop(sql).await.unwrap_or_else(|error| panic!("{error}, of: {sql}"));
}

/// Until a session's statement waits for somebody's lock: nothing else takes it a second. The list of transactions may be old as
/// long as anybody keeps asking for it.
async fn until_it_waits(outbox: &Harness, thread: u64) {
    let waits = format!(
        "select 1 from information_schema.processlist where id = {thread} and command in ('Query', 'Execute') and time >= 1"
    );
    wait::until("it waits for the relay's row", || !outbox.database.query(&waits).is_empty()).await;
}

/// SRC-15, SRC-16: who dies with rows in its hands frees them at once, whatever its lease would have been, and what it wrote
/// of them is as if it had not been.
#[test]
fn a_dead_relays_rows_are_free_at_once() {
    for server in servers() {
        let outbox = Harness::on(&server, layout(), STATUS_TABLES);
        letters(&outbox, 2);
        block_on(async {
            let (one, two) = (
                open_source(&outbox.config("one")).await.unwrap(),
                open_source(&outbox.config("two")).await.unwrap(),
            );
            let mut claim = take(&one, 10).await;
            let settlements = all(&claim);
            one.settle(&mut claim.hold, &settlements).await.unwrap();
            let Claimed::Nothing(idle) = two.claim(&ask()).await.unwrap() else { panic!("they are locked") };
            assert!(idle.elsewhere);
            drop(claim);
            drop(one);
            // The server has to hear of it.
            let mut claim = None;
            for _ in 0..1_000 {
                if let Claimed::Batch(found) = two.claim(&ask()).await.unwrap() {
                    claim = Some(found);
                    break;
                }
            }
            assert_eq!(claim.unwrap().entries.len(), 2);
        });
    }
}

/// STO-01, STO-05: what is locked is leased, whoever has it, and no verb touches it.
#[test]
fn what_is_locked_is_leased() {
    for server in servers() {
        let outbox = Harness::on(&server, layout(), STATUS_TABLES);
        letters(&outbox, 3);
        block_on(async {
            let source = open_source(&outbox.config("relay")).await.unwrap();
            let store = open_store(&outbox.config("operator")).await.unwrap();
            let claim = take(&source, 2).await;
            let depth = store.depth().await.unwrap();
            assert_eq!((depth.pending, depth.leased), (1, 2), "{depth:?}");
            let leased = Filter { state: Some(State::Leased), ..Filter::default() };
            assert_eq!(store.list(&leased).await.unwrap().len(), 2);
            let held = Filter { ids: vec![EntryId::Int(1), EntryId::Int(3)], ..Filter::default() };
            assert_eq!(store.bury(&held, "by hand", false).await.unwrap(), 1, "the one that nobody has");
            // Looking has left no lock behind.
            drop(claim);
            assert_eq!(store.depth().await.unwrap().dead, 1);
        });
    }
}

/// What keeps a claim's settlement from being written: a trigger that writes a row which somebody else has.
const TALLY: &str = "
    create table tally (id int primary key, n int not null);
    insert into tally values (1, 0);
    create table filler (id int auto_increment primary key, x int);
    create trigger count_sent after update on letters for each row update tally set n = n + 1 where id = 1";

/// 1213: the relay is chosen to give way. Its rows are locked anew once the other has ended, and everything is written again.
#[test]
fn a_settlement_that_gives_way_in_a_deadlock_is_made_again() {
    for server in servers() {
        let outbox = Harness::on(&server, layout(), STATUS_TABLES);
        outbox.database.query(TALLY);
        letters(&outbox, 2);
        block_on(async {
            let source = open_source(&outbox.config("relay")).await.unwrap();
            let mut claim = take(&source, 10).await;
            // It has more to lose than the relay, which is therefore chosen.
            let mut other = Conn::from_url(outbox.database.url()).await.unwrap();
            run(&mut other, "begin; update tally set n = 100").await;
            run(&mut other, "insert into filler (x) with recursive s(n) as (select 1 union all select n + 1 from s where n < 500) select n from s")
                .await;
            let thread: u64 = other.query_first("select connection_id()").await.unwrap().unwrap();
            let waiting = tokio::spawn(async move {
                run(&mut other, "update letters set subject = subject where id = 1").await;
                run(&mut other, "commit").await;
            });
            until_it_waits(&outbox, thread).await;
            let settlements = all(&claim);
            source.settle(&mut claim.hold, &settlements).await.unwrap();
            waiting.await.unwrap();
            source.release(claim.hold).await.unwrap();
            assert_eq!(
                outbox.value("select count(*) from letters where status = 'SENT'").as_deref(),
                Some("2")
            );
            let tally = outbox.value("select n from tally").unwrap();
            assert!(tally.parse::<u32>().unwrap() > 100, "both have written: {tally}");
        });
    }
}

/// 1213, where the row is another's by then: the claim is void, and nothing is written over.
#[test]
fn a_row_that_somebody_else_has_settled_meanwhile_is_left_alone() {
    for server in servers() {
        let outbox = Harness::on(&server, layout(), STATUS_TABLES);
        outbox.database.query(TALLY);
        letters(&outbox, 2);
        block_on(async {
            let source = open_source(&outbox.config("relay")).await.unwrap();
            let mut claim = take(&source, 10).await;
            let mut other = Conn::from_url(outbox.database.url()).await.unwrap();
            run(&mut other, "begin; update tally set n = 100").await;
            run(&mut other, "insert into filler (x) with recursive s(n) as (select 1 union all select n + 1 from s where n < 500) select n from s")
                .await;
            let thread: u64 = other.query_first("select connection_id()").await.unwrap().unwrap();
            let waiting = tokio::spawn(async move {
                run(&mut other, "update letters set status = 'FAILED' where id = 1").await;
                run(&mut other, "commit").await;
            });
            until_it_waits(&outbox, thread).await;
            let settlements = all(&claim);
            let settled = source.settle(&mut claim.hold, &settlements).await;
            assert!(matches!(settled, Err(SourceError::Fenced)), "{settled:?}");
            waiting.await.unwrap();
            drop(claim);
            let words = outbox.row("select group_concat(status order by id) from letters");
            assert_eq!(words, ["FAILED,NEW"], "the other one goes out again");
        });
    }
}

/// A row whose new word the table refuses is kept beside it, the rest is settled.
#[test]
fn what_the_table_refuses_is_kept_beside_it() {
    for server in servers() {
        let outbox = Harness::on(&server, layout(), STATUS_TABLES);
        outbox.database.query("alter table letters add check (subject <> 's2' or status <> 'SENT')");
        letters(&outbox, 3);
        block_on(async {
            let source = open_source(&outbox.config("relay")).await.unwrap();
            let mut claim = take(&source, 10).await;
            let settlements = all(&claim);
            source.settle(&mut claim.hold, &settlements).await.unwrap();
            source.release(claim.hold).await.unwrap();
            assert_eq!(outbox.row("select group_concat(status order by id) from letters"), ["SENT,NEW,SENT"]);
            let store = open_store(&outbox.config("operator")).await.unwrap();
            let dead = Filter { state: Some(State::Dead), ..Filter::default() };
            let listed = store.list(&dead).await.unwrap();
            assert_eq!(listed.len(), 1);
            assert!(listed[0].error.as_deref().unwrap().contains("mend the table"), "{:?}", listed[0].error);
        });
    }
}
