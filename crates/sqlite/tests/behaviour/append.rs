//! Appending inside the caller's own transaction, from Rust and by plain SQL.

use crate::common::{Relay, envelope, native, outbox_file};
use postrider_core::{EntryId, Layout};
use postrider_sqlite::{AppendError, Config, Outbox, migrate, migration_sql};
use rusqlite::Connection;

fn count(connection: &Connection) -> i64 {
    connection.query_row("select count(*) from outbox", [], |row| row.get(0)).unwrap()
}

/// F9: the event is there if and only if the caller's transaction commits.
#[test]
fn an_append_lives_and_dies_with_the_callers_transaction() {
    let file = outbox_file();
    let outbox = Outbox::new(&native()).unwrap();
    let mut connection = Connection::open(file.path()).unwrap();
    let transaction = connection.transaction().unwrap();
    outbox.append(&transaction, &envelope(1)).unwrap();
    transaction.rollback().unwrap();
    assert_eq!(count(&connection), 0);
    let transaction = connection.transaction().unwrap();
    let appended = outbox.append(&transaction, &envelope(2)).unwrap();
    transaction.commit().unwrap();
    assert_eq!((count(&connection), appended.id, appended.repeated), (1, EntryId::Int(1), false));
}

/// A2: the same idempotency key twice writes one event, and both callers learn which.
#[test]
fn a_repeated_idempotency_key_is_a_no_op_that_says_so() {
    let file = outbox_file();
    let outbox = Outbox::new(&native()).unwrap();
    let mut connection = Connection::open(file.path()).unwrap();
    let transaction = connection.transaction().unwrap();
    let first = outbox.append_once(&transaction, &envelope(1), "request-1").unwrap();
    let again = outbox.append_once(&transaction, &envelope(2), "request-1").unwrap();
    let other = outbox.append_once(&transaction, &envelope(3), "request-2").unwrap();
    transaction.commit().unwrap();
    assert!(!first.repeated && again.repeated && !other.repeated);
    assert_eq!((&again.id, &again.event_id), (&first.id, &first.event_id));
    assert_eq!(count(&connection), 2);
    let refused = outbox.append_once(&connection, &envelope(4), "request-3").unwrap_err();
    assert!(
        matches!(refused, AppendError::Refused(fault) if fault.problem.contains("without a transaction"))
    );
}

/// Any number of events is a handful of statements, in order.
#[test]
fn many_events_keep_their_order() {
    let file = outbox_file();
    let outbox = Outbox::new(&native()).unwrap();
    let mut connection = Connection::open(file.path()).unwrap();
    for many in [0, 1, 3, 255, 256, 700] {
        let before = count(&connection);
        let envelopes: Vec<_> = (0..many).map(envelope).collect();
        let transaction = connection.transaction().unwrap();
        let appended = outbox.append_all(&transaction, &envelopes).unwrap();
        transaction.commit().unwrap();
        let ids: Vec<_> = appended.iter().map(|appended| appended.id.int().unwrap()).collect();
        assert_eq!(ids, (before + 1..=before + i64::from(many)).collect::<Vec<_>>());
        let written: Vec<String> = connection
            .prepare("select event_id from outbox where id > ?1 order by id")
            .unwrap()
            .query_map([before], |row| row.get(0))
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert_eq!(written, envelopes.iter().map(|envelope| envelope.id.to_string()).collect::<Vec<_>>());
    }
}

/// F5: what the table cannot keep is refused before anything is written, and the remedy is told.
#[test]
fn what_the_outbox_cannot_keep_is_refused() {
    let outbox = Outbox::new(&native()).unwrap().payload_bytes_max(20);
    let connection = Connection::open_in_memory().unwrap();
    let refused =
        |envelope: &postrider_core::Envelope, outbox: &Outbox| match outbox.append(&connection, envelope) {
            Err(AppendError::Refused(fault)) => fault.to_string(),
            other => panic!("{other:?}"),
        };
    let mut large = envelope(1);
    large.data = format!("\"{}\"", "x".repeat(30)).into();
    assert!(refused(&large, &outbox).contains("the limit is 20"));
    let mut no_json = envelope(1);
    no_json.data = "{".into();
    assert!(refused(&no_json, &outbox).contains("not JSON"));
    let mut named = envelope(1);
    named.event_type = "OrderCreated".into();
    assert!(refused(&named, &outbox).contains("company.domain.action.v1"));
    let mut extended = envelope(1);
    extended.extensions.insert("tenant".into(), "acme".into());
    let logistics = Outbox::new(&Layout::built_in("logistics").unwrap()).unwrap();
    assert!(refused(&extended, &logistics).contains("map columns.extensions"));
}

/// F9: from any language by plain SQL, with defaults for whatever a script does not care about.
#[test]
fn plain_sql_needs_four_columns() {
    let file = outbox_file();
    let connection = Connection::open(file.path()).unwrap();
    connection
        .execute_batch(
            "insert into outbox (type, aggregate_type, aggregate_id, payload)
             values ('shop.order.created.v1', 'Order', '7', '{\"order\":7}'), ('shop.order.created.v1', 'Order', '8', '{}')",
        )
        .unwrap();
    let (id, time, source): (String, i64, String) = connection
        .query_row("select event_id, time, source from outbox where id = 1", [], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .unwrap();
    assert_eq!((id.len(), id.matches('-').count(), source.as_str()), (36, 4, "/outbox"));
    let now: i64 = connection.query_row("select unixepoch() * 1000000", [], |row| row.get(0)).unwrap();
    assert!((now - time).abs() < 60_000_000, "{time} is about now");
    let distinct: i64 =
        connection.query_row("select count(distinct event_id) from outbox", [], |row| row.get(0)).unwrap();
    assert_eq!(distinct, 2);
}

/// A status table whose rows have no event id but their own.
fn plain_layout() -> Layout {
    let text = r#"
        name = "plain"
        table = "letters"
        way = "lease"
        [columns]
        id = "id"
        type = "event_type"
        source = { constant = "/shop" }
        aggregate_type = "kind"
        aggregate_id = "subject"
        payload = "payload"
        time = "created_at"
        status = "status"
        [status]
        pending = "NEW"
        published = "SENT"
        dead = "FAILED"
    "#;
    Layout::parse("plain.toml", text.as_bytes()).unwrap()
}

fn plain_file(id: &str) -> (tempfile::NamedTempFile, Config) {
    let file = tempfile::NamedTempFile::new().unwrap();
    let table = format!(
        "create table letters ({id}, event_type text, kind text, subject text, payload text, created_at text, status text)"
    );
    Connection::open(file.path()).unwrap().execute_batch(&table).unwrap();
    let config = Config::new(file.path(), plain_layout(), "test");
    migrate(&config).unwrap();
    (file, config)
}

/// F1: where a table counts and has no column for the event's id, the row's id is the event's, and the writer learns it.
#[tokio::test]
async fn a_table_that_counts_gives_the_event_its_id() {
    use sqlx_core::connection::ConnectOptions;
    let (file, config) = plain_file("id integer primary key");
    let outbox = Outbox::new(&config.layout).unwrap();
    let mut connection = Connection::open(file.path()).unwrap();
    let transaction = connection.transaction().unwrap();
    let one = outbox.append(&transaction, &envelope(1)).unwrap();
    let more = outbox.append_all(&transaction, &[envelope(2), envelope(3)]).unwrap();
    let once = outbox.append_once(&transaction, &envelope(4), "request-1").unwrap();
    let again = outbox.append_once(&transaction, &envelope(5), "request-1").unwrap();
    transaction.commit().unwrap();
    assert_eq!((one.id, &*one.event_id), (EntryId::Int(1), "1"));
    assert_eq!(more.iter().map(|appended| &*appended.event_id).collect::<Vec<_>>(), ["2", "3"]);
    assert_eq!((&*once.event_id, &*again.event_id, again.repeated), ("4", "4", true));
    let options = sqlx_sqlite::SqliteConnectOptions::new().filename(file.path());
    let mut connection = options.connect().await.unwrap();
    let fresh = Outbox::new(&config.layout).unwrap();
    assert_eq!(&*fresh.append_sqlx(&mut connection, &envelope(6)).await.unwrap().event_id, "5");
    assert_eq!(Relay::open(&config).drain().await, ["1", "2", "3", "4", "5"]);
}

/// The same table with ids that are text keeps the event's own.
#[test]
fn a_table_that_does_not_count_keeps_the_events_id() {
    let (file, config) = plain_file("id text primary key");
    let connection = Connection::open(file.path()).unwrap();
    let appended = Outbox::new(&config.layout).unwrap().append(&connection, &envelope(1)).unwrap();
    assert_eq!((appended.id, &*appended.event_id), (EntryId::Text("event-1".into()), "event-1"));
}

/// F5: numbers that nobody hands out are refused, not filled with something else.
#[test]
fn numbers_that_the_table_does_not_hand_out_are_refused() {
    let (file, config) = plain_file("id bigint primary key");
    let connection = Connection::open(file.path()).unwrap();
    match Outbox::new(&config.layout).unwrap().append(&connection, &envelope(1)) {
        Err(AppendError::Refused(fault)) => assert!(fault.remedy.contains("columns.event_id"), "{fault}"),
        other => panic!("{other:?}"),
    }
}

/// F9: the same inside an sqlx transaction.
#[tokio::test]
async fn an_sqlx_transaction_appends_as_well() {
    use sqlx_core::connection::{ConnectOptions, Connection as _};
    let file = outbox_file();
    let outbox = Outbox::new(&native()).unwrap();
    let options = sqlx_sqlite::SqliteConnectOptions::new().filename(file.path());
    let mut connection = options.connect().await.unwrap();
    let mut transaction = connection.begin().await.unwrap();
    outbox.append_sqlx(&mut transaction, &envelope(1)).await.unwrap();
    transaction.rollback().await.unwrap();
    let mut transaction = connection.begin().await.unwrap();
    let first = outbox.append_once_sqlx(&mut transaction, &envelope(2), "request").await.unwrap();
    let again = outbox.append_once_sqlx(&mut transaction, &envelope(3), "request").await.unwrap();
    let many: Vec<_> = (4..9).map(envelope).collect();
    let appended = outbox.append_all_sqlx(&mut transaction, &many).await.unwrap();
    transaction.commit().await.unwrap();
    assert!(again.repeated && again.id == first.id && again.event_id == first.event_id);
    assert_eq!(appended.iter().map(|a| a.id.int().unwrap()).collect::<Vec<_>>(), [2, 3, 4, 5, 6]);
    let connection = Connection::open(file.path()).unwrap();
    assert_eq!(count(&connection), 6);
    let kind: String =
        connection.query_row("select typeof(payload) from outbox limit 1", [], |row| row.get(0)).unwrap();
    assert_eq!(kind, "text");
}

/// A file is created by `migrate` alone; run twice it changes nothing; what it prints is what it runs.
#[test]
fn migrate_creates_once_and_prints_what_it_runs() {
    let folder = tempfile::tempdir().unwrap();
    let config = Config::new(folder.path().join("new.db"), native(), "test");
    assert_eq!(migrate(&config).unwrap().len(), 3);
    assert!(migrate(&config).unwrap().is_empty());
    let printed = Connection::open_in_memory().unwrap();
    printed.execute_batch(&migration_sql(&config)).unwrap();
    let tables = |connection: &Connection| -> Vec<String> {
        let sql = "select sql from sqlite_schema where sql is not null order by name";
        connection
            .prepare(sql)
            .unwrap()
            .query_map([], |row| row.get(0))
            .unwrap()
            .map(Result::unwrap)
            .collect()
    };
    assert_eq!(tables(&Connection::open(&config.path).unwrap()), tables(&printed));
}

/// F5: the table of an adopted layout is the application's to create.
#[test]
fn migrate_names_a_missing_table() {
    let folder = tempfile::tempdir().unwrap();
    let layout = Layout::built_in("order-service").unwrap();
    let fault = migrate(&Config::new(folder.path().join("new.db"), layout, "test")).unwrap_err();
    assert!(
        fault.problem.contains("table \"outbox\" is missing") && fault.remedy.contains("own migrations"),
        "{fault}"
    );
}
