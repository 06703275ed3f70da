//! D7: the relay as a task inside the service, the same engine as the binary's.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::disallowed_methods, reason = "a service has the real clock")]

mod kafka;
mod wait;

use std::sync::Arc;

use postrider::file::{FileConfig, FileSink};
use postrider::postgres::{Config, Outbox, migrate, open_source};
use postrider::relay::{Relay, Stop, SystemClock};
use postrider::{Draft, Layout, Timestamp, chance};
use postrider_servers::Database;
use tokio_postgres::NoTls;
use wait::until;

#[derive(postrider::Event, serde::Serialize)]
#[event(aggregate = "Shipment", key = "id")]
#[serde(untagged)]
enum ShipmentEvent {
    #[event(type = "shop.shipment.sent.v1")]
    Sent { id: u32 },
}

/// D7, F4: a service appends in its own transaction, a task of the same service relays, and a stop leaves nothing behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_of_the_service_relays_what_the_service_appends() {
    let (database, folder) = (Database::create().await, tempfile::tempdir().unwrap());
    let native = Layout::built_in("native").unwrap();
    let config = Config::new(&database.url(), native.clone(), "shop-1").unwrap();
    migrate(&config).await.unwrap();

    let file = folder.path().join("events.jsonl");
    let sink = FileSink::open(FileConfig::new(&file), Arc::new(SystemClock::new())).unwrap();
    let source = open_source(&config).await.unwrap();
    let relay = Relay::builder(source, &native).sink("file", Arc::new(sink)).build().unwrap();
    let stop = Stop::new();
    let task = tokio::spawn({
        let stop = stop.clone();
        async move { relay.run(&stop).await }
    });

    let (mut client, connection) = tokio_postgres::connect(&database.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute("create table shipments (id int primary key)").await.unwrap();
    let outbox = Outbox::new(&native).unwrap();
    for id in 0..20 {
        let transaction = client.transaction().await.unwrap();
        transaction
            .execute("insert into shipments (id) values ($1)", &[&i32::try_from(id).unwrap()])
            .await
            .unwrap();
        let sent = ShipmentEvent::Sent { id };
        let envelope = Draft::new(&sent, "/shop").seal(Timestamp::now(), chance()).unwrap();
        outbox.append(&transaction, &envelope).await.unwrap();
        if id % 5 == 4 { transaction.rollback().await } else { transaction.commit().await }.unwrap();
    }
    until("every committed event", || lines(&file) == 16).await;
    stop.stop();
    let summary = task.await.unwrap().unwrap();
    assert_eq!((summary.published, summary.abandoned, lines(&file)), (16, 0, 16));
}

fn lines(file: &std::path::Path) -> usize {
    std::fs::read_to_string(file).unwrap_or_default().lines().count()
}
