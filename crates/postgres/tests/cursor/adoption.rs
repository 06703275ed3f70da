//! Where reading begins, and what happens when ids go backwards.

use postrider_conformance::source::SourceHarness;
use postrider_core::Start;
use postrider_core::source::{Source, SourceError};
use postrider_core::store::Filter;
use postrider_postgres::open_source;

use crate::harness::{Harness, block_on, native};
use crate::late::{ask, drain};
use crate::writers::{insert, numbers};

fn adopted() -> Harness {
    let outbox = Harness::new(native());
    outbox.query("delete from postrider_position");
    outbox
}

/// A table that has rows is not begun anywhere by chance; an empty one at its beginning.
#[test]
fn a_table_with_rows_needs_a_start() {
    let outbox = adopted();
    outbox.query(&insert("outbox", "a", 1));
    block_on(async {
        let told = open_source(&outbox.config("relay")).await.err().unwrap().to_string();
        assert!(told.contains("start = \"beginning\""), "{told}");
        let all = open_source(&outbox.config("relay").start(Start::Beginning)).await.unwrap();
        assert_eq!(drain(&all).await.len(), 1);
    });
    let empty = adopted();
    block_on(async {
        let source = open_source(&empty.config("relay")).await.unwrap();
        empty.query(&insert("outbox", "a", 1));
        assert_eq!(drain(&source).await.len(), 1);
    });
}

/// B10: what is under way when reading begins "now", or behind an id, is written from then on.
#[test]
fn what_is_under_way_at_the_first_start_is_not_lost() {
    for start in [Start::Now, Start::After(2)] {
        let outbox = adopted();
        block_on(async {
            let open = outbox.client().await;
            let late = numbers(&open, &format!("begin; {}", insert("outbox", "late", 1))).await;
            outbox.query(&insert("outbox", "before", 1));
            let source = open_source(&outbox.config("relay").start(start)).await.unwrap();
            assert_eq!(drain(&source).await, [0; 0], "it was there before");
            open.batch_execute("commit").await.unwrap();
            let next = numbers(&open, &insert("outbox", "after", 1)).await;
            assert_eq!(drain(&source).await, [late[0], next[0]]);
        });
    }
}

/// Ids that go backwards stop a relay, and its successor; a start that was left in the configuration skips nothing.
#[test]
fn ids_that_go_backwards_stop_the_relay_until_somebody_chooses() {
    let outbox = adopted();
    block_on(async {
        let now = || outbox.config("relay").start(Start::Now);
        let source = open_source(&now()).await.unwrap();
        for number in 1..=5 {
            outbox.query(&insert("outbox", "a", number));
        }
        assert_eq!(drain(&source).await.len(), 5);
        outbox.query(&format!("truncate outbox restart identity; {}", insert("outbox", "b", 1)));
        let Err(SourceError::Broken(told)) = source.claim(&ask()).await else { panic!("ids went backwards") };
        assert!(told.to_string().contains("backwards") && told.remedy.contains("start ="), "{told}");
        let told = open_source(&now()).await.err().unwrap();
        assert!(told.problem.contains("backwards") && told.problem.contains("now"), "{told}");
        let anew = open_source(&outbox.config("relay").start(Start::Beginning)).await.unwrap();
        assert_eq!(drain(&anew).await, [1], "what was written since is published");
        // And that one is left in the configuration in its turn: nothing is published twice by chance.
        outbox.query(&insert("outbox", "b", 2));
        assert_eq!(drain(&anew).await, [2]);
        drop(anew);
        outbox.query("delete from outbox where id = 2; alter sequence outbox_id_seq restart with 2");
        let told = open_source(&outbox.config("relay").start(Start::Beginning)).await.err().unwrap();
        assert!(told.problem.contains("start = beginning") && told.remedy.contains("start = 0"), "{told}");
        let again = open_source(&outbox.config("relay").start(Start::After(0))).await.unwrap();
        assert_eq!(drain(&again).await, [1], "somebody has asked for it");
    });
}

/// What an operator buries before the first start stays buried.
#[test]
fn what_is_buried_before_the_first_start_stays_so() {
    let outbox = adopted();
    block_on(async {
        for number in 1..=3 {
            outbox.query(&insert("outbox", "a", number));
        }
        let store = outbox.store().await;
        let filter = Filter { ids: vec![2.into()], ..Filter::default() };
        assert_eq!(store.bury(&filter, "not this one", false).await.unwrap(), 1);
        let source = open_source(&outbox.config("relay").start(Start::Beginning)).await.unwrap();
        assert_eq!(drain(&source).await, [1], "the rest of its key waits behind it");
        assert_eq!(store.revive(&filter, false).await.unwrap(), 1);
        assert_eq!(drain(&source).await, [2, 3]);
    });
}
