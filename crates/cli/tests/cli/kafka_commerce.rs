//! Commerce to Kafka (B4–B11, B16, B18, B19): the team's own tables, through the real binary, to a real broker.

use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use postrider_servers::{PrivateKafka, Topic, kafka};
use rustix::process::Signal;

use crate::team::{Team, arrived, in_order};
use crate::wait::until;

/// A broker of this binary's own, to be frozen and killed; one test at a time has it.
pub(crate) fn broker() -> MutexGuard<'static, PrivateKafka> {
    static BROKER: LazyLock<Mutex<PrivateKafka>> = LazyLock::new(|| Mutex::new(PrivateKafka::start()));
    BROKER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Deadlines and breakers in seconds instead of half minutes.
const QUICK: &str = "[relay]\npublish_deadline = \"2s\"\n[breaker]\nopen = \"1s\"\n";

/// B1, B4, B5, B18, B19: what arrives, in which order, and what is written meanwhile.
#[test]
fn b5_every_row_arrives_under_its_aggregates_key_and_the_outbox_is_left_alone() {
    let commerce = Team::new("commerce", &kafka(), "");
    let mut topic = commerce.topic(3, &[]);
    let keys = ["7", "8", "9", "7", "7", "8"];
    commerce.orders(&keys, 1);
    let before = commerce.sql("select xmin, outbox.* from outbox order by id");
    let mut relay = commerce.world.start("relay", &["run"], &[]);
    let records = arrived(&mut topic, keys.len());

    // B5: key = aggregate id, in order, each key in one partition.
    assert_eq!(in_order(&records, "7"), ["e1", "e4", "e5"]);
    assert_eq!(in_order(&records, "8"), ["e2", "e6"]);
    let partitions =
        |key| records.iter().filter(move |record| record.key_text() == key).map(|record| record.partition);
    assert!(
        ["7", "8"]
            .into_iter()
            .all(|key| partitions(key).all(|partition| Some(partition) == partitions(key).next()))
    );
    // B1: every attribute beside the payload, which is the row's own.
    let first = records.iter().find(|record| record.header("ce_id") == "e1").unwrap();
    for (name, value) in [
        ("content-type", "application/json"),
        ("ce_specversion", "1.0"),
        ("ce_id", "e1"),
        ("ce_source", "commerce-api"),
        ("ce_type", &format!("loopers.{}.created.v1", commerce.word)),
        ("ce_time", "2026-01-02T03:04:05.678Z"),
        ("ce_aggregatetype", "Order"),
        ("ce_aggregateid", "7"),
    ] {
        assert_eq!(first.header(name), value, "{name}");
    }
    assert_eq!(first.value_text(), "{\"n\": 1}");

    // A second batch moves the position by another row (B4).
    commerce.orders(&["9"], 7);
    arrived(&mut topic, 7);
    until("the position", || commerce.value("select max(last_processed_id) from outbox_cursor") == "7");
    // B18: quiet in normal running.
    assert_eq!(relay.said(), "");
    relay.signal(Signal::TERM);
    assert_eq!(relay.wait().code(), Some(0), "{}", relay.said());
    // B4: no row of the outbox is updated or deleted; the cursor is append-only, its latest row the one with the highest id.
    assert_eq!(commerce.sql("select xmin, outbox.* from outbox where id <= 6 order by id"), before);
    let positions = commerce.sql("select last_processed_id from outbox_cursor order by id");
    assert_eq!(positions.last().unwrap(), "7");
    assert!(positions.len() > 1 && positions.is_sorted(), "{positions:?}");
    assert_eq!(commerce.value("select count(*) from outbox_failed"), "0");
}

/// B3, B6, B8, B18: a row that cannot be routed, and one that is too large for its topic, are kept in `outbox_failed` with 10
/// at once; the cursor moves, and the rest flows on.
#[test]
fn b6_what_can_never_be_sent_is_kept_whole_and_the_rest_flows_on() {
    let commerce = Team::new("commerce", &kafka(), "");
    let mut topic = commerce.topic(1, &[("max.message.bytes", "2000")]);
    commerce.orders(&["1", "2"], 1);
    commerce.row("stray", "OrderCreated", "3", "{\"secret\": \"4111\"}");
    let large = format!("{{\"n\": \"{}\"}}", "x".repeat(5_000));
    commerce.row("large", &format!("loopers.{}.created.v1", commerce.word), "4", &large);
    commerce.orders(&["3", "4", "5"], 3);
    let mut relay = commerce.world.start("relay", &["run"], &[]);
    let records = arrived(&mut topic, 5);
    // Neighbours that were purged with it wait for the retry job, and are gone when they are published (B8).
    until("the two to be given up", || commerce.sql("select retry_count from outbox_failed") == ["10", "10"]);
    // B8: given up, it lets its key go on.
    assert_eq!(
        (in_order(&records, "3"), in_order(&records, "4")),
        (vec!["e3".to_owned()], vec!["e4".to_owned()])
    );
    // B6: kept whole. B8: with 10 at once.
    let failed = commerce.sql(
        "select event_id, event_type, source, aggregate_type, aggregate_id, retry_count, outbox_failed.payload = o.payload \
         from outbox_failed join outbox as o using (event_id, event_type, source, aggregate_type, aggregate_id) order by 1",
    );
    let kind = format!("loopers.{}.created.v1", commerce.word);
    assert_eq!(
        failed,
        [
            format!("large {kind} commerce-api Order 4 10 t"),
            "stray OrderCreated commerce-api Order 3 10 t".to_owned()
        ]
    );
    let reason = |event: &str| {
        commerce.value(&format!("select last_error from outbox_failed where event_id = '{event}'"))
    };
    assert!(
        reason("stray").contains("no route") && reason("stray").contains("[[route]]"),
        "{}",
        reason("stray")
    );
    assert!(!reason("large").is_empty());
    // B6: the cursor has moved past them.
    assert_eq!(commerce.value("select last_processed_id from outbox_cursor order by id desc limit 1"), "7");
    // B18: what is given up is an ERROR with its id, and no payload is in the log.
    let said = relay.said();
    assert!(said.contains("ERROR") && said.contains("stray") && said.contains("large"), "{said}");
    assert!(!said.contains("4111"), "{said}");
    relay.signal(Signal::TERM);
    assert_eq!(relay.wait().code(), Some(0), "{}", relay.said());
}

/// B6, B8: `--until-empty` waits for the runs of the retries: neighbours of a row that is too large are due, and so is what is
/// parked behind them. One run leaves nothing but the dead one.
#[test]
fn b8_until_empty_leaves_nothing_that_is_due() {
    let commerce = Team::new("commerce", &kafka(), "");
    let mut topic = commerce.topic(1, &[("max.message.bytes", "2000")]);
    let kind = format!("loopers.{}.created.v1", commerce.word);
    let keys: Vec<String> = (0..40).map(|n| format!("k{}", n % 7)).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    commerce.orders(&keys[..20], 1);
    let large: String = (0..400u32).map(|n| format!("{:08x}", n.wrapping_mul(2_654_435_761))).collect();
    commerce.row("large", &kind, "k0", &format!("{{\"n\": \"{large}\"}}"));
    commerce.orders(&keys[20..], 21);
    let empty = commerce.world.run(&["run", "--until-empty"]);
    assert!(
        empty.stderr.contains("Published 40 events.") && empty.stderr.contains("1 dead"),
        "{}",
        empty.stderr
    );
    assert!(!empty.stderr.contains("pending") && !empty.stderr.contains("waiting"), "{}", empty.stderr);
    empty.ok();
    let records = arrived(&mut topic, 40);
    for key in 0..7 {
        let written: Vec<String> =
            (0..40).filter(|n| n % 7 == key).map(|n: usize| format!("e{}", n + 1)).collect();
        assert_eq!(in_order(&records, &format!("k{key}")), written);
    }
    assert_eq!(commerce.sql("select event_id, retry_count from outbox_failed"), ["large 10"]);
}

/// B5, B6, B7, B8, B18: sends that are unresolved at the time-out count as failed, hold their keys, cost no retry, and go out
/// again as the identical messages, in order, when the broker answers.
#[test]
fn b5_b6_b8_a_send_unresolved_at_the_time_out_is_kept_and_sent_again_in_order() {
    let broker = broker();
    let commerce = Team::new("commerce", &broker.brokers(), QUICK);
    let mut topic = commerce.topic(1, &[]);
    let keys = ["1", "2", "3", "1", "2", "3", "1"];
    let mut relay = commerce.world.start("relay", &["run"], &[]);
    commerce.orders(&["1"], 1);
    arrived(&mut topic, 1);
    broker.freeze(1);
    commerce.orders(&keys, 2);
    // B18: the batch's time-out is a WARN.
    relay.wait_until("the time-out", |said| {
        said.lines()
            .any(|line| line.contains("WARN") && line.contains("no answer before the publish deadline"))
    });
    // B6: each of them is in outbox_failed, B8: with no retry counted, and the cursor is at the last of them.
    until("all of them failed", || commerce.value("select count(*) from outbox_failed") == "7");
    assert_eq!(
        commerce.sql("select event_id, retry_count from outbox_failed order by event_id"),
        ["e2 0", "e3 0", "e4 0", "e5 0", "e6 0", "e7 0", "e8 0"]
    );
    assert_eq!(commerce.value("select last_processed_id from outbox_cursor order by id desc limit 1"), "8");
    broker.thaw(1);
    let records = arrived(&mut topic, 1 + keys.len());
    for (key, ids) in [("1", vec!["e1", "e2", "e5", "e8"]), ("2", vec!["e3", "e6"]), ("3", vec!["e4", "e7"])]
    {
        assert_eq!(in_order(&records, key), ids, "{key}");
    }
    // B8: success deletes the row.
    until("no failed row", || commerce.value("select count(*) from outbox_failed") == "0");
    relay.signal(Signal::TERM);
    assert_eq!(relay.wait().code(), Some(0), "{}", relay.said());
}

/// B7: at least 5 calls of which half failed, each fault counted and nothing of the messages' own: after two receipts and two
/// messages that are too large, the third fault opens the circuit in mid-batch. The batch stops there: the cursor is at the
/// last row that was attempted and no further. Time alone leads to trials, any of which opens it again, three close it.
#[test]
fn b7_a_circuit_that_opens_stops_the_batch_where_it_is() {
    let broker = broker();
    let commerce = Team::new("commerce", &broker.brokers(), QUICK);
    let mut first = commerce.topic(1, &[("max.message.bytes", "2000")]);
    let other = format!("{}x", commerce.word);
    let mut second = Topic::create_on(&commerce.brokers, &format!("{other}-events"), 3, &[]);
    let mut relay = commerce.world.start("relay", &["run", "-v"], &[]);
    let large = format!("{{\"n\": \"{}\"}}", "x".repeat(5_000));
    let kind = format!("loopers.{}.created.v1", commerce.word);
    commerce.orders(&["1"], 1);
    arrived(&mut first, 1);
    for (n, event) in ["large1", "large2"].into_iter().enumerate() {
        commerce.row(event, &kind, event, &large);
        let given_up = "select count(*) from outbox_failed where retry_count = 10";
        until("it is given up", || commerce.value(given_up) == (n + 1).to_string());
    }
    commerce.orders(&["1"], 2);
    arrived(&mut first, 2);
    until("the position", || commerce.value("select max(last_processed_id) from outbox_cursor") == "4");
    commerce.database.query("delete from outbox_failed");
    assert!(
        !relay.said().contains("circuit changed"),
        "the messages' own faults open nothing: {}",
        relay.said()
    );

    // Where nothing has been sent yet, the broker's silence is heard before anything is handed over.
    broker.freeze(1);
    let keys: Vec<String> = (0..20).map(|key| format!("k{key}")).collect();
    let rows = keys.iter().enumerate().map(|(at, key)| {
        let kind = format!("loopers.{other}.created.v1");
        format!("('k{at}', '{kind}', 'commerce-api', 'Order', '{key}', '{{}}', '2026-01-02T03:04:05Z')")
    });
    commerce.database.query(&format!(
        "insert into outbox (event_id, event_type, source, aggregate_type, aggregate_id, payload, created_at) values {}",
        rows.collect::<Vec<_>>().join(", ")
    ));
    // B18: ERROR for the rate, WARN for the circuit's state and for the batch that it stopped, with the id.
    for parts in [
        ["ERROR", "failure rate over the threshold", ""],
        ["WARN", "circuit changed", "circuit=\"open\""],
        ["WARN", "batch stopped by an open circuit", "at=8"],
    ] {
        relay.wait_until(parts[1], |said| {
            said.lines().any(|line| parts.iter().all(|part| line.contains(part)))
        });
    }
    // B8: a refused permission costs no attempt, and an outage no retry.
    until("the failed rows", || commerce.value("select count(*) from outbox_failed") == "3");
    let failed = "select event_id, retry_count from outbox_failed order by event_id";
    let until_trials = commerce.sql(failed);
    assert_eq!(until_trials, ["k0 0", "k1 0", "k2 0"]);
    assert_eq!(commerce.value("select last_processed_id from outbox_cursor order by id desc limit 1"), "7");
    // B7: time alone leads from open to half-open, and a trial that fails opens it again.
    relay.wait_until("trials in vain", |said| {
        let circuits: Vec<&str> =
            said.lines().filter_map(|line| line.split_once("circuit=\"")?.1.split('"').next()).collect();
        circuits.starts_with(&["open", "half-open", "open", "half-open", "open"])
    });
    assert_eq!(relay.said().matches("failure rate over the threshold").count(), 1, "{}", relay.said());
    broker.thaw(1);
    let records = arrived(&mut second, 20);
    assert!(keys.iter().all(|key| in_order(&records, key) == [key.clone()]));
    relay.wait_until("the circuit closed", |said| said.contains("circuit=\"closed\""));
    let said = relay.said();
    let (trials, _) = said.split_once("circuit=\"closed\"").unwrap();
    let (_, trials) = trials.rsplit_once("circuit=\"half-open\"").unwrap();
    assert_eq!(trials.matches("DEBUG published").count(), 3, "three trials close it: {trials}");
    until("no failed row", || commerce.value("select count(*) from outbox_failed") == "0");
    relay.signal(Signal::TERM);
    assert_eq!(relay.wait().code(), Some(0), "{}", relay.said());
}

/// B9: both jobs are one instance's; when it dies its lease expires, and the other goes on where it was.
#[test]
fn b9_one_instance_owns_the_jobs_and_a_dead_one_is_taken_over() {
    let commerce = Team::new("commerce", &kafka(), "");
    let mut topic = commerce.topic(3, &[]);
    let config = commerce.world.read("postrider.toml").replace("[[sink]]", "lease_ttl = \"2s\"\n[[sink]]");
    commerce.world.write("postrider.toml", &config);
    let first = commerce.world.start("first", &["run", "-v"], &[]);
    until("the lease", || !commerce.world.run(&["status", "--json"]).ok().contains("\"holder\":null"));
    let mut second = commerce.world.start("second", &["run", "-v"], &[]);
    second.wait_until_said("standing by");
    commerce.orders(&["1", "2"], 1);
    arrived(&mut topic, 2);
    assert!(!second.said().contains(" published"), "{}", second.said());
    first.kill();
    commerce.orders(&["1", "2"], 3);
    let records = arrived(&mut topic, 4);
    assert_eq!(in_order(&records, "1"), ["e1", "e3"]);
    assert!(second.said().contains(" published"), "{}", second.said());
}

/// B10: a row that commits late with a low id arrives; nothing waits for its transaction but itself.
#[test]
fn b10_a_late_commit_is_not_lost() {
    let commerce = Team::new("commerce", &kafka(), "");
    let mut topic = commerce.topic(1, &[]);
    let gid = commerce.word.clone();
    let late = format!("loopers.{}.created.v1", commerce.word);
    commerce.database.query(&format!(
        "begin; insert into outbox (event_id, event_type, source, aggregate_type, aggregate_id, payload) \
         values ('late', '{late}', 's', 'Order', '1', '{{}}'); prepare transaction '{gid}'"
    ));
    let mut relay = commerce.world.start("relay", &["run"], &[]);
    commerce.orders(&["1", "2"], 1);
    arrived(&mut topic, 2);
    until("the position", || commerce.value("select max(last_processed_id) from outbox_cursor") == "3");
    commerce.database.query(&format!("commit prepared '{gid}'"));
    let records = arrived(&mut topic, 3);
    assert_eq!(records.last().unwrap().header("ce_id"), "late");
    relay.signal(Signal::TERM);
    assert_eq!(relay.wait().code(), Some(0), "{}", relay.said());
}

/// B3: the override of one type, beside the convention.
#[test]
fn b3_one_types_topic_goes_before_the_convention() {
    let broker = broker();
    let commerce = Team::new("commerce", &broker.brokers(), "");
    let mut views = Topic::create_on(&commerce.brokers, "product-view-events", 1, &[]);
    commerce.row("viewed", "loopers.product.viewed.v1", "p1", "{}");
    commerce.world.run(&["run", "--until-empty"]).ok();
    assert_eq!(arrived(&mut views, 1)[0].key_text(), "p1");
}
