//! A prepared transaction that outlives the server, on status tables.

use postrider_core::layout::Order;
use postrider_core::source::{Claim, Claimed, Source, SourceError};
use postrider_core::{Layout, Settlement};
use postrider_postgres::{PostgresSource, open_source};
use postrider_servers::{Database, PrivatePostgres};

use crate::common::tables::{
    logistics_layout, logistics_tables, quoted_layout, status_layout, status_tables,
};
use crate::common::{Harness, ask_for, block_on};
use crate::wait;
use crate::writers::{LETTERS, LOGISTICS, QUOTED, Written};

/// So many events as they come.
async fn until_came(source: &PostgresSource, count: usize) -> Vec<String> {
    let mut came: Vec<String> = Vec::new();
    wait::until_async("all of them come", async || {
        match source.claim(&ask_for(10)).await {
            Ok(Claimed::Batch(Claim { mut hold, entries, .. })) => {
                let all: Vec<_> = (0..entries.len()).map(|at| (at, Settlement::Published)).collect();
                source.settle(&mut hold, &all).await.unwrap();
                source.release(hold).await.unwrap();
                came.extend(entries.iter().map(|entry| entry.envelope.id.to_string()));
            }
            Ok(Claimed::Nothing(_) | Claimed::Standby) | Err(SourceError::Unreachable(_)) => {}
            Err(error) => panic!("{error}"),
        }
        came.len() >= count
    })
    .await;
    came
}

/// F8, F2: of two prepared transactions that outlive a restart of the server one is committed and one rolled back, and a third
/// transaction that was merely open is gone: the first one's events come, before what was written to their keys after it where
/// order is kept, and the others' never.
fn outlive(layout: Layout, tables: &str, written: &Written) {
    let mut server = PrivatePostgres::start();
    let harness = Harness::within(Database::create_blocking_on(&server.url()), layout, tables);
    let row = |id: &str, key: &str| written.insert(&[id.to_owned()], key, 1);
    let run = |sql: &str| drop(harness.database.query(sql));
    let prepare = |name: &str, rows: &str| format!("begin; {rows}; prepare transaction '{name}'");
    run(&prepare("kept", &format!("{}; {}", row("kept 1", "a"), row("kept 2", "b"))));
    run(&prepare("undone", &row("undone", "c")));
    run(&row("before", "d"));
    block_on(async {
        let open = crate::writers::client(&harness).await;
        open.batch_execute(&format!("begin; {}", row("open", "e"))).await.unwrap();
        let source = open_source(&harness.config("relay")).await.unwrap();
        assert_eq!(until_came(&source, 1).await, ["before"], "what is prepared delays its own events only");
    });
    server.restart();
    block_on(async {
        let source = open_source(&harness.config("relay")).await.unwrap();
        run(&row("between", "d"));
        assert_eq!(until_came(&source, 1).await, ["between"], "nobody knows yet what becomes of them");
        run("commit prepared 'kept'");
        run("rollback prepared 'undone'");
        run(&format!("{}; {}; {}", row("after 1", "a"), row("after 2", "b"), row("last", "f")));
        let mut came = until_came(&source, 5).await;
        let place =
            |id: &str| came.iter().position(|came| came == id).unwrap_or_else(|| panic!("{id} of {came:?}"));
        if harness.layout.order == Order::Key {
            assert!(place("kept 1") < place("after 1") && place("kept 2") < place("after 2"), "{came:?}");
        }
        came.sort();
        assert_eq!(came, ["after 1", "after 2", "kept 1", "kept 2", "last"]);
    });
}

#[test]
fn prepared_transactions_outlive_a_restart_by_lease() {
    outlive(status_layout(Order::Key), &status_tables(), &LETTERS);
}

#[test]
fn prepared_transactions_outlive_a_restart_by_time() {
    outlive(quoted_layout(Order::Key), &status_tables(), &QUOTED);
}

#[test]
fn prepared_transactions_outlive_a_restart_by_hold() {
    outlive(logistics_layout(), &logistics_tables(), &LOGISTICS);
}
