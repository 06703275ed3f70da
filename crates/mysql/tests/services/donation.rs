//! A1–A3: what the service's transactions promise, one assertion per clause.

use std::time::Duration;

use postrider_core::Layout;
use postrider_core::rows::content_hash;
use postrider_servers::MysqlDatabase;

use crate::donation_service::{Donation, Refused, Service, TABLES, coffee};
use crate::{databases, texts, value};

async fn worlds() -> Vec<(MysqlDatabase, Service)> {
    let databases = databases(&Layout::built_in("donation").unwrap(), TABLES).await;
    databases
        .into_iter()
        .map(|database| {
            let service = Service::new(database.url());
            (database, service)
        })
        .collect()
}

/// Points of guest and admin, rows of history and outbox.
fn state(database: &MysqlDatabase) -> String {
    value(
        database,
        "select concat_ws(' ', (select point from member where uuid = 'guest'), (select sum(point) from member where uuid = 'admin'), \
         (select count(*) from donation_history), (select count(*) from donation_outbox))",
    )
}

const UNTOUCHED: &str = "100 0 0 0";

/// A1: debit, credit, history and event are there together; A4: the hash is the writer's.
#[tokio::test]
async fn a1_one_transaction_writes_all() {
    for (database, service) in worlds().await {
        service.send(coffee("r-1")).await.unwrap();
        assert_eq!(state(&database), "97 3 1 1");
        let history =
            "select concat_ws('|', request_id, guest_uuid, admin_fingerprint, amount) from donation_history";
        assert_eq!(texts(&database, history), ["r-1|guest|fp|3"]);
        let event = "select concat_ws('|', request_id, event_type, payload, content_hash, status) from donation_outbox";
        let payload = "{\"guest\": \"guest\", \"amount\": 3}";
        let hash = content_hash("r-1", "DONATION_COMPLETED", payload.as_bytes());
        assert_eq!(texts(&database, event), [format!("r-1|DONATION_COMPLETED|{payload}|{hash}|PENDING")]);
    }
}

/// A1: whichever write fails, all of them are rolled back.
#[tokio::test]
async fn a1_any_failure_rolls_back_all() {
    for (database, service) in worlds().await {
        for (breaks, mends) in [
            ("rename table donation_history to away", "rename table away to donation_history"),
            ("rename table donation_outbox to away", "rename table away to donation_outbox"),
            (
                "create trigger broken before insert on donation_outbox for each row signal sqlstate '45000'",
                "drop trigger broken",
            ),
            (
                "create trigger broken before insert on donation_history for each row signal sqlstate '45000'",
                "drop trigger broken",
            ),
        ] {
            database.query(breaks);
            let failed = service.send(coffee("r-1")).await;
            assert!(matches!(failed, Err(Refused::Database(_))), "{breaks}: {failed:?}");
            database.query(mends);
            assert_eq!(state(&database), UNTOUCHED, "{breaks}");
        }
        service.send(coffee("r-1")).await.unwrap();
        assert_eq!(state(&database), "97 3 1 1", "and the request can be made again");
    }
}

/// A1: an amount over zero, enough points, and each update hits exactly one row.
#[tokio::test]
async fn a1_what_must_not_be_is_refused() {
    for (database, service) in worlds().await {
        for amount in [0, -1] {
            let refused = service.send(Donation { amount, ..coffee("r-1") }).await;
            assert_eq!(refused, Err(Refused::NoAmount));
        }
        assert_eq!(service.send(Donation { amount: 101, ..coffee("r-1") }).await, Err(Refused::NotEnough));
        assert_eq!(
            service.send(Donation { guest: "nobody", ..coffee("r-1") }).await,
            Err(Refused::NotEnough)
        );
        database.query("insert into member values ('twin', 'fp', 0)");
        assert_eq!(service.send(coffee("r-1")).await, Err(Refused::NoAdmin), "two rows are not one");
        database.query("delete from member where uuid = 'twin'");
        assert_eq!(state(&database), UNTOUCHED);
        service.send(Donation { amount: 100, ..coffee("r-1") }).await.unwrap();
        assert_eq!(state(&database), "0 100 1 1", "all that there is");
    }
}

/// A2: the same request twice moves points once, writes one event, and both callers get success.
#[tokio::test]
async fn a2_a_repeated_request_moves_points_once() {
    for (database, service) in worlds().await {
        service.send(coffee("r-1")).await.unwrap();
        service.send(coffee("r-1")).await.unwrap();
        assert_eq!(state(&database), "97 3 1 1");
        service.send(coffee("r-2")).await.unwrap();
        assert_eq!(state(&database), "94 6 2 2");
    }
}

/// A2: the same at the same time, with the guest's lock and, where somebody left it out, by the unique keys alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a2_the_same_request_at_the_same_time_moves_points_once() {
    for locking in [true, false] {
        for (database, mut service) in worlds().await {
            service.locking = locking;
            let senders: Vec<_> = (0..6)
                .map(|_| {
                    let service = service.clone();
                    tokio::spawn(async move {
                        // Whoever is chosen to give way in a deadlock tries again, as the team's service does.
                        loop {
                            match service.send(coffee("r-1")).await {
                                Err(Refused::Database(error)) if error.contains("1213") => {}
                                sent => return sent,
                            }
                        }
                    })
                })
                .collect();
            for sender in senders {
                assert_eq!(sender.await.unwrap(), Ok(()), "locking: {locking}");
            }
            assert_eq!(state(&database), "97 3 1 1", "locking: {locking}");
        }
    }
}

/// A3: requests of one guest go one after the other across instances; another guest's do not wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a3_a_guests_requests_go_one_after_the_other() {
    for (database, service) in worlds().await {
        let mut conn = service.connect().await;
        let ttl = Duration::from_secs(10);
        let held = service.locks.take(&mut conn, "guest:guest", "elsewhere", ttl).await.unwrap().unwrap();
        let waiting = tokio::spawn({
            let service = service.clone();
            async move { service.send(coffee("r-1")).await }
        });
        service.send(Donation { guest: "other", ..coffee("r-2") }).await.unwrap();
        assert_eq!(state(&database), "100 3 1 1", "the other guest's alone");
        assert!(!waiting.is_finished());
        assert!(service.locks.release(&mut conn, &held).await.unwrap());
        waiting.await.unwrap().unwrap();
        assert_eq!(state(&database), "97 6 2 2");
    }
}

/// A3: taken before BEGIN and released after COMMIT: whoever has it sees what the last holder wrote; it expires, and a holder
/// that was taken over writes nothing.
#[tokio::test]
async fn a3_a_holder_that_was_taken_over_writes_nothing() {
    for (database, service) in worlds().await {
        let mut stalled = service.connect().await;
        let ttl = Duration::from_secs(10);
        let held = service.locks.take(&mut stalled, "guest:guest", "stalled", ttl).await.unwrap().unwrap();
        database.query("update clock set at = at + interval 10 second");
        service.send(coffee("r-1")).await.unwrap();
        assert_eq!(state(&database), "97 3 1 1", "it has expired");
        let late = service.transfer(&mut stalled, &coffee("r-2"), Some(&held)).await;
        assert_eq!(late, Err(Refused::LostLock));
        assert_eq!(state(&database), "97 3 1 1", "fenced off");
        let fence = value(&database, "select fence from postrider_locks where name = 'guest:guest'");
        assert!(fence.parse::<i64>().unwrap() > held.fence);
        let free = "select expires_at <= (select at from clock) from postrider_locks";
        assert_eq!(value(&database, free), "1", "released after COMMIT");
    }
}

/// A3: an unknown admin fingerprint is refused before anything is written.
#[tokio::test]
async fn a3_an_unknown_admin_is_refused_before_anything_is_written() {
    for (database, service) in worlds().await {
        let refused = service.send(Donation { admin: "nobody", ..coffee("r-1") }).await;
        assert_eq!(refused, Err(Refused::UnknownAdmin));
        assert_eq!(state(&database), UNTOUCHED);
        assert_eq!(value(&database, "select count(*) from postrider_locks"), "0", "not even a lock");
    }
}
