//! Tables of other people, by their layouts: UUID ids, NULLs, broken rows, team columns.

use std::time::Duration;

use crate::common::{
    LOGISTICS_TABLE, ORDER_SERVICE_TABLE, Relay, STATUS_TABLE, ask, full_status_layout, native, outbox_file,
    status_layout,
};
use postrider_core::layout::{Column, JsonPath, Order, Published, Way};
use postrider_core::source::{Claim, Claimed, Source};
use postrider_core::store::{Filter, Store};
use postrider_core::verdict::Reason;
use postrider_core::{Entry, Layout, Settlement};
use postrider_sqlite::{Config, Hold, migrate, open_store};
use rusqlite::Connection;
use tempfile::NamedTempFile;

struct Table {
    file: NamedTempFile,
    config: Config,
}

impl Table {
    fn new(sql: &str, layout: Layout) -> Self {
        let file = NamedTempFile::new().unwrap();
        Connection::open(file.path()).unwrap().execute_batch(sql).unwrap();
        let config = Config::new(file.path(), layout, "relay").way(Way::Lease);
        migrate(&config).unwrap();
        Self { file, config }
    }

    fn run(&self, sql: &str) {
        Connection::open(self.file.path()).unwrap().execute_batch(sql).unwrap();
    }

    fn text(&self, sql: &str) -> String {
        Connection::open(self.file.path())
            .unwrap()
            .query_row(sql, [], |row| row.get::<_, Option<String>>(0))
            .unwrap()
            .unwrap_or("NULL".into())
    }
}

async fn claim(relay: &Relay) -> Claim<Hold> {
    match relay.source.claim(&ask()).await.unwrap() {
        Claimed::Batch(claim) => claim,
        Claimed::Nothing(idle) => panic!("nothing: {idle:?}"),
        Claimed::Standby => panic!("standby"),
    }
}

fn event_ids(entries: &[Entry]) -> Vec<&str> {
    entries.iter().map(|entry| &*entry.envelope.id).collect()
}

fn failed(retries: u32, after: Duration) -> Settlement {
    Settlement::Retried { retries, after, reason: Reason::new("no") }
}

/// D1, D4: Logistics' own table, words and counters; the id is the event's.
#[tokio::test]
async fn logistics_rows_are_written_as_the_team_writes_them() {
    let table = Table::new(LOGISTICS_TABLE, Layout::built_in("logistics").unwrap());
    table.run(
        "insert into outbox_events (id, aggregate_type, aggregate_id, event_type, payload, occurred_at) values
         ('u2', 'Order', 'o1', 'OrderShipped', '{}', '2026-01-01 00:00:02'),
         ('u1', 'Order', 'o1', 'OrderCreated', '{\"a\":1}', '2026-01-01 00:00:01')",
    );
    let relay = Relay::open(&table.config);
    let Claim { mut hold, entries, .. } = claim(&relay).await;
    assert_eq!(event_ids(&entries), ["u1", "u2"], "by time");
    assert_eq!((&*entries[0].envelope.source, entries[0].key.is_none()), ("/logistics", true));
    relay
        .source
        .settle(&mut hold, &[(0, failed(1, Duration::from_secs(1))), (1, Settlement::Published)])
        .await
        .unwrap();
    relay.source.release(hold).await.unwrap();
    let row = |id: &str| {
        table.text(&format!("select status || '|' || retry_count || '|' || coalesce(last_error, '') || '|' || coalesce(processed_at, '') || '|' || next_attempt_at from outbox_events where id = '{id}'"))
    };
    assert_eq!(row("u1"), "PENDING|1|no||1970-01-01 00:00:01.000000");
    assert!(row("u2").starts_with("PUBLISHED|0||1970-01-01 00:00:00.000000|"), "{}", row("u2"));
    relay.clock.advance(Duration::from_secs(1));
    let Claim { mut hold, entries, .. } = claim(&relay).await;
    assert_eq!((event_ids(&entries), entries[0].retries), (vec!["u1"], 1));
    let dead = Settlement::Dead { retries: 5, reason: Reason::new("never") };
    relay.source.settle(&mut hold, &[(0, dead)]).await.unwrap();
    assert!(row("u1").starts_with("FAILED|5|never|"), "{}", row("u1"));
}

/// D2: NULL in a nullable column never hides a row.
#[tokio::test]
async fn null_never_hides_a_row() {
    let table = Table::new(LOGISTICS_TABLE, Layout::built_in("logistics").unwrap());
    table.run(
        "insert into outbox_events (id, aggregate_type, aggregate_id, event_type, payload, occurred_at, retry_count, next_attempt_at)
         values ('u1', 'Order', 'o1', 'OrderCreated', '{}', '2026-01-01 00:00:01', null, null)",
    );
    let relay = Relay::open(&table.config);
    let claim = claim(&relay).await;
    assert_eq!((event_ids(&claim.entries), claim.entries[0].retries), (vec!["u1"], 0));
}

/// C1, C3: OrderService has no counters: attempts live in Postrider's own table, and outlive the relay.
#[tokio::test]
async fn what_the_table_has_no_column_for_lives_beside_it() {
    let table = Table::new(ORDER_SERVICE_TABLE, Layout::built_in("order-service").unwrap());
    table.run("insert into outbox values ('u1', 'Order', 'o1', 'OrderCreated', '{}', 'NEW', '2026-01-01 00:00:01', null, null)");
    let relay = Relay::open(&table.config);
    let Claim { mut hold, .. } = claim(&relay).await;
    relay.source.settle(&mut hold, &[(0, failed(3, Duration::from_millis(400)))]).await.unwrap();
    relay.source.release(hold).await.unwrap();
    assert_eq!(table.text("select status || '|' || error_message from outbox"), "NEW|no");
    let clock = relay.clock.clone();
    drop(relay);
    let relay = Relay::with_clock(&table.config, clock);
    assert!(
        matches!(relay.source.claim(&ask()).await.unwrap(), Claimed::Nothing(idle) if idle.due_in == Some(Duration::from_millis(400)))
    );
    relay.clock.advance(Duration::from_millis(400));
    assert_eq!(claim(&relay).await.entries[0].retries, 3);
}

/// A7: a claim writes the team's lock columns and bumps the version; a row that somebody else bumped is not completed.
#[tokio::test]
async fn a_moved_version_fences_the_claim() {
    let table = Table::new(STATUS_TABLE, full_status_layout(Order::None));
    table.run(
        "insert into full_letters (id, event_id, event_type, kind, subject, payload, created_at, status, version, max_retries)
         values (1, 'e1', 't', 'k', 's', '{}', 0, 'PENDING', null, 7), (2, 'e2', 't', 'k', 's', '{}', 0, 'PENDING', 4, null)",
    );
    let relay = Relay::open(&table.config);
    let Claim { mut hold, entries, .. } = claim(&relay).await;
    assert_eq!((entries[0].retries_max, entries[1].retries_max), (Some(7), None));
    let row = |id: u8| {
        table.text(&format!("select status || '|' || coalesce(locked_by, '') || '|' || coalesce(locked_at, '') || '|' || version from full_letters where id = {id}"))
    };
    assert_eq!(
        (row(1), row(2)),
        (
            "PROCESSING|relay|1970-01-01 09:00:00.000000|1".into(),
            "PROCESSING|relay|1970-01-01 09:00:00.000000|5".into()
        )
    );
    relay.source.settle(&mut hold, &[(0, Settlement::Published)]).await.unwrap();
    assert_eq!(row(1), "COMPLETED|||2");
    table.run("update full_letters set version = 6 where id = 2");
    assert!(relay.source.settle(&mut hold, &[(1, Settlement::Published)]).await.is_err());
    assert_eq!(row(2), "PROCESSING|relay|1970-01-01 09:00:00.000000|6");
}

/// A9: rows that another program left PROCESSING come back when their lock is old, and not before.
#[tokio::test]
async fn a_stalled_row_of_another_program_is_reaped_in_time() {
    let table = Table::new(STATUS_TABLE, full_status_layout(Order::None));
    table.run(
        "insert into full_letters (id, event_id, event_type, kind, subject, payload, created_at, status, locked_by, locked_at)
         values (1, 'e1', 't', 'k', 's', '{}', 0, 'PROCESSING', 'old', '1970-01-01 09:00:00')",
    );
    let relay = Relay::open(&table.config);
    assert!(matches!(relay.source.claim(&ask()).await.unwrap(), Claimed::Nothing(_)));
    let store = open_store(&table.config, std::sync::Arc::new(relay.clock.clone())).unwrap();
    assert_eq!(store.reap().await.unwrap(), 0);
    relay.clock.advance(Duration::from_secs(11));
    assert_eq!(store.reap().await.unwrap(), 1);
    assert_eq!(
        table.text("select status || coalesce(locked_by, '') || version from full_letters"),
        "PENDING1"
    );
    assert_eq!(event_ids(&claim(&relay).await.entries), ["e1"]);
}

/// Rows that were dead before Postrider came hold no key; those that die under it do.
#[tokio::test]
async fn the_dead_of_before_hold_no_key() {
    let table = Table::new(STATUS_TABLE, status_layout(Order::Key));
    table.run(
        "insert into letters (id, event_id, event_type, kind, subject, payload, created_at, status) values
         (1, 'e1', 't', 'k', 'a', '{}', '2026-01-01', 'FAILED'), (2, 'e2', 't', 'k', 'a', '{}', '2026-01-01', 'NEW'),
         (3, 'e3', 't', 'k', 'a', '{}', '2026-01-01', 'NEW')",
    );
    let relay = Relay::open(&table.config);
    let Claim { mut hold, entries, .. } = claim(&relay).await;
    assert_eq!(event_ids(&entries), ["e2", "e3"]);
    let dead = Settlement::Dead { retries: 0, reason: Reason::new("no") };
    relay.source.settle(&mut hold, &[(0, dead), (1, Settlement::Released)]).await.unwrap();
    assert!(matches!(relay.source.claim(&ask()).await.unwrap(), Claimed::Nothing(_)), "e3 is behind e2");
    let store = open_store(&table.config, std::sync::Arc::new(relay.clock.clone())).unwrap();
    assert_eq!(store.revive(&Filter { ids: vec![1.into()], ..Filter::default() }, false).await.unwrap(), 1);
    assert_eq!(relay.drain().await, ["e1"], "it stands before the dead one");
    assert_eq!(store.revive(&Filter::default(), false).await.unwrap(), 1);
    assert_eq!(relay.drain().await, ["e2", "e3"]);
}

/// E4: the key comes from the payload; a payload that is no JSON is that row's flaw alone.
#[tokio::test]
async fn a_key_comes_from_the_payload() {
    let mut layout = status_layout(Order::Key);
    layout.columns.key = Some(Column::Json(JsonPath::parse("$.account.id").unwrap()));
    let table = Table::new(STATUS_TABLE, layout);
    table.run(
        "insert into letters (id, event_id, event_type, kind, subject, payload, created_at, status) values
         (1, 'e1', 't', 'k', 's', '{\"account\":{\"id\":42}}', '2026-01-01', 'NEW'),
         (2, 'e2', 't', 'k', 's', '{', '2026-01-01', 'NEW')",
    );
    let relay = Relay::open(&table.config);
    let claim = claim(&relay).await;
    let keys: Vec<_> = claim.entries.iter().map(|entry| entry.key.as_ref().unwrap().to_string()).collect();
    assert_eq!(keys, ["42", "k/s"]);
    assert_eq!(claim.entries[0].envelope.partition_key.as_deref(), Some("42"));
}

/// SRC-08: whatever a row holds, it comes with its flaw and stops nothing.
#[tokio::test]
async fn every_broken_row_comes_with_its_flaw() {
    let table = Table::new(STATUS_TABLE, status_layout(Order::Key));
    table.run(
        "insert into letters (id, event_id, event_type, kind, subject, payload, created_at, status) values
         (1, 'e1', 't', 'k', 's1', null, '2026-01-01', 'NEW'), (2, 'e2', 't', null, 's2', '{}', '2026-01-01', 'NEW'),
         (3, 'e3', x'ff', 'k', 's3', '{}', '2026-01-01', 'NEW'), (4, 'e4', 't', 'k', 's4', '{}', 'yesterday', 'NEW'),
         (5, cast(x'ff41' as text), 't', 'k', 's5', '{}', '2026-01-01', 'NEW'), (6, 'e6', 't', 'k', 's6', '{}', '2026-01-01', 'NEW')",
    );
    let relay = Relay::open(&table.config);
    let claim = claim(&relay).await;
    let flaws: Vec<_> = claim
        .entries
        .iter()
        .map(|entry| entry.flaw.as_ref().map(|flaw| flaw.0.clone()).unwrap_or_default())
        .collect();
    let expected = [
        "column \"payload\" of table \"letters\" is NULL",
        "column \"kind\" of table \"letters\" is NULL",
        "column \"event_type\" of table \"letters\" holds bytes",
        "column \"created_at\" of table \"letters\" holds no time",
        "column \"event_id\" of table \"letters\" is not UTF-8",
        "",
    ];
    assert_eq!(flaws.len(), 6);
    for (flaw, expected) in flaws.iter().zip(expected) {
        assert!(flaw.contains(expected) && flaw.is_empty() == expected.is_empty(), "{expected} in {flaws:?}");
    }
}

/// D2, STO-01: rows whose status is NULL or none of the layout's words are counted, listed with the word, and revived when
/// they are asked for.
#[tokio::test]
async fn rows_of_an_unknown_status_are_within_reach() {
    let table =
        Table::new(&STATUS_TABLE.replace("status text not null", "status text"), status_layout(Order::Key));
    table.run(
        "insert into letters (id, event_id, event_type, kind, subject, payload, created_at, status) values
         (1, 'e1', 't', 'k', 's1', '{}', '2026-01-01', 'NWE'), (2, 'e2', 't', 'k', 's2', '{}', '2026-01-01', 'NEW'),
         (3, 'e3', 't', 'k', 's3', '{}', '2026-01-01', 'HELD')",
    );
    let relay = Relay::open(&table.config);
    let store = open_store(&table.config, std::sync::Arc::new(relay.clock.clone())).unwrap();
    assert_eq!((store.depth().await.unwrap().unknown, store.depth().await.unwrap().pending), (2, 1));
    let unknown = Filter { state: Some(postrider_core::State::Unknown), ..Filter::default() };
    let told = store.list(&unknown).await.unwrap();
    assert!(told[0].error.as_ref().unwrap().contains("its status is \"NWE\""), "{told:?}");
    assert_eq!(store.list(&Filter::default()).await.unwrap().len(), 3);
    assert_eq!(store.revive(&Filter::default(), false).await.unwrap(), 0, "none is dead");
    assert_eq!(
        store.bury(&Filter { ids: vec![3.into()], ..Filter::default() }, "no", false).await.unwrap(),
        1
    );
    assert_eq!(store.revive(&unknown, false).await.unwrap(), 1);
    assert_eq!(relay.drain().await, ["e1", "e2"]);
    assert_eq!((store.depth().await.unwrap().unknown, store.depth().await.unwrap().dead), (0, 1));
}

/// SRC-08: extensions that are no attributes, on the native table.
#[tokio::test]
async fn broken_extensions_are_a_flaw() {
    let file = outbox_file();
    let insert = "insert into outbox (type, aggregate_type, aggregate_id, extensions) values ";
    let connection = Connection::open(file.path()).unwrap();
    for extensions in
        ["'{\"tenant\":\"acme\",\"n\":7}'", "'[1]'", "'{'", "'{\"Tenant\":\"x\"}'", "'{\"a\":{}}'", "null"]
    {
        connection.execute_batch(&format!("{insert} ('a.b.c.v1', 'Order', '1', {extensions})")).unwrap();
    }
    let relay = Relay::open(&Config::new(file.path(), native(), "relay"));
    let claim = claim(&relay).await;
    let flawed: Vec<bool> = claim.entries.iter().map(|entry| entry.flaw.is_some()).collect();
    assert_eq!(flawed, [false, true, true, true, true, false]);
    assert_eq!(claim.entries[0].envelope.extensions.len(), 2);
}

/// F1: published rows are deleted where the layout says so, and what is kept beside them with them.
#[tokio::test]
async fn published_may_mean_deleted() {
    let mut layout = status_layout(Order::Key);
    layout.published = Published::Delete;
    layout.status.as_mut().unwrap().published = None;
    let table = Table::new(STATUS_TABLE, layout);
    table.run(
        "insert into letters (id, event_id, event_type, kind, subject, payload, created_at, status) values
         (1, 'e1', 't', 'k', 'a', '{}', '2026-01-01', 'NEW'), (2, 'e2', 't', 'k', 'b', '{}', '2026-01-01', 'NEW')",
    );
    let relay = Relay::open(&table.config);
    let Claim { mut hold, .. } = claim(&relay).await;
    relay
        .source
        .settle(&mut hold, &[(0, Settlement::Published), (1, failed(1, Duration::ZERO))])
        .await
        .unwrap();
    assert_eq!(table.text("select group_concat(event_id) from letters"), "e2");
    assert_eq!(table.text("select group_concat(entry) from postrider_entries"), "2");
    let store = open_store(&table.config, std::sync::Arc::new(relay.clock.clone())).unwrap();
    let depth = store.depth().await.unwrap();
    assert_eq!((depth.pending, depth.published), (1, 0));
}

/// SRC-01, SRC-04: small claims walk on through a table that is ordered by time, over rows that have none.
#[tokio::test]
async fn a_scan_goes_on_where_it_stopped() {
    for entries_max in [1, 2, 3, 7] {
        let layout = Layout { order: Order::Key, ..Layout::built_in("order-service").unwrap() };
        let nullable = ORDER_SERVICE_TABLE.replace("created_at timestamp not null", "created_at timestamp");
        let table = Table::new(&nullable, layout);
        table.run(
            "with recursive n(i) as (select 0 union all select i + 1 from n where i < 29)
             insert into outbox select printf('u%02d', 29 - i), 'Order', i % 3, 'OrderCreated', '{}', 'NEW',
             case when i < 5 then null else printf('2026-01-01 00:00:%02d', i / 2) end, null, null from n",
        );
        let relay = Relay::open(&table.config);
        let (mut came, mut claims) = (Vec::new(), Vec::new());
        while let Claimed::Batch(claim) =
            relay.source.claim(&postrider_core::source::Ask { entries_max, ..ask() }).await.unwrap()
        {
            came.extend(claim.entries.iter().map(|entry| entry.id.to_string()));
            claims.push(claim);
        }
        let expected: Vec<String> = {
            let connection = Connection::open(table.file.path()).unwrap();
            let mut rows = connection.prepare("select id from outbox order by created_at, id").unwrap();
            rows.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
        };
        assert_eq!(came, expected, "{entries_max} at a time");
        let store = open_store(&table.config, std::sync::Arc::new(relay.clock.clone())).unwrap();
        assert_eq!(store.depth().await.unwrap().leased, 30);
    }
}
