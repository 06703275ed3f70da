//! Every driver joins the caller's transaction.

use postrider_core::EntryId;

use crate::world::{Driver, End, World, full, id, plain};

/// F9: what is committed is there, what is rolled back is not; many events go in one statement, in their order.
async fn joins_the_transaction(driver: Driver) {
    let world = World::native().await;
    let gone = world.append(driver, &[plain(1), plain(2)], End::Rollback).await;
    assert_eq!(gone.len(), 2);
    assert_eq!(world.value("select count(*) from outbox"), "0");

    let events: Vec<_> = (10..15).map(|n| if n % 2 == 0 { plain(n) } else { full(n) }).collect();
    let appended = world.append(driver, &events, End::Commit).await;
    let ids: Vec<i64> = appended.iter().map(|appended| appended.id.int().unwrap()).collect();
    assert!(ids.is_sorted() && ids.len() == 5, "{ids:?}");
    assert!(appended.iter().zip(10..).all(|(appended, n)| appended.event_id == id(n) && !appended.repeated));
    let stored = world.texts("select id || ' ' || event_id from outbox order by id");
    let expected: Vec<_> = ids.iter().zip(10..).map(|(entry, n)| format!("{entry} {}", id(n))).collect();
    assert_eq!(stored, expected);
    assert_eq!(world.value("select count(distinct xmin::text) from outbox"), "1", "one transaction");

    let everything = "select concat_ws('|', type, source, aggregate_type, aggregate_id, key, time, content_type, trace, \
        trace_state, sequence, extensions::jsonb->>'tenant') from outbox where event_id like '%00b'";
    assert_eq!(
        world.value(everything),
        "loopers.order.created.v1|/shop|Order|018f3b0c-7d4e-7abc-8def-00000000000a|customer-7|1767323045678901|\
         application/json|00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01|vendor=1|11|ac\"me"
    );
    let payloads = world.texts("select payload from outbox order by id");
    assert!(
        payloads.iter().zip(&events).all(|(stored, event)| stored.as_bytes() == &event.data[..]),
        "as written"
    );
    assert_eq!(world.value("select count(*) from outbox where key is null and extensions is null"), "3");
}

/// A2, F9: a repeated append writes nothing, says so, and tells the first event's ids.
async fn is_idempotent(driver: Driver) {
    let world = World::native().await;
    let first = world.append_once(driver, &full(1), "request-1").await;
    assert!(!first.repeated && first.event_id == id(1) && matches!(first.id, EntryId::Int(_)));
    let again = world.append_once(driver, &full(2), "request-1").await;
    assert!(again.repeated && again.event_id == first.event_id && again.id == first.id, "{again:?}");
    let other = world.append_once(driver, &plain(3), "request-2").await;
    assert!(!other.repeated && other.id != first.id);
    assert_eq!(
        world.texts("select event_id from outbox order by id"),
        [id(1).to_string(), id(3).to_string()]
    );
    // Written by the function as a plain append writes it.
    world.append(driver, &[full(4)], End::Commit).await;
    let same = "select count(distinct (type, source, aggregate_type, aggregate_id, key, time, content_type, trace, trace_state, \
        extensions::jsonb::text)) from outbox where key is not null";
    assert_eq!(world.value(same), "1");
}

macro_rules! each_driver {
    ($($driver:ident $name:ident),*) => {$(
        mod $name {
            use super::*;

            /// F9
            #[tokio::test]
            async fn joins_the_callers_transaction() {
                joins_the_transaction(Driver::$driver).await;
            }

            /// A2, F9
            #[tokio::test]
            async fn a_repeated_append_is_a_no_op() {
                is_idempotent(Driver::$driver).await;
            }
        }
    )*};
}

each_driver!(TokioPostgres with_tokio_postgres, Sqlx with_sqlx, Diesel with_diesel_async, SeaOrm with_sea_orm);

/// F9: an event alone, with everything and with as little as can be, says the same as among others.
#[tokio::test]
async fn one_event_is_written_as_many_are() {
    let world = World::native().await;
    let client = world.client().await;
    let some = postrider_core::Envelope { sequence: Some(3), ..plain(3) };
    let events = [full(1), plain(2), some];
    for event in &events {
        world.outbox.append(&client, event).await.unwrap();
    }
    world.outbox.append_all(&client, &events).await.unwrap();
    let rows = "select (to_jsonb(o) - 'id')::text from outbox as o order by id";
    let rows = world.texts(rows);
    assert_eq!(rows.len(), 6);
    assert_eq!(rows[..3], rows[3..]);
}

/// F9: an insert that was prepared on the connection writes the same, in the transaction that is open there.
#[tokio::test]
async fn a_prepared_append_joins_the_callers_transaction() {
    let world = World::native().await;
    let mut client = world.client().await;
    let prepared = world.outbox.prepare(&client).await.unwrap();
    let transaction = client.transaction().await.unwrap();
    prepared.append(&transaction, &plain(1)).await.unwrap();
    transaction.rollback().await.unwrap();
    let transaction = client.transaction().await.unwrap();
    let event_id = prepared.append(&transaction, &full(2)).await.unwrap();
    transaction.commit().await.unwrap();
    assert_eq!(event_id, id(2));
    let stored = world.texts("select event_id || ' ' || payload from outbox");
    assert_eq!(stored, [format!("{event_id} {}", std::str::from_utf8(&full(2).data).unwrap())]);
}

/// F9: where the table counts, the number that it hands out is the event's id, also of an insert that was prepared.
#[tokio::test]
async fn a_prepared_append_tells_the_id_that_a_table_hands_out() {
    let layout = r#"
        name = "counted"
        table = "counted"
        way = "cursor"
        names = "free"
        [columns]
        id = "id"
        type = "type"
        aggregate_type = { constant = "Order" }
        aggregate_id = "order_id"
        source = { constant = "/shop" }
        time = "at"
        payload = "payload"
    "#;
    let table = "create table counted (id bigint generated always as identity (start 41) primary key, type text, order_id text, \
        at timestamptz, payload text)";
    let world =
        World::of(postrider_core::Layout::parse("counted.toml", layout.as_bytes()).unwrap(), table).await;
    let client = world.client().await;
    let prepared = world.outbox.prepare(&client).await.unwrap();
    let told = [
        prepared.append(&client, &plain(1)).await.unwrap(),
        prepared.append(&client, &plain(2)).await.unwrap(),
    ];
    assert_eq!(told, ["41", "42"]);
    assert_eq!(world.texts("select id::text from counted order by id"), ["41", "42"]);
}

/// F9: appends can be spawned, so that services with several threads can use them.
#[tokio::test]
async fn appends_move_between_threads() {
    fn moves<T: Send>(future: T) -> T {
        future
    }
    let world = World::native().await;
    let client = world.client().await;
    let event = plain(1);
    moves(world.outbox.append(&client, &event)).await.unwrap();
    moves(world.outbox.append_once(&client, &event, "k")).await.unwrap();
    let mut sqlx =
        <sqlx_postgres::PgConnection as sqlx_core::connection::Connection>::connect(&world.database.url())
            .await
            .unwrap();
    moves(world.outbox.append_sqlx(&mut sqlx, &event)).await.unwrap();
    let mut diesel =
        <diesel_async::AsyncPgConnection as diesel_async::AsyncConnection>::establish(&world.database.url())
            .await
            .unwrap();
    moves(world.outbox.append_diesel(&mut diesel, &event)).await.unwrap();
    let sea_orm = sea_orm::Database::connect(world.database.url()).await.unwrap();
    moves(world.outbox.append_sea_orm(&sea_orm, &event)).await.unwrap();
    assert_eq!(world.value("select count(*) from outbox"), "5");
}

/// F9: on the oldest server that is supported, by every driver.
#[tokio::test]
async fn the_oldest_server_takes_events_too() {
    let Some(server) = postrider_servers::postgres15() else { return };
    let world = World::native_on(&server).await;
    for driver in Driver::ALL {
        world.append(driver, &[full(1), plain(2), full(3)], End::Commit).await;
        assert!(!world.append_once(driver, &full(4), &format!("{driver:?}")).await.repeated);
        assert!(world.append_once(driver, &full(5), &format!("{driver:?}")).await.repeated);
    }
    assert_eq!(world.value("select count(*) from outbox"), "16");
}

/// F9: behind a pooler that hands every transaction another connection.
#[tokio::test]
async fn a_transaction_pooler_may_stand_between() {
    let Some(pooler) = postrider_servers::pgbouncer() else { return };
    let world = World::native().await;
    let url = world.database.url_at(&pooler);
    let (mut client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    for n in 0..3 {
        let transaction = client.transaction().await.unwrap();
        world.outbox.append(&transaction, &plain(n)).await.unwrap();
        world.outbox.append_all(&transaction, &[plain(n + 10), full(n + 20)]).await.unwrap();
        let once = world.outbox.append_once(&transaction, &plain(n + 30), "k").await.unwrap();
        assert_eq!(once.repeated, n > 0);
        transaction.commit().await.unwrap();
    }
    assert_eq!(world.value("select count(*) from outbox"), "10");
}
