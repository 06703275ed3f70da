//! What the table cannot keep is refused before it is written, and the caller's transaction goes on (F5).

use postrider_core::{Envelope, Layout};
use postrider_postgres::{AppendError, Outbox, hint};

use crate::world::{World, full, plain};

const TABLE: &str = "create table outbox_events (id uuid primary key, aggregate_type varchar(5) not null, aggregate_id uuid not null, \
    event_type varchar(30) not null, payload jsonb not null, occurred_at timestamptz not null, status varchar(20) not null, \
    retry_count int not null, next_attempt_at timestamptz, last_error text, processed_at timestamptz)";

/// F5, B3: each is refused with its place and remedy, none of them reaches the server, and no payload is shown.
#[tokio::test]
async fn what_the_table_cannot_keep_is_refused_before_it_is_written() {
    let world = World::of(Layout::built_in("logistics").unwrap(), TABLE).await;
    let mut client = world.client().await;
    let transaction = client.transaction().await.unwrap();
    let change = |change: fn(&mut Envelope)| {
        let mut envelope = plain(1);
        change(&mut envelope);
        envelope
    };
    for (envelope, expected) in [
        (
            change(|e| e.aggregate_id = "secret-7".into()),
            "aggregate_id is no UUID, and column \"aggregate_id\" is of type uuid",
        ),
        (change(|e| e.id = "7".into()), "event_id is no UUID"),
        (
            change(|e| e.aggregate_type = "Orders".into()),
            "aggregate_type has 6 characters, and column \"aggregate_type\" takes 5",
        ),
        (change(|e| e.aggregate_type = "ÄÖÜÄÖÜ".into()), "has 6 characters"),
        (change(|e| e.data = "".into()), "payload is missing, and column \"payload\" takes no NULL"),
        (change(|e| e.data = "{secret".into()), "not JSON"),
        (change(|e| e.sequence = Some(1)), "has no column for it"),
        (full(1), "has no column for it"),
    ] {
        let refused = world.outbox.append(&transaction, &envelope).await.unwrap_err();
        let AppendError::Refused(fault) = refused else { panic!("{expected}: {refused:?}") };
        let said = fault.to_string();
        assert!(said.contains(expected) && !fault.remedy.is_empty() && !said.contains("secret"), "{said}");
        assert!(world.outbox.append_all(&transaction, &[plain(2), envelope]).await.is_err());
    }
    // Five characters are more bytes, and fit; the transaction was never touched by what was refused.
    world.outbox.append(&transaction, &change(|e| e.aggregate_type = "ÄÖÜÄÖ".into())).await.unwrap();
    transaction.commit().await.unwrap();
    assert_eq!(world.value("select count(*) from outbox_events"), "1");
}

/// B3: a name off the convention is refused where the layout wants it.
#[tokio::test]
async fn a_name_off_the_convention_is_refused() {
    let world = World::native().await;
    let client = world.client().await;
    let event = Envelope { event_type: "OrderCreated".into(), ..plain(1) };
    for refused in [
        world.outbox.append(&client, &event).await.map(drop),
        world.outbox.append_all(&client, &[plain(2), event.clone()]).await.map(drop),
        world.outbox.append_once(&client, &event, "k").await.map(drop),
    ] {
        let said = refused.unwrap_err().to_string();
        assert!(said.contains("company.domain.action.v1"), "{said}");
    }
    assert_eq!(world.value("select count(*) from outbox"), "0");
}

/// F5: bytes that are no text do not go into a column of text; an empty or endless key is none.
#[tokio::test]
async fn bytes_and_keys_that_cannot_be_kept_are_refused() {
    let world = World::native().await;
    let client = world.client().await;
    let binary = Envelope {
        content_type: Some("application/octet-stream".into()),
        data: vec![0, 255].into(),
        ..plain(1)
    };
    let said = world.outbox.append(&client, &binary).await.unwrap_err().to_string();
    assert!(said.contains("column \"payload\"") && said.contains("bytea"), "{said}");
    let text = Envelope { content_type: Some("text/plain".into()), data: "naïve".into(), ..plain(1) };
    world.outbox.append(&client, &text).await.unwrap();
    world.outbox.append_once(&client, &text, "k").await.unwrap();
    assert_eq!(
        world.texts("select payload || content_type from outbox"),
        ["naïvetext/plain", "naïvetext/plain"]
    );
    for key in ["", &"k".repeat(2_000)] {
        assert!(matches!(
            world.outbox.append_once(&client, &plain(2), key).await,
            Err(AppendError::Refused(_))
        ));
    }
}

/// F5: JSONB keeps no character zero: it is refused before the database sees it, with its place; what only looks like it passes.
#[tokio::test]
async fn a_character_that_jsonb_does_not_keep_is_refused() {
    let world = World::of(Layout::built_in("logistics").unwrap(), TABLE).await;
    let client = world.client().await;
    let with = |data: &'static str| Envelope { data: data.into(), ..plain(1) };
    for refused in [
        world.outbox.append(&client, &with(r#"{"a":"b\u0000"}"#)).await.map(drop),
        world.outbox.append_all(&client, &[with(r#"{"a":"b\u0000"}"#)]).await.map(drop),
    ] {
        let Err(AppendError::Refused(fault)) = refused else { panic!("{refused:?}") };
        let said = fault.to_string();
        for part in ["\\u0000 at byte 7", "column \"payload\"", "jsonb", "Take it out"] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
    world.outbox.append(&client, &with(r#"{"a":"b\\u0000"}"#)).await.unwrap();
    assert_eq!(world.value("select payload->>'a' from outbox_events"), "b\\u0000");
}

/// F5: a table that is not there, a column that is not there, an id that nobody gives: each with its remedy.
#[tokio::test]
async fn a_table_that_is_not_as_the_layout_says_is_named() {
    let layout = Layout::built_in("logistics").unwrap();
    let said = |refused: Result<_, AppendError<tokio_postgres::Error>>| match refused
        .map(|_: postrider_core::append::Appended| ())
    {
        Err(AppendError::Refused(fault)) => fault.to_string(),
        other => panic!("{other:?}"),
    };
    let world = World::of(layout.clone(), "select 1").await;
    let client = world.client().await;
    let missing = said(world.outbox.append(&client, &plain(1)).await);
    assert!(missing.contains("no such table"), "{missing}");

    world.database.query(&TABLE.replace("event_type", "event_typ"));
    let missing = said(world.outbox.append(&client, &plain(1)).await);
    assert!(missing.contains("\"event_type\"") && missing.contains("is it \"event_typ\"?"), "{missing}");

    world.database.query("alter table outbox_events rename event_typ to event_type; alter table outbox_events drop id, add id bigint");
    let nobody = said(world.outbox.append(&client, &plain(1)).await);
    assert!(nobody.contains("does not hand out") && nobody.contains("identity"), "{nobody}");

    // What was wrong is not remembered.
    world.database.query(
        "alter table outbox_events alter id set not null, alter id add generated by default as identity",
    );
    let appended = world.outbox.append(&client, &plain(1)).await.unwrap();
    assert_eq!(&*appended.event_id, "1");
}

/// F5: what only the server can know comes with a remedy that names the column, and the next append looks at the table anew.
#[tokio::test]
async fn what_the_server_refuses_has_a_remedy() {
    let world = World::of(Layout::built_in("logistics").unwrap(), TABLE).await;
    let client = world.client().await;
    world.outbox.append(&client, &plain(1)).await.unwrap();
    let hinted = |error| match error {
        AppendError::Database(error) => hint(&error).unwrap().to_string(),
        AppendError::Refused(fault) => panic!("{fault}"),
    };
    let twice = hinted(world.outbox.append(&client, &plain(1)).await.unwrap_err());
    assert!(twice.contains("outbox_events") && twice.contains("idempotency key"), "{twice}");
    let no_function = hinted(world.outbox.append_once(&client, &plain(2), "k").await.unwrap_err());
    assert!(no_function.contains("postrider migrate"), "{no_function}");
    world
        .database
        .query("alter table outbox_events add tenant text not null default 'x'; alter table outbox_events alter tenant drop default");
    let empty = hinted(world.outbox.append(&client, &plain(3)).await.unwrap_err());
    assert!(empty.contains("column \"tenant\" of table \"outbox_events\""), "{empty}");
    world.database.query("alter table outbox_events drop tenant; alter table outbox_events alter payload type bytea using convert_to(payload::text, 'UTF8')");
    world.outbox.append(&client, &plain(4)).await.unwrap();
    assert_eq!(world.value("select convert_from(payload, 'UTF8')::jsonb->>'n' from outbox_events where id = '018f3b0c-7d4e-7abc-8def-000000000004'"), "4");
}

/// F5: more than one statement can carry is refused.
#[tokio::test]
async fn too_many_events_at_once_are_refused() {
    let world = World::native().await;
    let client = world.client().await;
    let many = vec![plain(1); postrider_core::limits::APPEND_ENTRIES_MAX + 1];
    let said = world.outbox.append_all(&client, &many).await.unwrap_err().to_string();
    assert!(said.contains("in parts"), "{said}");
    assert_eq!(world.outbox.append_all(&client, &[]).await.unwrap(), []);
    let thousand: Vec<Envelope> = (0..5_000).map(plain).collect();
    assert_eq!(world.outbox.append_all(&client, &thousand).await.unwrap().len(), 5_000);
    let small = Outbox::new(&world.layout).unwrap().payload_bytes_max(5);
    assert!(small.append(&client, &plain(1)).await.unwrap_err().to_string().contains("the limit is 5"));
}
