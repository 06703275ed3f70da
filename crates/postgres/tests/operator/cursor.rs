//! A cursor's table: what its position, gaps, exceptions, parked kinds and claims mean to operators.

use std::time::Duration;

use postrider_core::store::{Depth, Filter, Store};
use postrider_core::{EntryId, Key, State};

use crate::world::{World, list, of, only, state};

/// Rows 1 to 12, named e1 to e12; 6 and 11 were rolled back.
const ROWS: &str = "
    insert into outbox (id, event_id, type, aggregate_type, aggregate_id, payload)
    select n, 'e' || n, case when n in (4, 12) then 'shop.stock.moved.v1' else 'shop.order.placed.v1' end, 'Order',
           case when n in (7, 8) then 'late' else 'k' || n end, '{}'
    from generate_series(1, 12) as n where n not in (6, 11);
    select setval('outbox_id_seq', 12);
";

/// Read up to 9: 3 waits, 7 is dead, 8 stands behind it, stock is parked from 4 on, 2 was passed before it was committed, and
/// so was 6, which is not there.
const READ: &str = "
    update postrider_position set position = 9, claimed = 9, gap_first = '{2,6}', gap_last = '{2,6}';
    insert into postrider_exceptions (outbox, entry, key_scope, key_id, shelf, due, retries, error) values
        ('outbox', 3, 'Order', 'k3', 'waiting', now() + interval '1 hour', 2, 'no'),
        ('outbox', 7, 'Order', 'late', 'dead', null, 10, 'never'),
        ('outbox', 8, 'Order', 'late', 'parked', null, 0, null);
    insert into postrider_ranges (outbox, number, event_type, aggregate_type, first)
    values ('outbox', 1, 'shop.stock.moved.v1', 'Order', 4);
";

const HOLDER: &str = "
    insert into postrider_leases values ('outbox', 'relay', 'relay-1', 1, now() + interval '1 hour');
    update postrider_position set claimed = 10;
    insert into postrider_claims values ('outbox', 2);
";

/// STO-01: an entry whose time has come cannot go while one of its key before it waits or is dead: it is parked, like those that
/// were never tried. Where a dead one lets its key go on, it holds nobody.
#[tokio::test]
async fn what_is_due_behind_another_of_its_key_is_parked() {
    let world = World::native().await;
    world.run(ROWS).await;
    world
        .run(
            "update postrider_position set position = 12, claimed = 12;
             insert into postrider_exceptions (outbox, entry, key_scope, key_id, shelf, due, retries) values
                 ('outbox', 1, 'Order', 'a', 'dead', null, 0),
                 ('outbox', 2, 'Order', 'a', 'waiting', now() - interval '1 minute', 0),
                 ('outbox', 3, 'Order', 'a', 'parked', null, 0),
                 ('outbox', 4, 'Order', 'b', 'waiting', now() + interval '1 hour', 0),
                 ('outbox', 5, 'Order', 'b', 'waiting', now() - interval '1 minute', 0),
                 ('outbox', 7, 'Order', 'c', 'waiting', now() - interval '1 minute', 0),
                 ('outbox', 8, null, null, 'waiting', now() - interval '1 minute', 0)",
        )
        .await;
    let depth = world.store().await.depth().await.unwrap();
    assert_eq!((depth.dead, depth.parked, depth.waiting, depth.pending), (1, 3, 1, 2), "{depth:?}");
    assert_eq!(depth.culprit, Some((Key::new("Order", "a"), 2)));
}

/// B10, B17: a row that came to be in a gap which was given up is to be published by the net, and no clean-up takes it before.
#[tokio::test]
async fn what_came_to_be_in_a_given_up_gap_is_not_pruned() {
    let world = World::native().await;
    world.run(ROWS).await;
    world
        .run(
            "update postrider_position set position = 12, claimed = 12;
             insert into postrider_closed (outbox, first, last, at) values ('outbox', 4, 6, now())",
        )
        .await;
    let store = world.store().await;
    let depth = store.depth().await.unwrap();
    assert_eq!((depth.pending, depth.published, depth.gaps_open), (2, 8, 0), "{depth:?}");
    assert_eq!(list(&store, of(State::Pending)).await, ["e4", "e5"]);
    assert_eq!(state(&store, &EntryId::Int(5)).await, State::Pending);
    assert_eq!(store.prune(&Filter::default(), false).await.unwrap(), 8);
    assert_eq!(list(&store, Filter::default()).await, ["e4", "e5"]);
}

/// F2: nothing can become of a dead entry whose row was deleted: it is forgotten, and a relay looks again at what its key held back.
#[tokio::test]
async fn a_dead_entry_whose_row_is_gone_holds_no_key() {
    let world = World::native().await;
    world.run(ROWS).await;
    world.run(READ).await;
    let store = world.store().await;
    store.reap().await.unwrap();
    assert_eq!(store.depth().await.unwrap().dead, 1, "its row is there");
    let epoch = world.run("select epoch from postrider_position").await;
    world.run("delete from outbox where id = 7").await;
    store.reap().await.unwrap();
    let depth = store.depth().await.unwrap();
    assert_eq!((depth.dead, depth.parked), (0, 3), "{depth:?}");
    assert!(world.run("select shelf from postrider_exceptions where entry = 7").await.is_empty());
    assert_ne!(world.run("select epoch from postrider_position").await, epoch, "a running relay looks again");
}

/// STO-01, B10: each row is in one state, and what was passed is to be published.
#[tokio::test]
async fn depth_and_list_agree_on_what_a_cursor_left_behind() {
    let world = World::native().await;
    world.run(ROWS).await;
    let store = world.store().await;
    assert_eq!(store.depth().await.unwrap().pending, 10);
    world.run(READ).await;
    let depth = store.depth().await.unwrap();
    let expected = Depth {
        pending: 2,   // e2 and e10
        waiting: 1,   // e3
        parked: 3,    // e4, e8 and e12
        dead: 1,      // e7
        published: 3, // e1, e5 and e9
        gaps_open: 1, // 6
        culprit: Some((Key::new("Order", "late"), 1)),
        oldest: depth.oldest,
        ..Depth::default()
    };
    assert_eq!(depth, expected);
    assert!(depth.oldest.is_some());
    assert_eq!(list(&store, of(State::Pending)).await, ["e2", "e3", "e4", "e8", "e10", "e12"]);
    assert_eq!(list(&store, of(State::Published)).await, ["e1", "e5", "e9"]);
    assert_eq!(list(&store, of(State::Dead)).await, ["e7"]);
    assert_eq!(list(&store, Filter::default()).await.len(), 10);
    let shown = store.show(&EntryId::Text("e3".into())).await.unwrap().unwrap().listed;
    assert_eq!((shown.retries, shown.error.as_deref(), shown.not_before.is_some()), (2, Some("no"), true));
}

/// STO-01, STO-05: what a living relay has in its hands is leased, and no verb touches it; a dead one's is given back.
#[tokio::test]
async fn what_a_relay_holds_is_left_alone_while_it_lives() {
    let world = World::native().await;
    world.run(ROWS).await;
    world.run(READ).await;
    world.run(HOLDER).await;
    let store = world.store().await;
    let depth = store.depth().await.unwrap();
    assert_eq!((depth.leased, depth.pending, depth.published), (2, 0, 3), "{depth:?}");
    assert_eq!(depth.holder.as_deref(), Some("relay-1"));
    assert_eq!(list(&store, of(State::Leased)).await, ["e2", "e10"]);
    let held = Filter { ids: vec![EntryId::Int(2), EntryId::Int(10)], ..Filter::default() };
    assert_eq!(store.bury(&held, "by hand", false).await.unwrap(), 0);
    assert_eq!(store.reap().await.unwrap(), 0);
    world.run("update postrider_leases set expires_at = now() - interval '1 second'").await;
    assert_eq!(store.reap().await.unwrap(), 2);
    assert_eq!(store.reap().await.unwrap(), 0, "once");
    assert_eq!(store.depth().await.unwrap().leased, 0);
    assert_eq!(store.bury(&held, "by hand", false).await.unwrap(), 2);
    assert_eq!(list(&store, of(State::Dead)).await, ["e2", "e7", "e10"]);
}

/// STO-04, STO-09: a verb changes what a list shows, and bumps the epoch that a running relay looks at.
#[tokio::test]
async fn a_verb_bumps_the_epoch() {
    let world = World::native().await;
    world.run(ROWS).await;
    world.run(READ).await;
    let store = world.store().await;
    let epoch = "select epoch from postrider_position";
    assert_eq!(world.one(epoch).await, "0");
    assert_eq!(store.revive(&of(State::Dead), true).await.unwrap(), 1, "a dry run");
    assert_eq!(store.revive(&Filter::default(), false).await.unwrap(), 1);
    assert_eq!(world.one(epoch).await, "1");
    assert_eq!(
        world.one("select shelf || retries from postrider_exceptions where entry = 7").await,
        "parked0"
    );
    assert_eq!(store.bury(&only(3), "because", false).await.unwrap(), 1);
    assert_eq!(world.one(epoch).await, "2");
    let shown = store.show(&EntryId::Int(3)).await.unwrap().unwrap().listed;
    assert_eq!((shown.state, shown.error.as_deref()), (State::Dead, Some("because")));
    assert_eq!(store.prune(&Filter::default(), false).await.unwrap(), 3, "e1, e5 and e9");
    assert_eq!(world.one("select count(*) from outbox").await, "7");
}

/// F5: an id that is none of the table's finds nothing, and breaks nothing.
#[tokio::test]
async fn an_id_that_is_none_finds_nothing() {
    let world = World::native().await;
    world.run(ROWS).await;
    let store = world.store().await;
    for id in ["nine", "'; drop table outbox; --", "99999999999999999999", "9\0"] {
        assert_eq!(store.show(&EntryId::Text(id.into())).await.unwrap(), None, "{id:?}");
        assert_eq!(store.list(&only(EntryId::Text(id.into()))).await.unwrap(), []);
    }
    assert_eq!(state(&store, &EntryId::Text("9".into())).await, State::Pending);
}

/// A table of any size is listed part by part, and a filter is asked in the database.
#[tokio::test]
async fn more_rows_than_one_fetch_are_listed_in_order() {
    let world = World::native().await;
    world
        .run("insert into outbox (event_id, type, aggregate_type, aggregate_id, payload, time)
              select 'e' || n, 'shop.order.placed.v1', 'Order', n % 7, '{}',
              (extract(epoch from now()) * 1000000)::bigint - n * 1000000::bigint from generate_series(1, 2500) as n")
        .await;
    let store = world.store().await;
    let all = store.list(&Filter::default()).await.unwrap();
    assert!(all.len() == 2_500 && all.is_sorted_by_key(|line| line.id.int()), "{}", all.len());
    let of_key = Filter { key: Some("3".into()), ..Filter::default() };
    assert_eq!(store.list(&of_key).await.unwrap().len(), 357);
    let old = Filter { older_than: Some(Duration::from_secs(2_000)), ..Filter::default() };
    let found = store.list(&old).await.unwrap();
    assert!((495..=505).contains(&found.len()), "{}", found.len());
    let few = Filter { limit: Some(1_001), ..Filter::default() };
    assert_eq!(store.bury(&few, "by hand", false).await.unwrap(), 1_001);
    assert_eq!(store.depth().await.unwrap().dead, 1_001);
}

/// A connection that the server ended is opened anew.
#[tokio::test]
async fn a_store_outlives_its_connection() {
    let world = World::native().await;
    let store = world.store().await;
    assert_eq!(store.depth().await.unwrap(), Depth::default());
    world
        .run(
            "select pg_terminate_backend(pid, 60000) from pg_stat_activity
              where datname = current_database() and application_name = 'postrider'",
        )
        .await;
    let mut answer = store.depth().await;
    if answer.is_err() {
        answer = store.depth().await;
    }
    assert_eq!(answer.unwrap(), Depth::default());
}
