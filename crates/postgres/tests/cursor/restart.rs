//! B10: many writers, a server that restarts, prepared transactions that outlive it, and a relay that dies with gaps open.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use postrider_core::source::{Claimed, Source};
use postrider_postgres::{Config, PostgresSource, migrate, open_source};
use postrider_servers::PrivatePostgres;
use tokio_postgres::{Client, NoTls};

use crate::harness::{native, runtime};
use crate::late::{ask, drain};
use crate::wait;
use crate::writers::{insert, numbers};

const WRITERS: u64 = 200;

async fn client(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

fn config(url: &str, holder: &str) -> Config {
    Config::new(url, native(), holder).unwrap()
}

/// What arrives until these are all there; nothing else may.
async fn arrive(source: &PostgresSource, came: &mut BTreeSet<i64>, expected: &BTreeSet<i64>) {
    wait::until_async("everything that was committed", async || {
        came.extend(drain(source).await);
        expected.is_subset(came)
    })
    .await;
    assert_eq!(*came, *expected, "and nothing that was not");
}

/// B10, F8: 200 transactions are open at once, beside one that stays open throughout. Some commit, some roll back, some are
/// prepared; the relay dies while their gaps are open, and the server restarts: what was open is gone, what was prepared is
/// not, and every committed event arrives.
#[test]
fn two_hundred_writers_across_a_restart() {
    let mut server = PrivatePostgres::start();
    let (runtime, url) = (runtime(), server.url());
    let (mut committed, mut came) = (BTreeSet::new(), BTreeSet::new());
    let mut prepared = Vec::new();
    runtime.block_on(async {
        migrate(&config(&url, "migrate")).await.unwrap();
        let open = client(&url).await;
        numbers(&open, &format!("begin; {}", insert("outbox", "open", 1))).await;
        let writers = join_all((0..WRITERS).map(async |number| {
            let writer = client(&url).await;
            let ids =
                numbers(&writer, &format!("begin; {}", insert("outbox", &format!("own-{number}"), 1))).await;
            (number, writer, ids)
        }))
        .await;
        let relay = open_source(&config(&url, "first")).await.unwrap();
        for (number, writer, ids) in writers {
            match number % 5 {
                0 => {
                    writer.batch_execute(&format!("prepare transaction 'p{number}'")).await.unwrap();
                    prepared.push((number, ids));
                }
                1 => writer.batch_execute("rollback").await.unwrap(),
                _ => {
                    writer.batch_execute("commit").await.unwrap();
                    committed.extend(ids);
                }
            }
        }
        arrive(&relay, &mut came, &committed).await;
        let Claimed::Nothing(idle) = relay.claim(&ask()).await.unwrap() else { panic!("all of it came") };
        assert!(idle.gaps_open >= 41, "{idle:?}: those that are prepared, and the one that is open");
        drop(relay);
        drop(open);
    });
    server.restart();
    let (url, mut late) = (server.url(), BTreeSet::new());
    runtime.block_on(async {
        let relay = open_source(&config(&url, "second")).await.unwrap();
        wait::until_async("the first relay's lease runs out", async || {
            match relay.claim(&ask()).await.unwrap() {
                Claimed::Standby => false,
                Claimed::Nothing(idle) => idle.gaps_open > 0,
                Claimed::Batch(claim) => panic!("they came before: {:?}", claim.entries),
            }
        })
        .await;
        for (at, (number, ids)) in prepared.into_iter().enumerate() {
            let end = if at % 3 == 0 { "rollback" } else { "commit" };
            client(&url).await.batch_execute(&format!("{end} prepared 'p{number}'")).await.unwrap();
            if end == "commit" {
                late.extend(ids);
            }
        }
        arrive(&relay, &mut BTreeSet::new(), &late).await;
        wait::until_async("nothing is left to wait for", async || {
            matches!(relay.claim(&ask()).await.unwrap(), Claimed::Nothing(idle) if idle.gaps_open == 0)
        })
        .await;
    });
}
