//! Every driver joins the caller's transaction.

use mysql_async::prelude::Queryable;
use postrider_core::EntryId;

use crate::world::{Driver, End, World, full, id, plain};

/// F9: what is committed is there, what is rolled back is not; many events go in one statement, in their order.
async fn joins_the_transaction(driver: Driver) {
    for world in World::native().await {
        let gone = world.append(driver, &[plain(1), plain(2)], End::Rollback).await;
        assert_eq!(gone.len(), 2);
        assert_eq!(world.value("select count(*) from outbox"), "0");

        let events: Vec<_> = (10..15).map(|n| if n % 2 == 0 { plain(n) } else { full(n) }).collect();
        let appended = world.append(driver, &events, End::Commit).await;
        let ids: Vec<i64> = appended.iter().map(|appended| appended.id.int().unwrap()).collect();
        assert!(ids.is_sorted() && ids.len() == 5, "{ids:?}");
        assert!(
            appended.iter().zip(10..).all(|(appended, n)| appended.event_id == id(n) && !appended.repeated)
        );
        let stored = world.texts("select concat(id, ' ', event_id) from outbox order by id");
        let expected: Vec<_> = ids.iter().zip(10..).map(|(entry, n)| format!("{entry} {}", id(n))).collect();
        assert_eq!(stored, expected);

        let everything = "select concat_ws('|', type, source, aggregate_type, aggregate_id, `key`, time, content_type, trace, \
            trace_state, sequence, json_unquote(json_extract(extensions, '$.tenant'))) from outbox where event_id like '%00b'";
        assert_eq!(
            world.value(everything),
            "loopers.order.created.v1|/shop|Order|4711|customer-7|2026-01-02 03:04:05.678901|application/json|\
             00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01|vendor=1|11|ac\"me"
        );
        let payloads = world.texts("select payload from outbox order by id");
        assert!(
            payloads.iter().zip(&events).all(|(stored, event)| stored.as_bytes() == &event.data[..]),
            "as written: {payloads:?}"
        );
        assert_eq!(
            world.value("select count(*) from outbox where `key` is null and extensions is null"),
            "3"
        );
    }
}

/// A2, F9: a repeated append writes nothing, says so, and tells the first event's ids.
async fn is_idempotent(driver: Driver) {
    for world in World::native().await {
        let first = world.append_once(driver, &full(1), "request-1").await;
        assert!(
            !first.repeated && first.event_id == id(1) && matches!(first.id, EntryId::Int(_)),
            "{first:?}"
        );
        let again = world.append_once(driver, &full(2), "request-1").await;
        assert!(again.repeated && again.event_id == first.event_id && again.id == first.id, "{again:?}");
        let other = world.append_once(driver, &plain(3), "request-2").await;
        assert!(!other.repeated && other.id != first.id);
        assert_eq!(
            world.texts("select event_id from outbox order by id"),
            [id(1).to_string(), id(3).to_string()]
        );
        // Written by the procedure as a plain append writes it.
        world.append(driver, &[full(4), full(1)], End::Commit).await;
        let same = "select count(distinct type, source, aggregate_type, aggregate_id, `key`, time, content_type, trace, \
            trace_state, json_extract(extensions, '$.tenant')) from outbox where `key` is not null";
        assert_eq!(world.value(same), "1");
        let payload = format!("select count(distinct payload) from outbox where event_id = '{}'", id(1));
        assert_eq!(world.value(&payload), "1", "as written");
    }
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

each_driver!(MysqlAsync with_mysql_async, Sqlx with_sqlx, Diesel with_diesel_async, SeaOrm with_sea_orm);

/// F9: each is one round trip once its statement is prepared: the server counts them.
#[tokio::test]
async fn an_append_is_one_round_trip() {
    async fn counted(conn: &mut mysql_async::Conn, name: &str) -> i64 {
        let status = format!("show session status like '{name}'");
        let (_, count): (String, String) = conn.query_first(status).await.unwrap().unwrap();
        count.parse().unwrap()
    }
    for world in World::native().await {
        let mut conn = world.conn().await;
        // The first of each kind looks at the table and prepares its statement.
        for round in 0..2_u32 {
            let prepared = counted(&mut conn, "Com_stmt_prepare").await;
            let start = counted(&mut conn, "Questions").await;
            world.outbox.append(&mut conn, &plain(round * 10)).await.unwrap();
            let one = counted(&mut conn, "Questions").await;
            let many = [plain(round * 10 + 1), full(round * 10 + 2), plain(round * 10 + 3)];
            world.outbox.append_all(&mut conn, &many).await.unwrap();
            let all = counted(&mut conn, "Questions").await;
            world
                .outbox
                .append_once(&mut conn, &plain(round * 10 + 4), &format!("key-{round}"))
                .await
                .unwrap();
            let once = counted(&mut conn, "Questions").await;
            if round == 1 {
                // The look at the counter is one itself.
                assert_eq!((one - start, all - one, once - all), (2, 2, 2));
                assert_eq!(counted(&mut conn, "Com_stmt_prepare").await, prepared);
            }
        }
        assert_eq!(world.value("select count(*) from outbox"), "10");
        conn.disconnect().await.unwrap();
    }
}

/// F9: appends can be spawned, so that services with several threads can use them.
#[tokio::test]
async fn appends_move_between_threads() {
    fn moves<T: Send>(future: T) -> T {
        future
    }
    for world in World::native().await {
        let mut conn = world.conn().await;
        let event = plain(1);
        moves(world.outbox.append(&mut conn, &event)).await.unwrap();
        moves(world.outbox.append_once(&mut conn, &event, "k")).await.unwrap();
        let url = world.database.url();
        let mut sqlx =
            <sqlx_mysql::MySqlConnection as sqlx_core::connection::Connection>::connect(&url).await.unwrap();
        moves(world.outbox.append_sqlx(&mut sqlx, &event)).await.unwrap();
        let mut diesel =
            <diesel_async::AsyncMysqlConnection as diesel_async::AsyncConnection>::establish(&url)
                .await
                .unwrap();
        moves(world.outbox.append_diesel(&mut diesel, &event)).await.unwrap();
        let sea_orm = sea_orm::Database::connect(&url).await.unwrap();
        moves(world.outbox.append_sea_orm(&sea_orm, &event)).await.unwrap();
        assert_eq!(world.value("select count(*) from outbox"), "5");
    }
}
