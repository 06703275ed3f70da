//! What store cases do again and again.

use postrider_core::source::Source;
use postrider_core::store::{Filter, Store};
use postrider_core::{EntryId, Settlement, State};

use crate::source::SourceHarness;
use crate::source::desk::{append, ask, claim, dead, long, retried, settle_all};

/// One entry of every kind that there is.
pub(super) struct Mixed {
    pub(super) published: EntryId,
    pub(super) dead: EntryId,
    pub(super) waiting: EntryId,
    /// Behind the one that waits, where order is kept.
    pub(super) behind: EntryId,
    pub(super) pending: EntryId,
}

/// p1 published, d1 dead, w1 waiting with w2 behind it, n1 and n2 pending; `source` holds nothing afterwards.
pub(super) async fn mixed<H: SourceHarness>(harness: &H, source: &H::Source) -> Mixed {
    let mut ids = append(harness, "p1 d1 w1 w2").await.into_iter();
    let taken = claim(source, &ask()).await.expect("there is something to claim");
    let wait = long(source);
    settle_all(source, taken, |id| match id {
        "p1" => Settlement::Published,
        "d1" => dead(),
        "w1" => retried(1, wait),
        _ => Settlement::Released,
    })
    .await
    .expect("nothing is wrong");
    if source.features().ordered {
        assert!(claim(source, &ask()).await.is_none(), "the rest is behind what waits");
    }
    let mut next = || ids.next().expect("four were appended");
    let (published, dead, waiting, behind) = (next(), next(), next(), next());
    let mut new = append(harness, "n1@x n2").await.into_iter();
    Mixed { published, dead, waiting, behind, pending: new.next().expect("two were appended") }
}

pub(super) async fn list(store: &dyn Store, filter: &Filter) -> Vec<String> {
    let listed = store.list(filter).await.expect("nothing is wrong");
    listed.iter().map(|line| line.event_id.to_string()).collect()
}

pub(super) async fn state(store: &dyn Store, id: &EntryId) -> State {
    let shown = store.show(id).await.expect("nothing is wrong");
    shown.expect("it is there").listed.state
}

pub(super) fn only(id: &EntryId) -> Filter {
    Filter { ids: vec![id.clone()], ..Filter::default() }
}
