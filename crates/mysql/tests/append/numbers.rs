//! Numbers that the append gives, in the writer's transaction (E4).

use mysql_async::prelude::Queryable;
use postrider_core::layout::Numbers;
use postrider_core::{Envelope, Layout};

use crate::world::{Driver, End, World, plain};

/// The ledger's table, as the team has it.
pub(crate) const LEDGER: &str = "create table outbox_event (
    id bigint auto_increment primary key, aggregate_type varchar(50) not null, aggregate_id bigint not null,
    event_type varchar(100) not null, payload json not null, status varchar(20) not null default 'PENDING',
    retry_count int not null default 0, created_at datetime(6) not null, processed_at datetime(6) null,
    index idx_outbox_status_created (status, created_at))";

fn numbered() -> Layout {
    Layout { numbers: Numbers::Append, ..Layout::built_in("ledger").unwrap() }
}

fn posted(transaction: u32, account: u32) -> Envelope {
    Envelope {
        event_type: "LEDGER_POSTED".into(),
        aggregate_type: "TRANSACTION".into(),
        aggregate_id: transaction.to_string().into(),
        data: format!("{{\"accountId\": {account}, \"amount\": 5}}").into(),
        ..plain(transaction)
    }
}

const NUMBERS: &str = "select concat(json_extract(payload, '$.accountId'), ' ', json_extract(payload, '$.sequenceNumber')) \
    from outbox_event order by id";

/// E4: the account is taken from the payload; each account's numbers count from 1, by every driver, alone and many at once.
#[tokio::test]
async fn numbers_count_within_the_account() {
    for world in World::of(&numbered(), LEDGER) {
        world.migrate().await;
        for driver in Driver::ALL {
            let appended = world
                .append(driver, &[posted(1, 3), posted(2, 3), posted(3, 4), posted(4, 3)], End::Commit)
                .await;
            assert_eq!(appended.len(), 4);
            assert_eq!(world.texts(NUMBERS), ["3 1", "3 2", "4 1", "3 3"], "{driver:?}");
            let once = world.append_once(driver, &posted(5, 4), "k").await;
            assert!(!once.repeated);
            assert!(world.append_once(driver, &posted(6, 4), "k").await.repeated, "it takes no number");
            world.append(driver, &[posted(7, 4)], End::Commit).await;
            assert_eq!(world.texts(NUMBERS)[4..], ["4 2", "4 3"], "{driver:?}");
            world.database.query(
                "delete from outbox_event; delete from postrider_sequences; delete from postrider_idempotency",
            );
        }
    }
}

/// E4: without gaps or duplicates, whatever is rolled back and however many write at once; ids are in the same order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_have_no_gaps_and_no_duplicates() {
    const WRITERS: u32 = 6;
    const EACH: u32 = 12;
    for world in World::of(&numbered(), LEDGER) {
        world.migrate().await;
        let mut writers = Vec::new();
        for writer in 0..WRITERS {
            let (mut conn, outbox) = (world.conn().await, world.outbox.clone());
            writers.push(tokio::spawn(async move {
                let mut n = 0;
                while n < EACH {
                    conn.query_drop("begin").await.unwrap();
                    // Whoever gives way in a deadlock begins anew, as the server asks for.
                    let appended = outbox.append(&mut conn, &posted(writer * 100 + n, 3)).await;
                    let end = if appended.is_err() || n % 3 == 0 { "rollback" } else { "commit" };
                    conn.query_drop(end).await.unwrap();
                    n += u32::from(appended.is_ok());
                }
            }));
        }
        for writer in writers {
            writer.await.unwrap();
        }
        let count = WRITERS * EACH / 3 * 2;
        let expected: Vec<String> = (1..=count).map(|number| format!("3 {number}")).collect();
        assert_eq!(world.texts(NUMBERS), expected);
    }
}

/// E4, F5: a number of the writer's own, and an event without an account, are refused where the append gives numbers.
#[tokio::test]
async fn what_cannot_be_numbered_is_refused() {
    for world in World::of(&numbered(), LEDGER) {
        world.migrate().await;
        let mut conn = world.conn().await;
        let own = Envelope { sequence: Some(7), ..posted(1, 3) };
        let said = world.outbox.append(&mut conn, &own).await.unwrap_err().to_string();
        assert!(said.contains("the append gives the numbers"), "{said}");
        let own = Envelope { data: "{\"accountId\": 3, \"sequenceNumber\": 9}".into(), ..posted(1, 3) };
        let refused = world.outbox.append(&mut conn, &own).await.unwrap_err();
        let postrider_mysql::AppendError::Database(error) = refused else { panic!("{refused:?}") };
        let hint = postrider_mysql::hint(&error).unwrap().to_string();
        assert!(hint.contains("a number already"), "{hint}");
        assert_eq!(world.value("select count(*) from outbox_event"), "0");
        assert_eq!(world.value("select count(*) from postrider_sequences"), "0");
    }
}

/// E4: a table with a column for the number; the key is the aggregate.
#[tokio::test]
async fn a_column_for_the_number_is_filled() {
    let mut layout = Layout::built_in("native").unwrap();
    layout.numbers = Numbers::Append;
    for world in World::of(&layout, "select 1") {
        world.migrate().await;
        world.append(Driver::MysqlAsync, &[plain(1), plain(2)], End::Commit).await;
        world.append(Driver::Sqlx, &[Envelope { aggregate_id: "8".into(), ..plain(3) }], End::Commit).await;
        world.append(Driver::SeaOrm, &[plain(4)], End::Commit).await;
        let stored = world.texts("select concat(aggregate_id, ' ', sequence) from outbox order by id");
        assert_eq!(stored, ["4711 1", "4711 2", "8 1", "4711 3"]);
    }
}
