//! What the table cannot keep is refused before it is written, and the caller's transaction goes on (F5).

use mysql_async::prelude::Queryable;
use postrider_core::{Envelope, Layout};
use postrider_mysql::{AppendError, Outbox, hint};

use crate::tables::{DONATION, donated};
use crate::world::{World, full, plain};

/// A4, A13, F5: each is refused with its place and remedy, none of them reaches the server, and no payload is shown, also in
/// a session that would cut what is too long.
#[tokio::test]
async fn what_the_table_cannot_keep_is_refused_before_it_is_written() {
    for world in World::of(&Layout::built_in("donation").unwrap(), DONATION) {
        let mut conn = world.conn().await;
        conn.query_drop("set sql_mode = ''").await.unwrap();
        conn.query_drop("begin").await.unwrap();
        let change = |change: fn(&mut Envelope)| {
            let mut envelope = donated("r-1");
            change(&mut envelope);
            envelope
        };
        let long = "r".repeat(51);
        for (envelope, expected) in [
            (donated(&long), "event_id has 51 characters, and column \"request_id\" takes 50"),
            (
                change(|e| e.event_type = "T".repeat(51).into()),
                "type has 51 characters, and column \"event_type\" takes 50",
            ),
            (donated("a|b"), "has a |"),
            (change(|e| e.event_type = "A|B".into()), "has a |"),
            (change(|e| e.aggregate_id = "other".into()), "one column for both"),
            (change(|e| e.data = "".into()), "payload is missing, and column \"payload\" takes no NULL"),
            (change(|e| e.data = "{secret".into()), "not JSON"),
            (
                change(|e| e.data = format!("\"{}\"", "secret".repeat(11_000)).into()),
                "and column \"payload\" takes 65535",
            ),
            (change(|e| e.sequence = Some(1)), "has no column for it"),
            (Envelope { id: "r-1".into(), aggregate_id: "r-1".into(), ..full(1) }, "has no column for it"),
        ] {
            let refused = world.outbox.append(&mut conn, &envelope).await.unwrap_err();
            let AppendError::Refused(fault) = refused else { panic!("{expected}: {refused:?}") };
            let said = fault.to_string();
            assert!(
                said.contains(expected) && !fault.remedy.is_empty() && !said.contains("secret"),
                "{said}"
            );
            assert!(world.outbox.append_all(&mut conn, &[donated("r-2"), envelope]).await.is_err());
        }
        // Fifty characters are more bytes, and fit; the transaction was never touched by what was refused.
        world.outbox.append(&mut conn, &donated(&"ä".repeat(50))).await.unwrap();
        conn.query_drop("commit").await.unwrap();
        assert_eq!(world.value("select count(*) from donation_outbox"), "1");
    }
}

/// B3: a name off the convention is refused where the layout wants it.
#[tokio::test]
async fn a_name_off_the_convention_is_refused() {
    for world in World::native().await {
        let mut conn = world.conn().await;
        let event = Envelope { event_type: "OrderCreated".into(), ..plain(1) };
        for refused in [
            world.outbox.append(&mut conn, &event).await.map(drop),
            world.outbox.append_all(&mut conn, &[plain(2), event.clone()]).await.map(drop),
            world.outbox.append_once(&mut conn, &event, "k").await.map(drop),
        ] {
            let said = refused.unwrap_err().to_string();
            assert!(said.contains("company.domain.action.v1"), "{said}");
        }
        for key in ["", &"k".repeat(2_000)] {
            let refused = world.outbox.append_once(&mut conn, &plain(2), key).await;
            assert!(matches!(refused, Err(AppendError::Refused(_))));
        }
        assert_eq!(world.value("select count(*) from outbox"), "0");
    }
}

/// F5: a table that is not there, has no transactions or lacks a column, an id that nobody gives: each with its remedy.
#[tokio::test]
async fn a_table_that_is_not_as_the_layout_says_is_named() {
    let said = |refused: Result<_, AppendError<mysql_async::Error>>| match refused
        .map(|_: postrider_core::append::Appended| ())
    {
        Err(AppendError::Refused(fault)) => fault.to_string(),
        other => panic!("{other:?}"),
    };
    for world in World::of(&Layout::built_in("donation").unwrap(), "select 1") {
        let mut conn = world.conn().await;
        let missing = said(world.outbox.append(&mut conn, &donated("r")).await);
        assert!(missing.contains("no such table"), "{missing}");

        world.database.query(&DONATION.replace("event_type", "event_typ"));
        let missing = said(world.outbox.append(&mut conn, &donated("r")).await);
        assert!(missing.contains("\"event_type\"") && missing.contains("is it \"event_typ\"?"), "{missing}");

        world
            .database
            .query("alter table donation_outbox change event_typ event_type varchar(50), modify id bigint");
        let nobody = said(world.outbox.append(&mut conn, &donated("r")).await);
        assert!(nobody.contains("does not hand out") && nobody.contains("auto_increment"), "{nobody}");

        world.database.query("alter table donation_outbox modify id bigint auto_increment, engine = MyISAM");
        let engine = said(world.outbox.append(&mut conn, &donated("r")).await);
        assert!(engine.contains("no transactions") && engine.contains("InnoDB"), "{engine}");

        // What was wrong is not remembered.
        world.database.query("alter table donation_outbox engine = InnoDB");
        world.outbox.append(&mut conn, &donated("r")).await.unwrap();
    }
}

/// F5: what only the server can know comes with a remedy, and the next append looks at the table anew.
#[tokio::test]
async fn what_the_server_refuses_has_a_remedy() {
    for world in World::of(&Layout::built_in("donation").unwrap(), DONATION) {
        let mut conn = world.conn().await;
        conn.query_drop("set sql_mode = ''").await.unwrap();
        world.outbox.append(&mut conn, &donated("r-1")).await.unwrap();
        let hinted = |error| match error {
            AppendError::Database(error) => hint(&error).unwrap().to_string(),
            AppendError::Refused(fault) => panic!("{fault}"),
        };
        let twice = hinted(world.outbox.append(&mut conn, &donated("r-1")).await.unwrap_err());
        assert!(twice.contains("idempotency key"), "{twice}");
        let no_procedure =
            hinted(world.outbox.append_once(&mut conn, &donated("r-2"), "k").await.unwrap_err());
        assert!(no_procedure.contains("postrider migrate"), "{no_procedure}");
        world.database.query("alter table donation_outbox add tenant int not null");
        let empty = hinted(world.outbox.append(&mut conn, &donated("r-3")).await.unwrap_err());
        assert!(empty.contains("takes no NULL"), "{empty}");
        world.database.query(
            "alter table donation_outbox drop tenant, modify request_id varchar(50) character set latin1",
        );
        let character = hinted(world.outbox.append(&mut conn, &donated("r-😀")).await.unwrap_err());
        assert!(character.contains("utf8mb4"), "not cut or replaced without a word: {character}");
        assert_eq!(world.value("select count(*) from donation_outbox"), "1");
        world
            .database
            .query("alter table donation_outbox modify request_id varchar(60) character set utf8mb4");
        world.outbox.append(&mut conn, &donated(&"r".repeat(55))).await.unwrap();
    }
}

/// F5: more than one statement can carry is refused; as many as it can go at once.
#[tokio::test]
async fn too_many_events_at_once_are_refused() {
    for world in World::native().await {
        let mut conn = world.conn().await;
        let many = vec![plain(1); 6_000];
        let said = world.outbox.append_all(&mut conn, &many).await.unwrap_err().to_string();
        assert!(said.contains("in parts"), "{said}");
        assert_eq!(world.outbox.append_all(&mut conn, &[]).await.unwrap(), []);
        let thousands: Vec<Envelope> = (0..5_000).map(plain).collect();
        let appended = world.outbox.append_all(&mut conn, &thousands).await.unwrap();
        let ids: Vec<String> = appended.iter().map(|one| one.id.to_string()).collect();
        assert_eq!(world.texts("select id from outbox order by id"), ids);
        let small = Outbox::new(&world.layout).unwrap().payload_bytes_max(5);
        let said = small.append(&mut conn, &plain(1)).await.unwrap_err().to_string();
        assert!(said.contains("the limit is 5"), "{said}");
    }
}
