//! D7, D3: Logistics' own table to Kafka, as a task inside the service.

use std::sync::Arc;

use postrider::Layout;
use postrider::kafka::{KafkaConfig, KafkaSink};
use postrider::postgres::{Config, migrate, open_source};
use postrider::relay::{Relay, Stop, SystemClock};
use postrider_servers::{Database, Topic, kafka, topic_name};
use tokio::task::block_in_place;

use crate::wait::until;

const TABLE: &str = "
    create table outbox_events (
        id uuid primary key, aggregate_type text not null, aggregate_id uuid not null, event_type text not null,
        payload jsonb not null, occurred_at timestamptz not null, status text not null default 'PENDING',
        retry_count int not null default 0, next_attempt_at timestamptz, last_error text, processed_at timestamptz)";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_of_the_service_relays_its_own_table_to_kafka() {
    let (database, brokers, word) = (Database::create().await, kafka(), topic_name("shipment"));
    let mut topic = block_in_place(|| Topic::create_on(&brokers, &format!("{word}-events"), 1, &[]));
    block_in_place(|| database.query(TABLE));
    let logistics = Layout::built_in("logistics").unwrap();
    let config = Config::new(&database.url(), logistics.clone(), "logistics-1").unwrap();
    migrate(&config).await.unwrap();
    let sink = KafkaConfig::from_url(&format!("kafka://{brokers}")).unwrap().with_layout(&logistics);
    let sink = KafkaSink::open(sink, Arc::new(SystemClock::new())).unwrap();
    let source = open_source(&config).await.unwrap();
    let relay = Relay::builder(source, &logistics).sink("kafka", Arc::new(sink)).build().unwrap();
    let stop = Stop::new();
    let task = tokio::spawn({
        let stop = stop.clone();
        async move { relay.run(&stop).await }
    });
    let id = "00000000-0000-4000-8000-000000000001";
    block_in_place(|| {
        database.query(&format!(
            "insert into outbox_events (id, aggregate_type, aggregate_id, event_type, payload, occurred_at) \
             values ('{id}', '{word}', '{id}', 'Shipped', '{{\"n\": 1}}', now())"
        ))
    });
    let value = format!("{{\"messageId\":\"{id}\",\"n\": 1}}");
    until("the message", || {
        block_in_place(|| {
            topic.read().iter().any(|record| record.value_text() == value && record.header("messageId") == id)
        })
    })
    .await;
    stop.stop();
    assert_eq!(task.await.unwrap().unwrap().published, 1);
    assert_eq!(
        block_in_place(|| database.query("select status from outbox_events")),
        [[Some("PUBLISHED".to_owned())]]
    );
}
