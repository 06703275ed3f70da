//! A cursor's table: what its position, gaps, exceptions, parked kinds and claims mean to operators.

use postrider_core::store::{Depth, Filter, Listed, Store};
use postrider_core::{EntryId, Key, State};
use postrider_mysql::{MysqlStore, open_store};

use crate::common::{Harness, block_on};
use crate::scene::{native, servers};

/// Rows 1 to 12, named e1 to e12; 6 and 11 were rolled back.
const ROWS: &str = "
    insert into outbox (id, event_id, type, aggregate_type, aggregate_id, payload)
    with recursive s(n) as (select 1 union all select n + 1 from s where n < 12)
    select n, concat('e', n), if(n in (4, 12), 'shop.stock.moved.v1', 'shop.order.placed.v1'), 'Order',
           if(n in (7, 8), 'late', concat('k', n)), '{}' from s where n not in (6, 11)";

/// Read up to 9: 3 waits, 7 is dead, 8 stands behind it, stock is parked from 4 on, 2 was passed before it was committed, and
/// so was 6, which is not there.
const READ: &str = "
    update postrider_position set position = 9, claimed = 9, gaps = '[[2,2],[6,6]]';
    insert into postrider_exceptions (outbox, entry, key_scope, key_id, shelf, due, retries, error) values
        ('outbox', 3, 'Order', 'k3', 'waiting', utc_timestamp(6) + interval 1 hour, 2, 'no'),
        ('outbox', 7, 'Order', 'late', 'dead', null, 10, 'never'),
        ('outbox', 8, 'Order', 'late', 'parked', null, 0, null);
    insert into postrider_ranges (outbox, number, event_type, aggregate_type, first_id)
    values ('outbox', 1, 'shop.stock.moved.v1', 'Order', 4)";

const HOLDER: &str = "
    insert into postrider_leases values ('outbox', 'relay', 'relay-1', 1, utc_timestamp(6) + interval 1 hour);
    update postrider_position set claimed = 10;
    insert into postrider_claims values ('outbox', 2)";

fn names(listed: &[Listed]) -> Vec<&str> {
    listed.iter().map(|listed| &*listed.event_id).collect()
}

async fn of(store: &MysqlStore, state: State) -> Vec<String> {
    let listed = store.list(&Filter { state: Some(state), ..Filter::default() }).await.unwrap();
    names(&listed).into_iter().map(str::to_owned).collect()
}

fn each(test: impl AsyncFn(&Harness, &MysqlStore)) {
    for server in servers() {
        let outbox = Harness::by_the_real_clock(&server, native(), "");
        outbox.database.query(ROWS);
        block_on(async {
            let store = open_store(&outbox.config("operator")).await.unwrap();
            test(&outbox, &store).await;
        });
    }
}

/// STO-01: an entry whose time has come cannot go while one of its key before it waits or is dead: it is parked, like those that
/// were never tried.
#[test]
fn what_is_due_behind_another_of_its_key_is_parked() {
    each(async |outbox, store| {
        outbox.database.query(
            "update postrider_position set position = 12, claimed = 12;
             insert into postrider_exceptions (outbox, entry, key_scope, key_id, shelf, due, retries) values
                 ('outbox', 1, 'Order', 'a', 'dead', null, 0),
                 ('outbox', 2, 'Order', 'a', 'waiting', utc_timestamp(6) - interval 1 minute, 0),
                 ('outbox', 3, 'Order', 'a', 'parked', null, 0),
                 ('outbox', 4, 'Order', 'b', 'waiting', utc_timestamp(6) + interval 1 hour, 0),
                 ('outbox', 5, 'Order', 'b', 'waiting', utc_timestamp(6) - interval 1 minute, 0),
                 ('outbox', 7, 'Order', 'c', 'waiting', utc_timestamp(6) - interval 1 minute, 0),
                 ('outbox', 8, null, null, 'waiting', utc_timestamp(6) - interval 1 minute, 0)",
        );
        let depth = store.depth().await.unwrap();
        assert_eq!((depth.dead, depth.parked, depth.waiting, depth.pending), (1, 3, 1, 2), "{depth:?}");
        assert_eq!(depth.culprit, Some((Key::new("Order", "a"), 2)));
    });
}

/// STO-01, B10: each row is in one state, and what was passed is to be published.
#[test]
fn depth_and_list_agree_on_what_a_cursor_left_behind() {
    each(async |outbox, store| {
        assert_eq!(store.depth().await.unwrap().pending, 10);
        outbox.database.query(READ);
        // Twice, because a statement may be answered otherwise once the server knows it.
        for _ in 0..2 {
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
                gap_writers: depth.gap_writers.clone(),
                ..Depth::default()
            };
            assert_eq!(depth, expected);
            assert_eq!(of(store, State::Pending).await, ["e2", "e3", "e4", "e8", "e10", "e12"]);
            assert_eq!(of(store, State::Published).await, ["e1", "e5", "e9"]);
            assert_eq!(of(store, State::Dead).await, ["e7"]);
            assert_eq!(of(store, State::Leased).await, [""; 0]);
        }
        outbox.database.query(HOLDER);
        let depth = store.depth().await.unwrap();
        assert_eq!((depth.leased, depth.pending, depth.published), (2, 0, 3), "{depth:?}");
        assert_eq!(of(store, State::Leased).await, ["e2", "e10"]);
        assert_eq!(depth.holder.as_deref(), Some("relay-1"));
        let shown = store.show(&EntryId::Int(10)).await.unwrap().unwrap();
        assert_eq!(shown.holder.as_deref(), Some("relay-1"));
    });
}

/// F6: who keeps a gap open is named.
#[test]
fn the_writer_of_a_gap_is_named() {
    each(async |outbox, store| {
        outbox.database.query(READ);
        let mut open = crate::scene::writer(outbox).await;
        crate::scene::run(&mut open, "begin").await;
        crate::scene::append(&mut open, "a", 1).await;
        let thread = crate::scene::numbers(&mut open, "select connection_id()").await[0];
        crate::wait::until_async("the server shows it", async || {
            let writers = store.depth().await.unwrap().gap_writers;
            writers.iter().any(|writer| writer.starts_with(&format!("thread {thread}, user root")))
        })
        .await;
    });
}
