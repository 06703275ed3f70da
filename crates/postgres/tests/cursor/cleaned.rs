//! The Commerce team cleans its outbox: what failed is kept, within reach, and sent as it was.

use std::time::Duration;

use postrider_conformance::source::SourceHarness;
use postrider_core::source::{Claim, Source};
use postrider_core::store::Filter;
use postrider_core::verdict::Reason;
use postrider_core::{EntryId, Settlement, State};

use crate::commerce::{append, claim, failed, outbox, retried};
use crate::harness::block_on;
use crate::late::drain;

/// B6, F8: whoever cleans the outbox takes no failed entry away: it is sent from its copy, as it was, by the next relay too,
/// and also after a person has set it back.
#[test]
fn a_failed_row_outlives_the_cleaning_of_the_outbox() {
    let outbox = outbox();
    block_on(async {
        let source = outbox.source("relay").await;
        append(&outbox, "a1", "a");
        append(&outbox, "b1", "b");
        let Claim { mut hold, entries: before, .. } = claim(&source).await;
        let dead = Settlement::Dead { retries: 0, reason: Reason::new("too large") };
        source.settle(&mut hold, &[(0, retried(1, 0)), (1, dead)]).await.unwrap();
        source.release(hold).await.unwrap();
        outbox.query("delete from outbox");
        source.retire().await.unwrap();
        let source = outbox.source("the next").await;
        let again = claim(&source).await;
        assert_eq!(again.entries.len(), 1, "what is dead waits for a person");
        assert_eq!(again.entries[0].envelope, before[0].envelope, "the same message");
        source.release(again.hold).await.unwrap();
        assert_eq!(drain(&source).await, [1]);
        outbox.query("update outbox_failed set retry_count = 0, next_retry_at = clock_timestamp()");
        outbox.pass(Duration::from_secs(2)).await;
        let again = claim(&source).await;
        assert_eq!(again.entries[0].envelope, before[1].envelope, "the same message");
        source.release(again.hold).await.unwrap();
        assert_eq!(drain(&source).await, [2]);
        assert_eq!(failed(&outbox), [""; 0]);
    });
}

/// B6, B8, C4: an entry whose row was cleaned out of the outbox is within reach of whoever operates: listed, shown with what it holds,
/// buried and revived; and then sent as it was.
#[test]
fn a_failed_row_that_was_cleaned_away_is_within_reach() {
    let outbox = outbox();
    block_on(async {
        let (source, store) = (outbox.source("relay").await, outbox.store().await);
        let (dead, waiting) = (append(&outbox, "a1", "a"), append(&outbox, "b1", "b"));
        let Claim { mut hold, entries: before, .. } = claim(&source).await;
        let given_up = Settlement::Dead { retries: 0, reason: Reason::new("too large") };
        source.settle(&mut hold, &[(0, given_up), (1, retried(1, 60))]).await.unwrap();
        source.release(hold).await.unwrap();
        let buried = append(&outbox, "c1", "c");
        let only = |id: i64| Filter { ids: vec![id.into()], ..Filter::default() };
        assert_eq!(store.bury(&only(buried), "not wanted", false).await.unwrap(), 1);
        assert_eq!(drain(&source).await, [0; 0], "it is passed by");
        outbox.query("delete from outbox");
        let of = |state| Filter { state: Some(state), ..Filter::default() };
        let listed = async |filter| {
            let found = store.list(&filter).await.unwrap();
            found.iter().map(|line| line.event_id.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(listed(of(State::Dead)).await, ["a1", "c1"]);
        assert_eq!(listed(of(State::Pending)).await, ["b1"]);
        assert_eq!(listed(Filter::default()).await, ["a1", "b1", "c1"]);
        for id in [EntryId::from(dead), EntryId::Text("a1".into())] {
            let shown = store.show(&id).await.unwrap().unwrap();
            assert_eq!(shown.entry.envelope, before[0].envelope, "{id}");
            assert_eq!(shown.listed.state, State::Dead);
        }
        assert_eq!(store.bury(&only(waiting), "enough", false).await.unwrap(), 1);
        assert_eq!(listed(of(State::Dead)).await, ["a1", "b1", "c1"]);
        outbox.pass(Duration::from_secs(60)).await;
        assert_eq!(drain(&source).await, [0; 0], "all of them are given up");
        assert_eq!(store.revive(&of(State::Dead), true).await.unwrap(), 3, "a dry run");
        assert_eq!(store.revive(&of(State::Dead), false).await.unwrap(), 3);
        outbox.pass(Duration::from_secs(2)).await;
        let again = claim(&source).await;
        assert_eq!(again.entries[0].envelope, before[0].envelope, "the same message");
        source.release(again.hold).await.unwrap();
        assert_eq!(drain(&source).await, [dead, waiting, buried]);
        assert_eq!(
            listed(Filter::default()).await,
            [""; 0],
            "published and cleaned: nothing is left of them"
        );
        assert_eq!(failed(&outbox), [""; 0]);
    });
}
