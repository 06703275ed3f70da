//! B10: a server that restarts, prepared transactions that outlive it, and a relay that dies with gaps open.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use mysql_async::Conn;
use postrider_core::source::{Claimed, Source};
use postrider_mysql::{Config, MysqlSource, migrate, open_source};
use postrider_servers::{MysqlOptions, PrivateMysql};

use crate::common::{ask_for, block_on};
use crate::late::survive;
use crate::scene::{append, drain, gaps_open, native, run};
use crate::wait;

const WRITERS: u64 = 40;

fn with_lock_mode(mode: u8) -> MysqlOptions {
    MysqlOptions { settings: vec![format!("innodb-autoinc-lock-mode={mode}")], ..MysqlOptions::default() }
}

/// Ids are drawn under a lock for as long as a statement that does not say how many rows it has.
#[test]
fn every_committed_event_arrives_in_order_on_mariadb_in_lock_mode_1() {
    survive(&PrivateMysql::mariadb_with(&with_lock_mode(1)).url(), 1);
}

/// Ids are drawn without a lock, by statements side by side.
#[test]
fn every_committed_event_arrives_in_order_on_mariadb_in_lock_mode_2() {
    survive(&PrivateMysql::mariadb_with(&with_lock_mode(2)).url(), 2);
}

#[test]
fn every_committed_event_arrives_in_order_on_mysql_in_lock_mode_1() {
    if let Some(server) = PrivateMysql::mysql_with(&with_lock_mode(1)) {
        survive(&server.url(), 1);
    }
}

#[test]
fn every_committed_event_arrives_in_order_on_mysql_in_lock_mode_2() {
    if let Some(server) = PrivateMysql::mysql_with(&with_lock_mode(2)) {
        survive(&server.url(), 2);
    }
}

fn config(url: &str, holder: &str) -> Config {
    Config::new(url, native(), holder).unwrap()
}

/// What arrives until these are all there; nothing else may.
async fn arrive(source: &MysqlSource, came: &mut BTreeSet<i64>, expected: &BTreeSet<i64>) {
    wait::until_async("everything that was committed", async || {
        came.extend(drain(source).await);
        expected.is_subset(came)
    })
    .await;
    assert_eq!(*came, *expected, "and nothing that was not");
}

/// B10, F8: transactions are open at once. Some commit, some roll back, some are prepared; the relay dies while their gaps are
/// open, and the server restarts: what was open is gone, what was prepared is not, and every committed event arrives.
fn outlive(mut server: PrivateMysql) {
    let url = server.url().replace("/mysql", "/shop");
    server.query("create database shop character set utf8mb4");
    let (mut committed, mut came) = (BTreeSet::new(), BTreeSet::new());
    let mut prepared = Vec::new();
    block_on(async {
        migrate(&config(&url, "migrate")).await.unwrap();
        let writers = join_all((0..WRITERS).map(async |number| {
            let mut writer = Conn::from_url(&url).await.unwrap();
            let begin = if number % 4 == 0 { format!("xa start 'p{number}'") } else { "begin".to_owned() };
            run(&mut writer, &begin).await;
            let id = append(&mut writer, &format!("own-{number}"), 1).await;
            (number, writer, id)
        }))
        .await;
        let relay = open_source(&config(&url, "first")).await.unwrap();
        for (number, mut writer, id) in writers {
            match number % 4 {
                0 => {
                    run(&mut writer, &format!("xa end 'p{number}'; xa prepare 'p{number}'")).await;
                    prepared.push((number, id));
                }
                1 => run(&mut writer, "rollback").await,
                _ => {
                    run(&mut writer, "commit").await;
                    committed.insert(id);
                }
            }
        }
        arrive(&relay, &mut came, &committed).await;
        assert!(gaps_open(&relay).await >= 10, "those that are prepared");
        drop(relay);
    });
    server.restart();
    block_on(async {
        let relay = open_source(&config(&url, "second")).await.unwrap();
        wait::until_async("the first relay's lease runs out", async || {
            match relay.claim(&ask_for(100)).await.unwrap() {
                Claimed::Standby => false,
                Claimed::Nothing(idle) => idle.gaps_open > 0,
                Claimed::Batch(claim) => panic!("they came before: {:?}", claim.entries),
            }
        })
        .await;
        let mut late = BTreeSet::new();
        for (at, (number, id)) in prepared.into_iter().enumerate() {
            let mut conn = Conn::from_url(&url).await.unwrap();
            let end = if at % 3 == 0 { "rollback" } else { "commit" };
            run(&mut conn, &format!("xa {end} 'p{number}'")).await;
            if end == "commit" {
                late.insert(id);
            }
        }
        arrive(&relay, &mut BTreeSet::new(), &late).await;
        wait::until_async("nothing is left to wait for", async || gaps_open(&relay).await == 0).await;
    });
}

#[test]
fn prepared_transactions_outlive_mariadb_and_the_relay() {
    outlive(PrivateMysql::mariadb());
}

#[test]
fn prepared_transactions_outlive_mysql_and_the_relay() {
    if let Some(server) = PrivateMysql::mysql() {
        outlive(server);
    }
}
