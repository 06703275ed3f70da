//! SRC-03, SRC-04, E3: a row that commits late with a lower id is found, and nothing of its key goes before it.

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use postrider_conformance::source::SourceHarness;
use postrider_core::layout::Order;
use postrider_core::source::{Claimed, Source};
use postrider_core::{Layout, Settlement};
use postrider_mysql::{Config, Weight, check, open_source};

use crate::common::tables::{LEDGER, STATUS_TABLES, quoted_layout};
use crate::common::{Harness, Lossy, ask, block_on};
use crate::servers;

fn post(transaction: &str, account: &str) -> String {
    format!(
        "insert into outbox_event (aggregate_type, aggregate_id, event_type, payload, created_at) values \
         ('TRANSACTION', '{transaction}', 'LEDGER_POSTED', '{{\"accountId\": \"{account}\"}}', utc_timestamp(6))"
    )
}

/// Publishes all there is while time passes, so that whatever may be sealed is; answers the transactions.
async fn follow(harness: &Harness, relay: &impl Source, rounds: u32) -> Vec<String> {
    let mut came = Vec::new();
    for _ in 0..rounds {
        while let Claimed::Batch(mut claim) = relay.claim(&ask()).await.unwrap() {
            came.extend(claim.entries.iter().map(|entry| entry.envelope.aggregate_id.to_string()));
            let all: Vec<_> = (0..claim.entries.len()).map(|at| (at, Settlement::Published)).collect();
            relay.settle(&mut claim.hold, &all).await.unwrap();
            relay.release(claim.hold).await.unwrap();
        }
        harness.database.query("do sleep(0.05)");
    }
    came
}

/// How a transaction is left open, and how it ends.
#[derive(Clone, Copy, Debug)]
enum Open {
    Plain,
    /// Prepared, its session gone.
    Prepared,
}

/// SRC-04: one that is open for long, or prepared and without a session, is waited for by its own account only.
#[test]
fn src_04_a_late_row_below_the_mark_is_not_overtaken() {
    for (server, how) in
        servers().into_iter().flat_map(|server| [(server.clone(), Open::Plain), (server, Open::Prepared)])
    {
        let harness = Harness::on(&server, Layout::built_in("ledger").unwrap(), LEDGER);
        block_on(async {
            let relay = harness.open("relay").await;
            let mut late = Conn::from_url(harness.database.url()).await.unwrap();
            let name = format!("'{}'", harness.database.name());
            late.query_drop(match how {
                Open::Plain => "begin".to_owned(),
                Open::Prepared => format!("xa start {name}"),
            })
            .await
            .unwrap();
            late.query_drop(post("a1", "a")).await.unwrap();
            if matches!(how, Open::Prepared) {
                late.query_drop(format!("xa end {name}")).await.unwrap();
                late.query_drop(format!("xa prepare {name}")).await.unwrap();
                late.disconnect().await.unwrap();
                late = Conn::from_url(harness.database.url()).await.unwrap();
            }
            for number in 0..4 {
                harness.database.query(&post(&format!("b{number}"), "b"));
                let came = follow(&harness, &relay, 5).await;
                assert_eq!(came, [format!("b{number}")], "{how:?}: it delays only its own");
            }
            late.query_drop(match how {
                Open::Plain => "commit".to_owned(),
                Open::Prepared => format!("xa commit {name}"),
            })
            .await
            .unwrap();
            harness.database.query(&post("a2", "a"));
            assert_eq!(follow(&harness, &relay, 1).await, ["a1", "a2"], "{how:?}");
            // The same below what nobody could write to any more: another transaction, which begins now.
            follow(&harness, &relay, 12).await;
            let mut late = Conn::from_url(harness.database.url()).await.unwrap();
            late.query_drop("begin").await.unwrap();
            late.query_drop(post("a3", "a")).await.unwrap();
            harness.database.query(&post("b9", "b"));
            assert_eq!(follow(&harness, &relay, 1).await, ["b9"], "{how:?}");
            late.query_drop("commit").await.unwrap();
            harness.database.query(&post("a4", "a"));
            assert_eq!(follow(&harness, &relay, 1).await, ["a3", "a4"], "{how:?}");
        });
    }
}

/// SRC-04: where ids do not count, a row that is written with an earlier time is not overtaken either.
#[test]
fn src_04_a_row_with_an_earlier_time_is_not_overtaken() {
    let letter = |id: u32, subject: &str, second: u32| {
        format!(
            "insert into `Post ``Letters` (`Id`, event_id, event_type, kind, subject, payload, `createdAt`, `Status`) values \
             ('{id}', '{subject}{id}', 'x', 'k', '{subject}', '{{}}', '1970-01-01 00:00:{second:02}', 'NEW')"
        )
    };
    for server in servers() {
        let harness = Harness::on(&server, quoted_layout(Order::Key), STATUS_TABLES);
        harness.pass_blocking(std::time::Duration::from_secs(60));
        block_on(async {
            let relay: Lossy = harness.open("relay").await;
            harness.database.query(&letter(1, "b", 30));
            assert_eq!(relay.drain(&ask()).await, ["b1"]);
            harness.database.query(&letter(2, "a", 10));
            harness.database.query(&letter(3, "a", 40));
            assert_eq!(relay.drain(&ask()).await, ["a2", "a3"]);
        });
    }
}

/// E3, F5: without the right to see who writes order holds all the same, and `check` says what the right would bring.
#[test]
fn e3_without_the_right_to_see_transactions_order_holds() {
    for server in servers() {
        let harness = Harness::on(&server, Layout::built_in("ledger").unwrap(), LEDGER);
        let name = harness.database.name().to_owned();
        let user = format!("u{}", &name[name.len() - 12..]);
        harness.database.query(&format!(
            "create user '{user}'@'%' identified by 'secret'; grant all on `{name}`.* to '{user}'@'%'"
        ));
        let url = harness.database.url();
        let (_, host) = url.rsplit_once('@').unwrap_or_else(|| url.split_once("://").unwrap());
        let config = Config::new(
            &format!("mysql://{user}:secret@{host}"),
            Layout::built_in("ledger").unwrap(),
            "without",
        )
        .unwrap();
        let advice = async |config: &Config| {
            let all = check(config).await;
            assert!(all.iter().all(|finding| finding.weight != Weight::Fault), "{all:?}");
            all.iter()
                .map(|finding| finding.fault.to_string())
                .filter(|said| said.contains("PROCESS"))
                .count()
        };
        block_on(async {
            assert_eq!(advice(&config).await, 1);
            let relay = open_source(&config).await.unwrap();
            let mut late = Conn::from_url(harness.database.url()).await.unwrap();
            late.query_drop("begin").await.unwrap();
            late.query_drop(post("a1", "a")).await.unwrap();
            harness.database.query(&post("b1", "b"));
            assert_eq!(follow(&harness, &relay, 8).await, ["b1"]);
            late.query_drop("commit").await.unwrap();
            harness.database.query(&post("a2", "a"));
            assert_eq!(follow(&harness, &relay, 1).await, ["a1", "a2"]);
            harness.database.query(&format!("grant process on *.* to '{user}'@'%'"));
            assert_eq!(advice(&config).await, 0);
        });
        harness.database.query(&format!("drop user '{user}'@'%'"));
    }
}
