//! The same idempotency key twice at the same time.

use mysql_async::prelude::Queryable;
use postrider_core::append::Appended;
use postrider_servers::until;

use crate::world::{World, id, plain};

/// Appends with the same key in two transactions; the first ends while the second waits for it. Answers what both were told.
async fn race(world: &World, end: &str) -> (Appended, Appended) {
    let (mut first, mut second) = (world.conn().await, world.conn().await);
    first.query_drop("begin").await.unwrap();
    let one = world.outbox.append_once(&mut first, &plain(1), "request").await.unwrap();
    second.query_drop("begin").await.unwrap();
    let outbox = world.outbox.clone();
    let other = tokio::spawn(async move {
        let appended = outbox.append_once(&mut second, &plain(2), "request").await.unwrap();
        second.query_drop("commit").await.unwrap();
        appended
    });
    // Nothing but a lock takes it a second.
    let waiting = format!(
        "select count(*) from information_schema.processlist where db = '{}' and command in ('Query', 'Execute') and time >= 1",
        world.database.name()
    );
    tokio::task::block_in_place(|| until("the second append waits", || world.value(&waiting) == "1"));
    first.query_drop(end).await.unwrap();
    (one, other.await.unwrap())
}

/// A2: the second waits for the first, writes nothing, and is told the first one's ids.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_second_of_two_at_once_is_told_of_the_first() {
    for world in World::native().await {
        let (first, second) = race(&world, "commit").await;
        assert!(!first.repeated && second.repeated);
        assert_eq!((&second.id, &second.event_id), (&first.id, &id(1)));
        assert_eq!(world.texts("select event_id from outbox"), [id(1).to_string()]);
    }
}

/// A2: a first one that rolls back leaves the key to the second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_second_of_two_at_once_wins_when_the_first_rolls_back() {
    for world in World::native().await {
        let (_, second) = race(&world, "rollback").await;
        assert!(!second.repeated && second.event_id == id(2));
        assert_eq!(world.texts("select event_id from outbox"), [id(2).to_string()]);
        assert_eq!(
            world.texts("select concat(event_id, ' ', entry) from postrider_idempotency"),
            [format!("{} {}", id(2), second.id)]
        );
    }
}

/// A2: many at once, without a transaction of their own, one event.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_at_once_write_one_event() {
    for world in World::native().await {
        let mut racers = Vec::new();
        for n in 0..16 {
            let (mut conn, outbox) = (world.conn().await, world.outbox.clone());
            racers.push(tokio::spawn(async move {
                outbox.append_once(&mut conn, &plain(n), "request").await.unwrap()
            }));
        }
        let mut told = Vec::new();
        for racer in racers {
            told.push(racer.await.unwrap());
        }
        assert_eq!(told.iter().filter(|appended| !appended.repeated).count(), 1);
        assert!(told.iter().all(|one| one.id == told[0].id && one.event_id == told[0].event_id));
        assert_eq!(world.value("select count(*) from outbox"), "1");
    }
}

/// A2: a call that fails leaves its key free, also where the caller commits nevertheless.
#[tokio::test]
async fn a_failed_append_leaves_its_key_free() {
    for world in World::native().await {
        let mut conn = world.conn().await;
        world.database.query("create unique index one_of_each on outbox (event_id(100))");
        world.outbox.append(&mut conn, &plain(1)).await.unwrap();
        conn.query_drop("begin").await.unwrap();
        world.outbox.append_once(&mut conn, &plain(1), "k").await.unwrap_err();
        conn.query_drop("insert into orders values (1, 1)").await.unwrap();
        conn.query_drop("commit").await.unwrap();
        assert_eq!(world.value("select count(*) from postrider_idempotency"), "0");
        assert_eq!(world.value("select count(*) from orders"), "1", "the caller's transaction went on");
        assert!(!world.outbox.append_once(&mut conn, &plain(2), "k").await.unwrap().repeated);
    }
}

/// F9: two outboxes in one database have a procedure each, and keys of their own.
#[tokio::test]
async fn outboxes_share_no_keys() {
    for world in World::native().await {
        let mut layout = world.layout.clone();
        layout.table = postrider_core::layout::Identifier::new("outbox_of_returns").unwrap();
        let returns = postrider_mysql::Outbox::new(&layout).unwrap();
        let config = postrider_mysql::Config::new(&world.database.url(), layout, "test").unwrap();
        postrider_mysql::migrate(&config).await.unwrap();
        let mut conn = world.conn().await;
        assert!(!world.outbox.append_once(&mut conn, &plain(1), "k").await.unwrap().repeated);
        assert!(!returns.append_once(&mut conn, &plain(2), "k").await.unwrap().repeated);
        assert!(returns.append_once(&mut conn, &plain(3), "k").await.unwrap().repeated);
        let count =
            "select concat((select count(*) from outbox), ' ', (select count(*) from outbox_of_returns))";
        assert_eq!(world.value(count), "1 1");
    }
}
