//! The same idempotency key twice at the same time.

use postrider_core::append::Appended;
use postrider_servers::until;

use crate::world::{World, id, plain};

/// Appends with the same key in two transactions; the first ends while the second waits for it. Answers what both were told.
async fn race(world: &World, end: &str) -> (Appended, Appended) {
    let (first, second) = (world.client().await, world.client().await);
    first.batch_execute("begin").await.unwrap();
    let one = world.outbox.append_once(&first, &plain(1), "request").await.unwrap();
    second.batch_execute("begin").await.unwrap();
    let outbox = world.outbox.clone();
    let other = tokio::spawn(async move {
        let appended = outbox.append_once(&second, &plain(2), "request").await.unwrap();
        second.batch_execute("commit").await.unwrap();
        appended
    });
    let waiting = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
    tokio::task::block_in_place(|| until("the second append waits", || world.value(waiting) == "1"));
    first.batch_execute(end).await.unwrap();
    (one, other.await.unwrap())
}

/// A2: the second waits for the first, writes nothing, and is told the first one's ids.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_second_of_two_at_once_is_told_of_the_first() {
    let world = World::native().await;
    let (first, second) = race(&world, "commit").await;
    assert!(!first.repeated && second.repeated);
    assert_eq!((&second.id, &second.event_id), (&first.id, &id(1)));
    assert_eq!(world.texts("select event_id from outbox"), [id(1).to_string()]);
}

/// A2: a first one that rolls back leaves the key to the second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_second_of_two_at_once_wins_when_the_first_rolls_back() {
    let world = World::native().await;
    let (_, second) = race(&world, "rollback").await;
    assert!(!second.repeated && second.event_id == id(2));
    assert_eq!(world.texts("select event_id from outbox"), [id(2).to_string()]);
    assert_eq!(
        world.texts("select event_id || ' ' || entry from postrider_idempotency"),
        [format!("{} {}", id(2), second.id)]
    );
}

/// A2: many at once, one event.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_at_once_write_one_event() {
    let world = World::native().await;
    let mut racers = Vec::new();
    for n in 0..16 {
        let (client, outbox) = (world.client().await, world.outbox.clone());
        racers.push(tokio::spawn(
            async move { outbox.append_once(&client, &plain(n), "request").await.unwrap() },
        ));
    }
    let mut told = Vec::new();
    for racer in racers {
        told.push(racer.await.unwrap());
    }
    assert_eq!(told.iter().filter(|appended| !appended.repeated).count(), 1);
    assert!(told.iter().all(|appended| appended.id == told[0].id && appended.event_id == told[0].event_id));
    assert_eq!(world.value("select count(*) from outbox"), "1");
}

/// F9: two outboxes in one database have a function each, and keys of their own.
#[tokio::test]
async fn outboxes_share_no_keys() {
    let world = World::native().await;
    let mut layout = world.layout.clone();
    layout.table = postrider_core::layout::Identifier::new("outbox_of_returns").unwrap();
    let returns = postrider_postgres::Outbox::new(&layout).unwrap();
    let config = postrider_postgres::Config::new(&world.database.url(), layout, "test").unwrap();
    postrider_postgres::migrate(&config).await.unwrap();
    let client = world.client().await;
    assert!(!world.outbox.append_once(&client, &plain(1), "k").await.unwrap().repeated);
    assert!(!returns.append_once(&client, &plain(2), "k").await.unwrap().repeated);
    assert!(returns.append_once(&client, &plain(3), "k").await.unwrap().repeated);
    let count = "select (select count(*) from outbox) || ' ' || (select count(*) from outbox_of_returns)";
    assert_eq!(world.value(count), "1 1");
}
