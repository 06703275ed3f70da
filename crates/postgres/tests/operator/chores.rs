//! Reaping, turns and reports, by the database's clock.

use std::time::Duration;

use postrider_core::store::{Filter, Store};
use postrider_core::{EntryId, State};

use crate::world::{LETTERS, WORDS, World, letters, list, of, state};

/// STO-07: a lease that ran out is given back, once; one that did not stays; what is kept of rows that are gone is forgotten.
#[tokio::test]
async fn only_leases_that_ran_out_are_given_back() {
    let world = World::new(letters("", WORDS), LETTERS).await;
    world
        .run(
            "insert into letters (subject) values ('a'), ('b'), ('c');
              insert into postrider_entries (outbox, entry, retries, leased_until, owner, fence) values
              ('letters', '1', 4, now() - interval '1 second', 'relay-0', 1),
              ('letters', '2', 0, now() + interval '1 hour', 'relay-1', 2),
              ('letters', '9', 0, null, null, null),
              ('others', '9', 0, null, null, null)",
        )
        .await;
    let store = world.store().await;
    assert_eq!(store.reap().await.unwrap(), 1);
    assert_eq!(store.reap().await.unwrap(), 0, "once");
    let kept = world.one("select string_agg(outbox || entry || coalesce(owner, '-') || retries, ' ' order by outbox, entry) from postrider_entries").await;
    assert_eq!(kept, "letters1-4 letters2relay-10 others9-0");
    assert_eq!(list(&store, of(State::Leased)).await, ["2"]);
}

/// A9: a row in another program's hands goes back when its time is over, with its version bumped; not before.
#[tokio::test]
async fn what_another_program_left_is_given_back_after_its_time() {
    let words = "pending = \"NEW\"\nleased = \"BUSY\"\npublished = \"SENT\"\ndead = \"FAILED\"";
    let more = "lease_owner = \"owner\"\nleased_at = \"since\"\nversion = \"bumped\"";
    let table =
        LETTERS.replace("default 'NEW'\n", "default 'NEW', owner text, since timestamptz, bumped int\n");
    let world = World::new(letters(more, words), &table).await;
    world
        .run("insert into letters (status, owner, since, bumped) values
              ('BUSY', 'theirs', now() - interval '1 hour', 3), ('BUSY', 'theirs', now() + interval '1 hour', 3), ('NEW', null, null, null)")
        .await;
    let store = world.store().await;
    assert_eq!(list(&store, of(State::Leased)).await, ["2"]);
    assert_eq!(store.show(&EntryId::Int(2)).await.unwrap().unwrap().holder.as_deref(), Some("theirs"));
    assert_eq!(store.reap().await.unwrap(), 1);
    let row = world.one("select status || coalesce(owner, '-') || coalesce(since::text, '-') || bumped from letters where id = 1").await;
    assert_eq!(row, "NEW--4");
    assert_eq!(world.one("select status || owner || bumped from letters where id = 2").await, "BUSYtheirs3");
    assert_eq!(state(&store, &EntryId::Int(2)).await, State::Leased);
}

/// B9, STO-08: of many that ask at the same time, one gets the turn.
#[tokio::test]
async fn of_many_stores_one_gets_the_turn() {
    let world = World::native().await;
    let mut stores = Vec::new();
    for _ in 0..5 {
        stores.push(world.store().await);
    }
    for _ in 0..5 {
        let asked = stores.iter().map(|store| store.take_turn("prune", Duration::from_secs(600)));
        let turns = futures_util::future::join_all(asked).await;
        let mut got: Vec<_> = turns.into_iter().filter_map(Result::unwrap).collect();
        assert_eq!(got.len(), 1, "{got:?}");
        let turn = got.remove(0);
        stores[0].end_turn(turn, Duration::ZERO).await.unwrap();
    }
    let forever = stores[0].take_turn("reap", Duration::MAX).await.unwrap().unwrap();
    stores[0].end_turn(forever, Duration::MAX).await.unwrap();
    assert!(stores[1].take_turn("reap", Duration::MAX).await.unwrap().is_none());
}

/// STO-06: a batch is at most 10,000, and nothing but published rows goes.
#[tokio::test]
async fn a_prune_takes_at_most_ten_thousand() {
    let world = World::new(letters("", WORDS), LETTERS).await;
    world.run("insert into letters (status) select case when n % 2 = 0 then 'SENT' else 'NEW' end from generate_series(1, 20004) as n").await;
    let store = world.store().await;
    let all = Filter::default();
    assert_eq!(store.prune(&all, true).await.unwrap(), 10_002);
    assert_eq!(store.prune(&all, false).await.unwrap(), 10_000);
    assert_eq!(store.prune(&all, false).await.unwrap(), 2);
    assert_eq!(store.prune(&all, false).await.unwrap(), 0);
    assert_eq!(world.one("select count(*) from letters").await, "10002");
}

/// The store works behind a transaction pooler, where nothing outlives a transaction.
#[tokio::test]
async fn a_store_works_behind_a_transaction_pooler() {
    let Some(pooler) = postrider_servers::pgbouncer() else { return };
    let world = World::native().await;
    world
        .run(
            "insert into outbox (event_id, type, aggregate_type, aggregate_id, payload)
              select 'e' || n, 'shop.order.placed.v1', 'Order', n, '{}' from generate_series(1, 3) as n",
        )
        .await;
    let url = world.database.url_at(&pooler);
    let joint = if url.contains('?') { '&' } else { '?' };
    let config = postrider_postgres::Config::new(
        &format!("{url}{joint}pooler=transaction"),
        world.layout.clone(),
        "x",
    )
    .unwrap();
    let store = postrider_postgres::open_store(&config).await.unwrap();
    assert_eq!(store.depth().await.unwrap().pending, 3);
    let one = Filter { limit: Some(1), ..Filter::default() };
    assert_eq!(store.bury(&one, "by hand", false).await.unwrap(), 1);
    assert_eq!(list(&store, of(State::Dead)).await, ["e1"]);
    assert_eq!(store.revive(&Filter::default(), false).await.unwrap(), 1);
    assert!(store.take_turn("reap", Duration::from_secs(60)).await.unwrap().is_some());
    assert_eq!(store.reap().await.unwrap(), 0);
}

/// Idempotency keys go with the events of their age, and with nothing less than a prune of all of that age.
#[tokio::test]
async fn idempotency_keys_are_pruned_by_age() {
    let world = World::native().await;
    world
        .run(
            "insert into postrider_idempotency (outbox, key, event_id, written_at) values
              ('outbox', 'old', 'e1', now() - interval '8 days'), ('outbox', 'new', 'e2', now()),
              ('other', 'old', 'e3', now() - interval '8 days')",
        )
        .await;
    let (store, week) = (world.store().await, Some(Duration::from_secs(7 * 86_400)));
    let keys =
        "select string_agg(outbox || ' ' || key, ', ' order by outbox, key) from postrider_idempotency";
    let some = Filter { older_than: week, event_type: Some("a.*".into()), ..Filter::default() };
    for leaves_them in [Filter::default(), some] {
        store.prune(&leaves_them, false).await.unwrap();
        assert_eq!(world.one(keys).await, "other old, outbox new, outbox old");
    }
    let old = Filter { older_than: week, ..Filter::default() };
    store.prune(&old, true).await.unwrap();
    assert_eq!(world.one(keys).await, "other old, outbox new, outbox old");
    store.prune(&old, false).await.unwrap();
    assert_eq!(world.one(keys).await, "other old, outbox new");
}
