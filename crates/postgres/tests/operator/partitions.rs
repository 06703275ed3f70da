//! The native table's partitions: made ahead, and dropped whole.

use std::time::Duration;

use postrider_core::store::{Filter, Store};

use crate::world::World;

const PARTS: &str = "select string_agg(replace(c.relname, 'outbox_', ''), ' ' order by c.relname)
    from pg_inherits as i join pg_class as c on c.oid = i.inhrelid where i.inhparent = 'outbox'::regclass";

const WEEK: Duration = Duration::from_secs(7 * 86_400);

/// Rows with these ids, written so many days ago.
async fn rows(world: &World, ids: &str, days: i64) {
    world
        .run(&format!(
            "insert into outbox (id, event_id, type, aggregate_type, aggregate_id, payload, time)
             select n, 'e' || n, 'shop.order.placed.v1', 'Order', n, '{{}}',
             (extract(epoch from now() - {days} * interval '1 day') * 1000000)::bigint from unnest(array[{ids}]::bigint[]) as n"
        ))
        .await;
}

fn older_than(age: Duration) -> Filter {
    Filter { older_than: Some(age), ..Filter::default() }
}

/// Ids never reach a partition that is not there; doing it again changes nothing.
#[tokio::test]
async fn partitions_are_created_ahead_of_the_ids() {
    let world = World::native().await;
    let store = world.store().await;
    for _ in 0..2 {
        assert_eq!(store.reap().await.unwrap(), 0);
        assert_eq!(world.one(PARTS).await, "default p0 p1 p2 p3 p4 p5");
    }
    world.run("select setval('outbox_id_seq', 2500000)").await;
    store.reap().await.unwrap();
    assert_eq!(world.one(PARTS).await, "default p0 p1 p2 p3 p4 p5 p6 p7");
    rows(&world, "2500001", 0).await;
    assert_eq!(world.one("select tableoid::regclass from outbox").await, "outbox_p2");
    assert_eq!(store.depth().await.unwrap().pending, 1);
}

/// What fell into the default partition is in nobody's way.
#[tokio::test]
async fn rows_in_the_default_partition_do_not_stop_the_next_one() {
    let world = World::native().await;
    rows(&world, "1200000, 1200001", 0).await;
    world.run("select setval('outbox_id_seq', 1200001)").await;
    let store = world.store().await;
    store.reap().await.unwrap();
    let parts = world.one(PARTS).await;
    assert!(parts.starts_with("default p0 p2 p3"), "{parts}");
    rows(&world, "2000000", 0).await;
    assert_eq!(world.one("select tableoid::regclass from outbox where id = 2000000").await, "outbox_p2");
    assert_eq!(store.depth().await.unwrap().pending, 3);
    store.reap().await.unwrap();
    assert_eq!(world.one(PARTS).await, parts);
}

/// STO-06, E6: a partition goes whole when all in it is published and old; one with a dead or a young row stays.
#[tokio::test]
async fn an_old_partition_is_dropped_whole() {
    let world = World::native().await;
    let store = world.store().await;
    world.run("select setval('outbox_id_seq', 3500000)").await;
    store.reap().await.unwrap();
    rows(&world, "5, 6", 30).await;
    rows(&world, "1000005, 1000006, 1000007", 20).await;
    rows(&world, "2000005", 20).await;
    rows(&world, "3000005", 20).await;
    world
        .run(
            "update postrider_position set position = 3000005, claimed = 3000005;
              insert into postrider_exceptions (outbox, entry, shelf) values ('outbox', 2000005, 'dead')",
        )
        .await;
    assert_eq!(store.prune(&older_than(WEEK), false).await.unwrap(), 5, "two partitions");
    let parts = world.one(PARTS).await;
    assert!(parts.starts_with("default p2 p3"), "{parts}");
    assert_eq!(store.prune(&older_than(WEEK), false).await.unwrap(), 1, "one row of the partition in use");
    assert_eq!(store.prune(&older_than(WEEK), false).await.unwrap(), 0);
    assert_eq!(
        world.one("select string_agg(id::text, ' ') from outbox").await,
        "2000005",
        "the dead one stays"
    );
    assert_eq!(world.one(PARTS).await, parts);
}

/// What goes with its partition within a day is not deleted row by row; what does not, is.
#[tokio::test]
async fn what_goes_with_its_partition_before_long_is_left_to_it() {
    let world = World::native().await;
    let store = world.store().await;
    world.run("select setval('outbox_id_seq', 2500000)").await;
    store.reap().await.unwrap();
    // The first ends six and a half days ago, the second three days ago.
    rows(&world, "5", 30).await;
    world.run("insert into outbox (id, type, aggregate_type, aggregate_id, time) values (900000, 'a.b.c.v1', 'O', '1',
               (extract(epoch from now() - interval '6 days 12 hours') * 1000000)::bigint)").await;
    rows(&world, "1000005", 30).await;
    rows(&world, "1900000", 3).await;
    world.run("update postrider_position set position = 2500000, claimed = 2500000").await;
    assert_eq!(store.prune(&older_than(WEEK), false).await.unwrap(), 1);
    assert_eq!(
        world.one("select string_agg(id::text, ' ' order by id) from outbox").await,
        "5 900000 1900000"
    );
    // Whoever says which rows, or how many, gets these.
    let few = Filter { limit: Some(10), ..older_than(WEEK) };
    assert_eq!(store.prune(&few, false).await.unwrap(), 1);
}

/// Whoever holds the table up is not waited for long: rows are deleted instead.
#[tokio::test]
async fn a_partition_that_is_in_use_is_not_waited_for() {
    let world = World::native().await;
    let store = world.store().await;
    world.run("select setval('outbox_id_seq', 1500000)").await;
    store.reap().await.unwrap();
    rows(&world, "5, 6", 30).await;
    world.run("update postrider_position set position = 1500000, claimed = 1500000").await;
    let (client, connection) =
        tokio_postgres::connect(&world.database.url(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute("begin; select count(*) from outbox").await.unwrap();
    assert_eq!(store.prune(&older_than(WEEK), false).await.unwrap(), 2);
    assert!(world.one(PARTS).await.contains("p0"));
    client.batch_execute("rollback").await.unwrap();
    assert_eq!(store.prune(&older_than(WEEK), false).await.unwrap(), 0, "it is empty, and goes now");
    assert!(!world.one(PARTS).await.contains("p0"));
}
