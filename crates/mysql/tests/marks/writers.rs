//! E3, E4: an account's order under writers at their worst, on the real servers and by the real clock.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use postrider_core::source::{Claim, Claimed, Source};
use postrider_core::verdict::Reason;
use postrider_core::{Layout, Settlement};
use postrider_mysql::{Config, Hold, MysqlSource, open_source};

use crate::common::tables::LEDGER;
use crate::common::{Harness, ask_for, block_on};
use crate::servers;

const ACCOUNTS: u64 = 8;
const WRITERS: u64 = 12;
const DEPOSITS: u64 = 40;
const WAITING: u64 = 400;

/// Numbers that are the same in each run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

/// Deposits: the account is locked, its number drawn, the event written by a clock that is up to two seconds off; some
/// transactions stay open for a while, some are rolled back. Answers how many events were committed.
async fn write(url: &str, seed: u64, deposits: u64) -> usize {
    let (mut chance, mut committed) = (Chance(seed), 0);
    let mut conn = Conn::from_url(url).await.unwrap();
    conn.query_drop("set session transaction isolation level read committed").await.unwrap();
    for _ in 0..deposits {
        conn.query_drop("begin").await.unwrap();
        let account = chance.below(ACCOUNTS);
        let events = 1 + chance.below(2);
        for _ in 0..events {
            conn.query_drop(format!("update account set n = n + 1 where id = {account}")).await.unwrap();
            let number: Option<u64> =
                conn.query_first(format!("select n from account where id = {account}")).await.unwrap();
            let off = chance.below(4_001) as i64 - 2_000;
            conn.query_drop(format!(
                "insert into outbox_event (aggregate_type, aggregate_id, event_type, payload, created_at) values \
                 ('TRANSACTION', '{seed}', 'LEDGER_POSTED', '{{\"accountId\": \"{account}\", \"sequenceNumber\": {}}}', \
                 utc_timestamp(6) + interval {} microsecond)",
                number.unwrap(),
                off * 1_000
            ))
            .await
            .unwrap();
        }
        if chance.below(3) == 0 {
            conn.query_drop(format!("do sleep(0.0{:02})", chance.below(60))).await.unwrap();
        }
        let end = if chance.below(7) == 0 { "rollback" } else { "commit" };
        conn.query_drop(end).await.unwrap();
        committed += if end == "commit" { usize::try_from(events).unwrap() } else { 0 };
    }
    committed
}

/// Publishes one claim, some of it only at the next try; answers each account and number that was sent.
async fn publish(relay: &MysqlSource, claim: Claim<Hold>, chance: &mut Chance) -> Vec<(String, i64)> {
    let Claim { mut hold, entries, .. } = claim;
    let (mut came, mut held, mut all) = (Vec::new(), HashSet::new(), Vec::new());
    for (at, entry) in entries.iter().enumerate() {
        let account = entry.key.as_ref().unwrap().to_string();
        let settlement = if held.contains(&account) {
            Settlement::Released
        } else if chance.below(20) == 0 {
            held.insert(account);
            let after = Duration::from_millis(30);
            Settlement::Retried { retries: entry.retries + 1, after, reason: Reason::new("no") }
        } else {
            came.push((account, entry.envelope.sequence.unwrap()));
            Settlement::Published
        };
        all.push((at, settlement));
    }
    relay.settle(&mut hold, &all).await.unwrap();
    relay.release(hold).await.unwrap();
    came
}

/// E3, E4: with writers' clocks two seconds apart, hundreds of rows waiting, transactions that commit out of the order of their
/// ids, and retries, each account's events come in order, each once, and none is lost or invented.
#[test]
fn e4_an_accounts_order_holds_whatever_writers_do() {
    for server in servers() {
        let harness = Harness::on(&server, Layout::built_in("ledger").unwrap(), LEDGER);
        harness.database.query("create table account (id int primary key, n int not null)");
        for account in 0..ACCOUNTS {
            harness.database.query(&format!("insert into account values ({account}, 0)"));
        }
        let url = harness.database.url();
        let committed = AtomicUsize::new(0);
        let writing = AtomicUsize::new(usize::try_from(WRITERS).unwrap());
        block_on(async {
            committed.fetch_add(write(&url, 1_000, WAITING).await, Ordering::SeqCst);
        });
        let mut came: Vec<(String, i64)> = Vec::new();
        std::thread::scope(|scope| {
            for seed in 0..WRITERS {
                let (url, committed, writing) = (&url, &committed, &writing);
                scope.spawn(move || {
                    block_on(async {
                        committed.fetch_add(write(url, seed, DEPOSITS).await, Ordering::SeqCst);
                    });
                    writing.fetch_sub(1, Ordering::SeqCst);
                });
            }
            block_on(async {
                let layout = Layout::built_in("ledger").unwrap();
                let relay = open_source(&Config::new(&url, layout, "relay").unwrap()).await.unwrap();
                let (mut chance, mut in_vain) = (Chance(7), 0);
                loop {
                    let is_over = writing.load(Ordering::SeqCst) == 0;
                    if let Claimed::Batch(claim) = relay.claim(&ask_for(25)).await.unwrap() {
                        came.extend(publish(&relay, claim, &mut chance).await);
                        in_vain = 0;
                        continue;
                    }
                    if is_over && came.len() >= committed.load(Ordering::SeqCst) {
                        break;
                    }
                    in_vain += 1;
                    assert!(in_vain < 5_000, "{} of {committed:?} came, and no more", came.len());
                    harness.database.query("do sleep(0.002)");
                }
            });
        });
        assert_eq!(came.len(), committed.load(Ordering::SeqCst), "each once, none lost, none invented");
        let mut last: HashMap<&str, i64> = HashMap::new();
        for (account, number) in &came {
            let before = last.insert(account, *number).unwrap_or(0);
            assert_eq!(*number, before + 1, "account {account}");
        }
    }
}
