//! Where reading begins, and what happens when ids go backwards.

use postrider_core::Start;
use postrider_core::source::{Source, SourceError};
use postrider_mysql::open_source;

use crate::common::{Harness, ask_for, block_on};
use crate::scene::{append, drain, insert, native, run, servers, source, writer};

/// A table that was there before Postrider came.
fn adopted(server: &str) -> Harness {
    let outbox = Harness::on(server, native(), "");
    outbox.database.query("delete from postrider_position");
    outbox
}

/// F10: a table with rows is refused until somebody says where to begin; what was under way at that moment comes too.
#[test]
fn a_table_with_rows_begins_where_it_is_told() {
    for server in servers() {
        let outbox = adopted(&server);
        block_on(async {
            let mut conn = writer(&outbox).await;
            let first = append(&mut conn, "a", 1).await;
            let refused = open_source(&outbox.config("relay")).await.err().unwrap().to_string();
            assert!(
                refused.contains("where to begin is not said") && refused.contains("start ="),
                "{refused}"
            );
            run(&mut conn, "begin").await;
            let under_way = append(&mut conn, "a", 2).await;
            outbox.database.query(&insert("b", 1));
            let source = open_source(&outbox.config("relay").start(Start::Now)).await.unwrap();
            assert_eq!(drain(&source).await, [0; 0], "only what comes");
            run(&mut conn, "commit").await;
            assert_eq!(drain(&source).await, [under_way], "and what was under way when reading began");
            assert_eq!(first + 1, under_way);
        });
        let outbox = adopted(&server);
        block_on(async {
            outbox.database.query(&insert("a", 1));
            outbox.database.query(&insert("a", 2));
            let source = open_source(&outbox.config("relay").start(Start::After(1))).await.unwrap();
            assert_eq!(drain(&source).await, [2]);
        });
    }
}

/// Rows that were pruned are no sign of anything; a table that was truncated is, while the relay runs and when it starts.
#[test]
fn ids_that_go_backwards_stop_the_relay() {
    for server in servers() {
        let outbox = Harness::on(&server, native(), "");
        block_on(async {
            let relay = source(&outbox, "relay").await;
            for version in 1..=3 {
                outbox.database.query(&insert("a", version));
            }
            assert_eq!(drain(&relay).await, [1, 2, 3]);
            outbox.database.query("delete from outbox");
            assert_eq!(drain(&relay).await, [0; 0], "what was published may go");
            outbox.database.query(&insert("a", 4));
            assert_eq!(drain(&relay).await, [4]);
            outbox.database.query("truncate table outbox");
            outbox.database.query(&insert("a", 5));
            let stopped = relay.claim(&ask_for(100)).await;
            let Err(SourceError::Broken(fault)) = stopped else {
                panic!("it goes on: {:?}", stopped.is_ok())
            };
            assert!(fault.to_string().contains("ids went backwards"), "{fault}");
            let refused = open_source(&outbox.config("next")).await.err().unwrap().to_string();
            assert!(refused.contains("ids went backwards"), "{refused}");
            drop(relay);
            let next = open_source(&outbox.config("relay").start(Start::After(0))).await.unwrap();
            assert_eq!(drain(&next).await, [1], "a person has said where to go on");
        });
    }
}
