//! Tries that a message itself fails on Kafka are counted (B8, C3, D4): status words, counters, waits and the error at the end.

use postrider_servers::{KafkaCode, MockKafka, Request, kafka};
use rustix::process::Signal;

use crate::team::{Team, arrived};
use crate::wait::until;
use crate::world::Process;

/// The waits that the log tells of, in milliseconds.
fn waits(relay: &Process) -> Vec<u64> {
    let wait = |line: &str| {
        let (_, behind) = line.split_once("after=")?;
        let word = behind.split_whitespace().next()?;
        match word.strip_suffix("ms") {
            Some(number) => number.parse().ok(),
            None => word.strip_suffix('s')?.parse().ok().map(|seconds: f64| (seconds * 1000.0) as u64),
        }
    };
    relay.said().lines().filter(|line| line.contains("failed try, to be retried")).filter_map(wait).collect()
}

/// The attempts that the log tells of.
fn attempts(relay: &Process) -> Vec<String> {
    let said = relay.said();
    let tries = said.lines().filter(|line| line.contains("failed try, to be retried"));
    tries
        .filter_map(|line| Some(line.split_once("attempt=")?.1.split_whitespace().next()?.to_owned()))
        .collect()
}

/// B7, B8, B18: a real broker does not take a record without a key into a compacted topic. The row is kept with 0, its first
/// retry is at once, then after 1, 2, 4 … 256 s; at 10 it stays for a person, and the rest has flowed on all the while.
#[test]
fn b8_a_message_that_the_broker_refuses_is_retried_ten_times_and_stays() {
    let team = Team::new("commerce", &kafka(), "");
    // The job's pace apart, the layout is the team's.
    let layout = include_str!("../../../../layouts/commerce.toml").replace("\"5s\"", "\"100ms\"");
    team.world.write("quick.toml", &layout);
    let config = team.world.read("postrider.toml").replace("\"commerce\"", "\"./quick.toml\"");
    team.world.write("postrider.toml", &config);
    let mut topic = team.topic(1, &[("cleanup.policy", "compact")]);
    team.orders(&["", "1", "2"], 1);
    let mut relay = team.world.start("relay", &["run", "-v"], &[]);
    arrived(&mut topic, 2);
    let count =
        |n: &str| format!("select count(*) from outbox_failed where event_id = 'e1' and retry_count = {n}");
    let left = "select extract(epoch from next_retry_at - clock_timestamp()) from outbox_failed where event_id = 'e1'";
    for retry in 1..=9 {
        until("the next count", || team.value(&count(&retry.to_string())) == "1");
        let wait = f64::from(1 << (retry - 1));
        let left: f64 = team.value(left).parse().unwrap();
        assert!(left <= wait && left > wait - 5.0, "retry {retry} failed, and the next is in {left} s");
        // Somebody makes it due, which the relay heeds: the test does not wait for minutes.
        team.database
            .query("update outbox_failed set next_retry_at = clock_timestamp() where event_id = 'e1'");
    }
    until("the last count", || team.value(&count("10")) == "1");
    // B18: each failed retry is a WARN with its number, and what is given up an ERROR.
    relay.wait_until("the end", |said| {
        said.lines().any(|line| line.contains("ERROR") && line.contains("dead: given up"))
    });
    assert_eq!(attempts(&relay), (1..=10).map(|n| n.to_string()).collect::<Vec<_>>());
    let said = relay.said();
    let mut retries = said.lines().filter(|line| line.contains("failed try, to be retried"));
    assert!(retries.all(|line| line.contains("WARN") && line.contains("id=1 ")), "{said}");
    let error = team.value("select last_error from outbox_failed where event_id = 'e1'");
    assert!(error.contains(topic.name()) && error.contains("cleanup.policy=compact wants a key"), "{error}");
    // B7: the message's own faults open no circuit.
    assert!(!relay.said().contains("circuit changed"), "{}", relay.said());
    // B8: given up, it stays, and its key goes on.
    team.orders(&["3"], 4);
    arrived(&mut topic, 3);
    assert_eq!(team.sql("select event_id, retry_count from outbox_failed"), ["e1 10"]);
    relay.signal(Signal::TERM);
    assert_eq!(relay.wait().code(), Some(0), "{}", relay.said());
}

/// A broker that refuses a record so often for the record's own sake. Where every record has a key, no real one does.
fn refusing(team: &Team, times: usize) -> MockKafka {
    let mock = MockKafka::start(&format!("{}-events", team.word), 1);
    mock.refuse(Request::Produce, &vec![KafkaCode::InvalidRecord; times]);
    let config = team.world.read("postrider.toml").replace(&team.brokers, &mock.brokers());
    team.world.write("postrider.toml", &config);
    mock
}

/// C3: the first try and five retries after 100, 200, 400, 800, 1600 ms; then FAILED and an error log. Counts have no column.
#[test]
fn c3_six_tries_and_then_failed_with_its_error() {
    let team = Team::new("order-service", &kafka(), "");
    let _mock = refusing(&team, 6);
    crate::kafka_teams::orders(&team, 1..2);
    let mut relay = team.world.start("relay", &["run", "-v"], &[]);
    until("FAILED", || team.value("select status from outbox") == "FAILED");
    assert_eq!(waits(&relay), [100, 200, 400, 800, 1_600]);
    assert_eq!(attempts(&relay), ["1", "2", "3", "4", "5"]);
    let error = team.value("select error_message from outbox");
    assert!(error.contains(&team.word) && error.contains("Look at the topic's settings"), "{error}");
    relay.wait_until("the error log", |said| {
        said.lines()
            .any(|line| line.contains("ERROR") && line.contains("00000000-0000-4000-8000-000000000001"))
    });
    assert_eq!(team.value("select sent_at is null from outbox"), "t");
    // The next one is taken: it was the message's own fault, and no circuit has opened.
    crate::kafka_teams::orders(&team, 2..3);
    until("SENT", || team.sql("select status from outbox order by id") == ["FAILED", "SENT"]);
    assert!(!relay.said().contains("circuit changed"), "{}", relay.said());
}

/// C3: the sixth try may still succeed.
#[test]
fn c3_the_sixth_try_succeeds() {
    let team = Team::new("order-service", &kafka(), "");
    let _mock = refusing(&team, 5);
    crate::kafka_teams::orders(&team, 1..2);
    let relay = team.world.start("relay", &["run", "-v"], &[]);
    until("SENT", || team.value("select status, sent_at is not null from outbox") == "SENT t");
    assert_eq!(attempts(&relay).len(), 5);
}

/// D4: PENDING with retry_count and last_error, the next try after 1, 2, 4, 8, 16 s; the sixth failed try is FAILED with 5.
#[test]
fn d4_five_retries_and_the_sixth_failed_try_is_failed() {
    let team = Team::new("logistics", &kafka(), "");
    let _mock = refusing(&team, 6);
    crate::kafka_teams::shipments(&team, 1..2);
    let mut relay = team.world.start("relay", &["run", "-v"], &[]);
    let left = "select extract(epoch from next_attempt_at - clock_timestamp()) from outbox_events";
    for retries in 1..=5 {
        until("the next count", || {
            team.value("select status, retry_count from outbox_events") == format!("PENDING {retries}")
        });
        let wait = f64::from(1 << (retries - 1));
        let left: f64 = team.value(left).parse().unwrap();
        assert!(left <= wait && left > wait - 3.0, "after {retries} failed tries the next is in {left} s");
        let error = team.value("select last_error from outbox_events");
        assert!(error.contains(&team.word), "{error}");
        team.database.query("update outbox_events set next_attempt_at = clock_timestamp()");
    }
    until("FAILED", || team.value("select status, retry_count from outbox_events") == "FAILED 5");
    assert_eq!(waits(&relay), [1_000, 2_000, 4_000, 8_000, 16_000]);
    assert!(team.value("select last_error from outbox_events").contains("Look at the topic's settings"));
    assert!(!relay.said().contains("circuit changed"), "{}", relay.said());
    relay.signal(Signal::TERM);
    assert_eq!(relay.wait().code(), Some(0), "{}", relay.said());
}
