//! Status tables: rows as the team's columns and Postrider's own table have them.

use postrider_core::layout::{OnDead, Order, Published};
use postrider_core::store::{Depth, Filter, Store};
use postrider_core::{EntryId, Key, Layout, State};
use tokio_postgres::NoTls;

use crate::world::{LETTERS, WORDS, World, held, letters, list, of, only, state};

/// STO-01: what waits, is leased, is dead and is published, each once; a lease that ran out is none.
#[tokio::test]
async fn depth_counts_by_word_and_by_what_is_kept_beside() {
    let world = World::new(letters("", WORDS), LETTERS).await;
    world
        .run("insert into letters (subject, status) values
              ('a', 'NEW'), ('a', 'NEW'), ('b', 'NEW'), ('c', 'NEW'), ('d', 'FAILED'), ('d', 'NEW'), ('e', 'SENT'), ('f', 'NEW');
              insert into postrider_entries (outbox, entry, retries, not_before, leased_until, owner, holds_key) values
              ('letters', '1', 1, now() + interval '1 hour', null, null, false),
              ('letters', '3', 0, null, now() + interval '1 hour', 'relay-1', false),
              ('letters', '4', 0, null, now() - interval '1 second', 'relay-0', false),
              ('letters', '5', 0, null, null, null, true)")
        .await;
    let store = world.store().await;
    let depth = store.depth().await.unwrap();
    let expected = Depth {
        pending: 2, // 4 and 8
        waiting: 1, // 1
        parked: 2,  // 2 behind 1, 6 behind 5
        leased: 1,  // 3
        dead: 1,
        published: 1,
        oldest: depth.oldest,
        culprit: Some((Key::new("Letter", "a"), 1)),
        ..Depth::default()
    };
    assert_eq!(depth, expected);
    assert_eq!(store.show(&EntryId::Int(3)).await.unwrap().unwrap().holder.as_deref(), Some("relay-1"));
    let lax = Layout { order: Order::None, ..world.layout.clone() };
    let config = postrider_postgres::Config::new(&world.database.url(), lax, "x").unwrap();
    let unordered = postrider_postgres::open_store(&config);
    let depth = unordered.await.unwrap().depth().await.unwrap();
    assert_eq!((depth.pending, depth.parked), (4, 0));
    let skipping = Layout { on_dead: OnDead::Skip, ..world.layout.clone() };
    let config = postrider_postgres::Config::new(&world.database.url(), skipping, "x").unwrap();
    let skipping = postrider_postgres::open_store(&config);
    assert_eq!(skipping.await.unwrap().depth().await.unwrap().parked, 1);
}

/// F1: an enum, a fixed width, columns that take no NULL and errors that are too long are written as the table takes them.
#[tokio::test]
async fn verbs_write_what_the_columns_take() {
    let tables = [
        "create type word as enum ('NEW', 'SENT', 'FAILED'); create table letters (
         id uuid primary key default gen_random_uuid(), kind text default 'k', subject text default 'x', payload jsonb default '{}',
         written_at timestamp default now(), status word default 'NEW', tries smallint, due timestamptz not null default now(),
         why varchar(5) not null default '', sent_at timestamp, bumped int)",
        "create table letters (
         id text primary key default 'id ''' || random(), kind text default 'k', subject text default 'x', payload bytea default '{}',
         written_at timestamptz default now(), status char(10) default 'NEW', tries int, due bigint,
         why text, sent_at text, bumped bigint)",
    ];
    let more = "retries = \"tries\"\nerror = \"why\"\nversion = \"bumped\"";
    for (table, due) in tables.into_iter().zip(["\"due\"", "{ column = \"due\", as = \"unix_ms\" }"]) {
        let world = World::new(letters(&format!("{more}\nnot_before = {due}"), WORDS), table).await;
        world.run("insert into letters default values; insert into letters default values").await;
        let store = world.store().await;
        assert_eq!(
            store
                .bury(&Filter { limit: Some(1), ..Filter::default() }, "much too long", false)
                .await
                .unwrap(),
            1
        );
        assert_eq!(store.depth().await.unwrap().dead, 1, "{table}");
        let dead = store.list(&of(State::Dead)).await.unwrap().remove(0);
        assert!(dead.error.as_deref().unwrap().starts_with("much "), "{:?}", dead.error);
        assert_eq!(store.revive(&only(dead.id.clone()), false).await.unwrap(), 1);
        let revived = store.show(&dead.id).await.unwrap().unwrap().listed;
        assert_eq!((revived.state, revived.retries, revived.error), (State::Pending, 0, None), "{table}");
        assert_eq!(
            world.one("select max(bumped) from letters").await,
            "2",
            "each write bumps the version (A7)"
        );
        assert_eq!(world.one("select count(*) from postrider_entries").await, "0");
        world.run("update letters set status = 'SENT'").await;
        assert_eq!(store.prune(&Filter::default(), false).await.unwrap(), 2, "{table}");
    }
}

/// C1, STO-02: times of any type are read, and published rows show when they were.
#[tokio::test]
async fn times_of_any_type_are_read() {
    for (kind, form, value) in [
        ("timestamptz", "", "timestamptz '2026-03-01 12:00+00'"),
        ("timestamp", "", "timestamp '2026-03-01 21:00'"),
        ("text", "", "'2026-03-01 21:00:00'"),
        ("bigint", "unix_us", "1772366400000000"),
        ("bigint", "unix_ms", "1772366400000"),
        ("int", "unix_s", "1772366400"),
        ("float8", "unix_s", "1772366400"),
    ] {
        let column = |name: &str| match form {
            "" => format!("\"{name}\""),
            form => format!("{{ column = \"{name}\", as = \"{form}\" }}"),
        };
        let layout = letters(&format!("published_at = {}", column("sent_at")), WORDS);
        let zone = postrider_core::layout::Zone::parse("+09:00").unwrap();
        let mut layout = Layout { zone, ..layout };
        if !form.is_empty() {
            let text = format!(
                "name = \"x\"\ntable = \"x\"\nway = \"lease\"\n[columns]\nid = \"id\"\ntype = \"t\"\npayload = \"p\"\nstatus = \"s\"\ntime = {}\n[status]\n{WORDS}",
                column("written_at")
            );
            layout.columns.time = Layout::parse("x", text.as_bytes()).unwrap().columns.time;
        }
        let world = World::new(
            layout,
            &format!("create table letters (id int primary key, kind text default 'k', subject text default 'x',
                      payload text default '{{}}', written_at {kind}, status text default 'SENT', sent_at {kind})"),
        )
        .await;
        world
            .run(&format!("insert into letters (id, written_at, sent_at) values (1, {value}, {value})"))
            .await;
        let store = world.store().await;
        let shown = store.show(&EntryId::Int(1)).await.unwrap().unwrap();
        let expected = Some("2026-03-01T12:00:00Z".parse().unwrap());
        assert_eq!((shown.listed.time, shown.published_at), (expected, expected), "{kind} {form}");
        let old = Filter { older_than: Some(std::time::Duration::from_secs(1)), ..Filter::default() };
        // By the real clock it is in the past of every run of this test.
        let now = world.one("select now() > '2026-03-02'").await == "t";
        assert_eq!(store.prune(&old, true).await.unwrap(), u64::from(now), "{kind} {form}");
    }
}

/// D5, STO-05: what another transaction has locked is leased: it is seen without a lock, and left alone; freed, it is not.
#[tokio::test]
async fn rows_that_are_locked_are_leased() {
    let world = World::new(held(letters("", WORDS)), LETTERS).await;
    world.run("insert into letters (subject) values ('a'), ('b'), ('c')").await;
    let store = world.store().await;
    let (client, connection) = tokio_postgres::connect(&world.database.url(), NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    client.batch_execute("begin; select from letters where id < 3 for update").await.unwrap();
    let depth = store.depth().await.unwrap();
    assert_eq!((depth.leased, depth.pending), (2, 1), "{depth:?}");
    assert_eq!(list(&store, of(State::Leased)).await, ["1", "2"]);
    assert_eq!(store.bury(&Filter::default(), "by hand", false).await.unwrap(), 1, "only the third");
    assert_eq!(state(&store, &EntryId::Int(3)).await, State::Dead);
    drop(client);
    connection.await.unwrap().unwrap();
    postrider_servers::until("the locks are gone", || {
        world.database.query("select count(*) from pg_stat_activity where datname = current_database() and xact_start is not null and pid <> pg_backend_pid()")[0][0].as_deref() == Some("0")
    });
    let depth = store.depth().await.unwrap();
    assert_eq!((depth.leased, depth.pending, depth.dead), (0, 2, 1), "{depth:?}");
}

/// F1: without a status every row is pending, unless what is kept beside it says otherwise.
#[tokio::test]
async fn a_table_without_a_status_keeps_its_dead_beside_it() {
    let debezium = Layout::built_in("debezium").unwrap();
    assert_eq!((debezium.published, &debezium.status), (Published::Delete, &None));
    let world = World::new(
        debezium,
        "create table outbox (id uuid primary key, aggregatetype text not null, aggregateid text not null, type text not null, payload jsonb)",
    )
    .await;
    world
        .run("insert into outbox select md5(n::text)::uuid, 'Order', n, 'OrderPlaced', '{}' from generate_series(1, 4) as n;
              insert into postrider_entries (outbox, entry, not_before, retries)
              select 'outbox', id::text, now() + interval '1 hour', 3 from outbox where aggregateid = '2'")
        .await;
    let store = world.store().await;
    let depth = store.depth().await.unwrap();
    assert_eq!((depth.pending, depth.waiting, depth.dead, depth.published), (3, 1, 0, 0), "{depth:?}");
    let first = world.one("select id from outbox where aggregateid = '1'").await;
    let first = EntryId::Text(first.into());
    assert_eq!(store.bury(&only(first.clone()), "by hand", false).await.unwrap(), 1);
    assert_eq!(store.depth().await.unwrap().dead, 1);
    let shown = store.show(&first).await.unwrap().unwrap().listed;
    assert_eq!((shown.state, shown.error.as_deref()), (State::Dead, Some("by hand")));
    assert_eq!(
        store.prune(&Filter::default(), false).await.unwrap(),
        0,
        "nothing that is there is published"
    );
    assert_eq!(store.revive(&Filter::default(), false).await.unwrap(), 1);
    assert_eq!(state(&store, &first).await, State::Pending);
    for id in ["not-a-uuid", "0193e2f4-5b7c-7000-8000-00000000000a"] {
        assert_eq!(store.show(&EntryId::Text(id.into())).await.unwrap(), None, "{id}");
    }
}

/// A row whose status is none of the layout's words hides nowhere.
#[tokio::test]
async fn an_unknown_word_is_told() {
    let world = World::new(letters("", WORDS), LETTERS).await;
    world.run("insert into letters (status) values ('NEW'), ('PAUSED'), ('PAUSED')").await;
    let store = world.store().await;
    let depth = store.depth().await.unwrap();
    assert_eq!((depth.pending, depth.unknown), (1, 2), "{depth:?}");
    assert_eq!(list(&store, Filter::default()).await, ["1", "2", "3"]);
    world
        .check()
        .await
        .expect(postrider_postgres::Weight::Advice, &["2 rows", "\"PAUSED\"", "none of the layout's words"]);
}

/// D2, issue 4: rows whose status is NULL or none of the layout's words are listed with the word and the remedy, shown, and
/// revived or buried where they are asked for; no verb touches them by accident.
#[tokio::test]
async fn rows_of_an_unknown_status_are_within_reach() {
    let table = LETTERS.replace("status varchar(20) not null", "status varchar(20)");
    for layout in [letters("", WORDS), held(letters("", WORDS))] {
        let world = World::new(layout, &table).await;
        world
            .run("insert into letters (status) values ('NEW'), ('NWE'), (null), ('HELD'), ('FAILED'), ('SENT')")
            .await;
        let store = world.store().await;
        assert_eq!(list(&store, Filter::default()).await.len(), 6);
        let unknown = store.list(&of(State::Unknown)).await.unwrap();
        let told: Vec<&str> = unknown.iter().map(|line| line.error.as_deref().unwrap()).collect();
        assert_eq!((unknown.len(), store.depth().await.unwrap().unknown), (3, 3));
        for (told, word) in told.iter().zip(["\"NWE\"", "NULL", "\"HELD\""]) {
            assert!(told.contains(&format!("its status is {word}")) && told.contains("revive"), "{told}");
        }
        assert_eq!(state(&store, &EntryId::Int(2)).await, State::Unknown);

        let everything = Filter::default();
        assert_eq!(store.revive(&everything, false).await.unwrap(), 1, "the dead one");
        assert_eq!(store.bury(&everything, "no", false).await.unwrap(), 2, "the pending ones");
        assert_eq!(store.prune(&only(4_i64), false).await.unwrap(), 0);
        assert_eq!(store.list(&of(State::Unknown)).await.unwrap().len(), 3);

        assert_eq!(store.revive(&only(2_i64), true).await.unwrap(), 1);
        assert_eq!(store.revive(&only(2_i64), false).await.unwrap(), 1);
        assert_eq!(store.bury(&only(3_i64), "no", false).await.unwrap(), 1);
        assert_eq!(store.revive(&of(State::Unknown), false).await.unwrap(), 1);
        let words = world.one("select string_agg(status, ',' order by id) from letters").await;
        assert_eq!(words, "FAILED,NEW,FAILED,NEW,FAILED,SENT");
        assert_eq!(store.depth().await.unwrap().unknown, 0);
    }
}
