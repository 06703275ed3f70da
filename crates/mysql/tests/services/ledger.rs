//! E1, E2 and E4 on the producing side: one event per success, none per failed try.

use std::sync::Arc;

use postrider_core::Layout;
use postrider_core::layout::Numbers;
use postrider_servers::MysqlDatabase;
use tokio::sync::Barrier;

use crate::ledger_service::{Command, Refused, Service, TABLES};
use crate::{databases, texts, value};

async fn worlds(layout: &Layout) -> Vec<(MysqlDatabase, Service)> {
    let databases = databases(layout, TABLES).await;
    databases
        .into_iter()
        .map(|database| {
            let service = Service::new(database.url(), layout);
            (database, service)
        })
        .collect()
}

fn deposit(transaction: i64) -> Command {
    Command { transaction, account: 1, amount: 5, reverses: None }
}

/// Transactions, journal entries, balance, events.
fn state(database: &MysqlDatabase) -> String {
    value(
        database,
        "select concat_ws(' ', (select count(*) from ledger_transaction), (select count(*) from journal_entry), \
         (select balance from account_balance where account_id = 1), (select count(*) from outbox_event))",
    )
}

const EVENTS: &str = "select concat_ws('|', aggregate_type, aggregate_id, event_type, json_extract(payload, '$.transactionId'), \
    json_extract(payload, '$.accountId'), json_extract(payload, '$.amount'), status, retry_count) from outbox_event order by id";

/// E1: a deposit writes transaction, journal entries, balance and event together; a reversal has its own type and the id of
/// what it takes back.
#[tokio::test]
async fn e1_a_deposit_is_written_with_its_event() {
    for (database, service) in worlds(&Layout::built_in("ledger").unwrap()).await {
        assert_eq!(service.post(deposit(7), None).await, Ok(0));
        assert_eq!(state(&database), "1 2 5 1");
        assert_eq!(value(&database, "select sum(amount) from journal_entry"), "0", "both sides");
        let reversal = Command { transaction: 8, account: 1, amount: -5, reverses: Some(7) };
        assert_eq!(service.post(reversal, None).await, Ok(0));
        assert_eq!(state(&database), "2 4 0 2");
        assert_eq!(
            texts(&database, EVENTS),
            ["TRANSACTION|7|LEDGER_POSTED|7|1|5|PENDING|0", "TRANSACTION|7|LEDGER_REVERSED|8|1|-5|PENDING|0"]
        );
    }
}

/// E1: whichever write fails, nothing is there.
#[tokio::test]
async fn e1_any_failure_rolls_back_all() {
    for (database, service) in worlds(&Layout::built_in("ledger").unwrap()).await {
        for table in ["ledger_transaction", "journal_entry", "outbox_event", "account_balance"] {
            let event = if table == "account_balance" { "update" } else { "insert" };
            database.query(&format!(
                "create trigger broken before {event} on {table} for each row signal sqlstate '45000'"
            ));
            let failed = service.post(deposit(7), None).await;
            assert!(matches!(failed, Err(Refused::Database(_))), "{table}: {failed:?}");
            database.query("drop trigger broken");
            assert_eq!(state(&database), "0 0 0 0", "{table}");
        }
        assert_eq!(service.post(deposit(7), None).await, Ok(0));
        assert_eq!(state(&database), "1 2 5 1");
    }
}

/// E2: several writers with real conflicts: each deposit succeeds in the end, with one event; a failed try leaves none. E4:
/// where the append gives numbers, conflicts leave neither gaps nor duplicates.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e2_a_conflict_rolls_back_its_event() {
    const WRITERS: i64 = 5;
    const EACH: i64 = 8;
    for numbers in [Numbers::Writer, Numbers::Append] {
        let layout = Layout { numbers, ..Layout::built_in("ledger").unwrap() };
        for (database, service) in worlds(&layout).await {
            let meeting = Arc::new(Barrier::new(usize::try_from(WRITERS).unwrap()));
            let writers: Vec<_> = (0..WRITERS)
                .map(|writer| {
                    let (service, meeting) = (service.clone(), Arc::clone(&meeting));
                    tokio::spawn(async move {
                        let mut conflicts = 0;
                        for n in 0..EACH {
                            // All have read the same version before any of them writes.
                            let meeting = Arc::clone(&meeting);
                            let posted = service.post(deposit(writer * 100 + n + 1), Some(meeting)).await;
                            conflicts += posted.unwrap();
                        }
                        conflicts
                    })
                })
                .collect();
            let mut conflicts = 0;
            for writer in writers {
                conflicts += writer.await.unwrap();
            }
            assert!(
                i64::from(conflicts) >= (WRITERS - 1) * EACH,
                "{conflicts} conflicts are too few: all but one of each meeting"
            );
            let count = WRITERS * EACH;
            assert_eq!(state(&database), format!("{count} {} {} {count}", 2 * count, 5 * count));
            let once = "select count(distinct aggregate_id) from outbox_event";
            assert_eq!(value(&database, once), count.to_string(), "one event per success");
            let all = "select count(*) from outbox_event as e join ledger_transaction as t on t.id = e.aggregate_id";
            assert_eq!(value(&database, all), count.to_string(), "none per failed try");
            if numbers == Numbers::Append {
                let given = texts(
                    &database,
                    "select json_extract(payload, '$.sequenceNumber') from outbox_event order by id",
                );
                assert_eq!(given, (1..=count).map(|number| number.to_string()).collect::<Vec<_>>());
            }
        }
    }
}
