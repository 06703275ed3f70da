//! B10: prepared transactions, which outlive their sessions, relays and the server itself.

use mysql_async::prelude::Queryable;
use postrider_core::source::Source;

use crate::common::{Harness, block_on};
use crate::scene::{append, drain, gaps_open, look, native, run, servers, source, writer};
use crate::wait;

/// Prepares a transaction with one event; answers its name and the id.
async fn prepare(outbox: &Harness, before: impl AsyncFnOnce(i64)) -> (String, i64) {
    let xid = format!("'{}'", outbox.database.name());
    let mut conn = writer(outbox).await;
    run(&mut conn, &format!("xa start {xid}")).await;
    let id = append(&mut conn, "p", 1).await;
    before(id).await;
    run(&mut conn, &format!("xa end {xid}")).await;
    run(&mut conn, &format!("xa prepare {xid}")).await;
    conn.disconnect().await.unwrap();
    (xid, id)
}

async fn end(outbox: &Harness, how: &str, xid: &str) {
    let mut conn = writer(outbox).await;
    wait::until_async("the server knows that its session is gone", async || {
        conn.query_drop(format!("xa {how} {xid}")).await.is_ok()
    })
    .await;
}

/// B10: prepared, its session gone, then committed by another one: its gap stays open, before and after a takeover.
#[test]
fn a_prepared_transaction_keeps_its_gap_open() {
    for server in servers() {
        let outbox = Harness::by_the_real_clock(&server, native(), "");
        block_on(async {
            let one = source(&outbox, "one").await;
            let (xid, prepared) = prepare(&outbox, async |_| {}).await;
            let mut conn = writer(&outbox).await;
            let passed = append(&mut conn, "q", 1).await;
            assert_eq!(look(&one).await, [passed]);
            assert_eq!(gaps_open(&one).await, 1);
            one.retire().await.unwrap();
            let next = source(&outbox, "two").await;
            assert_eq!(look(&next).await, [0; 0]);
            assert_eq!(gaps_open(&next).await, 1);
            end(&outbox, "commit", &xid).await;
            assert_eq!(drain(&next).await, [prepared]);
        });
    }
}

/// B10: it was noted under its thread, and has none any more after it was prepared: it is the same by its start.
#[test]
fn a_transaction_that_is_prepared_after_it_was_noted_is_the_same() {
    for server in servers() {
        let outbox = &Harness::by_the_real_clock(&server, native(), "");
        block_on(async {
            let source = &source(outbox, "one").await;
            let (xid, prepared) = prepare(outbox, async |id| {
                let mut conn = writer(outbox).await;
                assert_eq!(append(&mut conn, "q", 1).await, id + 1);
                assert_eq!(look(source).await, [id + 1], "it is noted under its thread");
            })
            .await;
            assert_eq!(look(source).await, [0; 0]);
            assert_eq!(gaps_open(source).await, 1, "it has no thread any more, and may commit");
            end(outbox, "commit", &xid).await;
            assert_eq!(drain(source).await, [prepared]);
        });
    }
}

/// What was prepared and is rolled back closes its gap.
#[test]
fn a_prepared_transaction_that_is_rolled_back_closes_its_gap() {
    for server in servers() {
        let outbox = Harness::by_the_real_clock(&server, native(), "");
        block_on(async {
            let source = source(&outbox, "one").await;
            let (xid, _) = prepare(&outbox, async |_| {}).await;
            let mut conn = writer(&outbox).await;
            let passed = append(&mut conn, "q", 1).await;
            assert_eq!(look(&source).await, [passed]);
            assert_eq!(gaps_open(&source).await, 1);
            end(&outbox, "rollback", &xid).await;
            wait::until_async("nobody is left", async || gaps_open(&source).await == 0).await;
        });
    }
}
