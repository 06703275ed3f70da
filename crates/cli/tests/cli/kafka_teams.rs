//! OrderService (C1–C6) and Logistics (D1–D5) to Kafka, through the real binary.

use std::collections::BTreeMap;

use postrider_servers::kafka;
use rustix::process::Signal;

use crate::team::{Team, arrived};
use crate::wait::until;

fn uuid(n: usize) -> String {
    format!("00000000-0000-4000-8000-{n:012}")
}

/// Rows of OrderService by plain SQL; the aggregate's type makes the topic.
pub(crate) fn orders(team: &Team, numbers: std::ops::Range<usize>) {
    let rows = numbers.map(|n| {
        format!(
            "('{}', '{}', '{}', 'OrderPaid', '{{\"n\": {n}}}', '2026-01-02 03:04:05.5')",
            uuid(n),
            team.word,
            uuid(n % 7)
        )
    });
    let rows: Vec<String> = rows.collect();
    let columns = "id, aggregate_type, aggregate_id, event_type, payload, created_at";
    team.database.query(&format!("insert into outbox ({columns}) values {}", rows.join(", ")));
}

pub(crate) fn shipments(team: &Team, numbers: std::ops::Range<usize>) {
    let rows = numbers.map(|n| {
        format!(
            "('{}', '{}', '{}', 'Shipped', '{{\"n\": {n}}}', '2026-01-02T03:04:05Z')",
            uuid(n),
            team.word,
            uuid(n % 7)
        )
    });
    let rows: Vec<String> = rows.collect();
    let columns = "id, aggregate_type, aggregate_id, event_type, payload, occurred_at";
    team.database.query(&format!("insert into outbox_events ({columns}) values {}", rows.join(", ")));
}

/// C1, C5, C6: the row as it is, complete, with its id as `eventId` in the body and as a header.
#[test]
fn c1_c6_a_row_arrives_complete_with_its_id_as_event_id() {
    let team = Team::new("order-service", &kafka(), "");
    let mut topic = team.topic(3, &[]);
    orders(&team, 1..4);
    team.world.run(&["run", "--until-empty"]).ok();
    let records = arrived(&mut topic, 3);
    let one = records.iter().find(|record| record.header("ce_id") == uuid(1)).unwrap();
    // C1: the id is the event's, also as eventId in the message.
    assert_eq!(one.value_text(), format!("{{\"eventId\":\"{}\",\"n\": 1}}", uuid(1)));
    assert_eq!(one.header("eventId"), uuid(1));
    // C1: a time without a zone is UTC. C6: everything that a consumer could ask for.
    for (name, value) in [
        ("ce_time", "2026-01-02T03:04:05.5Z"),
        ("ce_type", "OrderPaid"),
        ("ce_source", "/order-service"),
        ("ce_aggregatetype", &team.word),
        ("ce_aggregateid", &uuid(1)),
    ] {
        assert_eq!(one.header(name), value, "{name}");
    }
    assert_eq!(one.key_text(), uuid(1));
    // C1: NEW becomes SENT with its time. C5: nothing is deleted.
    assert_eq!(
        team.sql("select status, sent_at is not null, count(*) from outbox group by 1, 2"),
        ["SENT t 3"]
    );
}

/// C3, C4: what cannot be sent is FAILED with its error and an error log; an operator makes it NEW again.
#[test]
fn c3_c4_what_cannot_be_sent_is_failed_and_set_back_by_an_operator() {
    let team = Team::new("order-service", &kafka(), "");
    let mut topic = team.topic(1, &[]);
    orders(&team, 1..3);
    team.database.query(&format!("update outbox set payload = '[\"4111\"]' where id = '{}'", uuid(1)));
    let run = team.world.run(&["run", "--until-empty"]);
    arrived(&mut topic, 1);
    assert_eq!(team.sql("select status from outbox order by id"), ["FAILED", "SENT"]);
    let reason = team.value("select error_message from outbox order by id limit 1");
    assert!(reason.contains("no JSON object") && reason.contains("eventId"), "{reason}");
    assert!(
        run.stderr.contains("ERROR") && run.stderr.contains(&uuid(1)) && !run.stderr.contains("4111"),
        "{}",
        run.stderr
    );
    run.ok();
    team.database.query(&format!("update outbox set payload = '{{}}' where id = '{}'", uuid(1)));
    // C4: one, by its id, or many, by filter.
    team.world.run(&["revive", "--type", "OrderPaid"]).ok();
    assert_eq!(team.value("select status from outbox order by id limit 1"), "NEW");
    team.world.run(&["run", "--until-empty"]).ok();
    arrived(&mut topic, 2);
}

/// C2, D2: three relays side by side publish each row once.
fn three_relays_publish_each_row_once(layout: &str, write: fn(&Team, std::ops::Range<usize>), rows: usize) {
    let team = Team::new(layout, &kafka(), "[relay]\npoll = \"20ms\"\nbatch_entries = 50\n");
    let mut topic = team.topic(3, &[]);
    let mut relays: Vec<_> =
        (0..3).map(|n| team.world.start(&format!("relay{n}"), &["run", "-v"], &[])).collect();
    for at in (0..rows).step_by(100) {
        write(&team, at..at + 100);
    }
    until("all of them", || topic.read().len() >= rows);
    for relay in &mut relays {
        relay.signal(Signal::TERM);
        assert_eq!(relay.wait().code(), Some(0), "{}", relay.said());
    }
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    for record in topic.read() {
        *times.entry(record.header("ce_id")).or_default() += 1;
    }
    assert_eq!((times.len(), times.values().max()), (rows, Some(&1)), "each once");
    let working = relays.iter().filter(|relay| relay.said().contains(" published")).count();
    assert!(working > 1, "{working} of them had something to do");
}

#[test]
fn c2_three_relays_publish_each_row_once() {
    three_relays_publish_each_row_once("order-service", orders, 3_000);
}

#[test]
fn d2_three_relays_publish_each_event_once() {
    three_relays_publish_each_row_once("logistics", shipments, 3_000);
}

/// D1, D3: PENDING becomes PUBLISHED, and the id travels as `messageId`, in the body and as a header.
#[test]
fn d1_d3_the_id_travels_as_message_id() {
    let team = Team::new("logistics", &kafka(), "");
    let mut topic = team.topic(3, &[]);
    shipments(&team, 1..3);
    team.world.run(&["run", "--until-empty"]).ok();
    let records = arrived(&mut topic, 2);
    let one = records.iter().find(|record| record.header("ce_id") == uuid(1)).unwrap();
    assert_eq!(one.value_text(), format!("{{\"messageId\":\"{}\",\"n\": 1}}", uuid(1)));
    assert_eq!(one.header("messageId"), uuid(1));
    assert_eq!(one.key_text(), uuid(1));
    let states =
        "select status, retry_count, processed_at is not null, count(*) from outbox_events group by 1, 2, 3";
    assert_eq!(team.sql(states), ["PUBLISHED 0 t 2"]);
}

/// D4: what cannot be sent is FAILED with its error, and holds nobody up.
#[test]
fn d4_what_cannot_be_sent_is_failed_with_its_error() {
    let team = Team::new("logistics", &kafka(), "");
    let mut topic = team.topic(1, &[]);
    shipments(&team, 1..3);
    let other = "{\"messageId\": \"4111\"}";
    team.database.query(&format!("update outbox_events set payload = '{other}' where id = '{}'", uuid(1)));
    team.world.run(&["run", "--until-empty"]).ok();
    arrived(&mut topic, 1);
    assert_eq!(team.sql("select status from outbox_events order by id"), ["FAILED", "PUBLISHED"]);
    let reason = team.value("select last_error from outbox_events order by id limit 1");
    assert!(reason.contains("another value under \"messageId\"") && !reason.contains("4111"), "{reason}");
}

/// D5: a relay that dies in mid-batch leaves its rows available at once: the next one publishes them without waiting.
#[test]
fn d5_a_dead_relays_rows_are_taken_at_once() {
    let team = Team::new("logistics", &kafka(), "");
    let mut topic = team.topic(1, &[]);
    shipments(&team, 1..31);
    let relay = team.world.start("relay", &["run"], &[("POSTRIDER_PAUSE_AT", "planned:1")]);
    until("the pause in mid-batch", || relay.stands_still());
    assert_eq!(
        team.value("select count(*) from (select id from outbox_events for update skip locked) as free"),
        "0"
    );
    relay.kill();
    until("the rows to be free", || {
        team.value("select count(*) from (select id from outbox_events for update skip locked) as free")
            == "30"
    });
    team.world.run(&["run", "--until-empty"]).ok();
    arrived(&mut topic, 30);
    assert_eq!(team.sql("select status, count(*) from outbox_events group by 1"), ["PUBLISHED 30"]);
}
