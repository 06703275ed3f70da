//! Donation (A) and Ledger (E) to a real Kafka from the teams' own tables: rows typed into `mariadb` and `mysql`, relayed by the
//! real binary, checked where a consumer reads.

use postrider_servers::{Record, Topic, kafka};

use crate::bank::{Bank, servers};
use crate::wait::until;

fn sink() -> String {
    format!("[[sink]]\nname = \"kafka\"\nurl = \"kafka://{}\"\n", kafka())
}

/// What a consumer of a topic that others write to as well sees of a bank.
fn arrived(topic: &mut Topic, bank: &Bank, records: usize) -> Vec<Record> {
    let own = |topic: &mut Topic| -> Vec<Record> {
        topic.read().iter().filter(|record| record.value_text().contains(&bank.word)).cloned().collect()
    };
    until(&format!("{records} records"), || own(topic).len() >= records);
    let own = own(topic);
    assert_eq!(own.len(), records, "{own:?}");
    own
}

/// Every header of a record, in order.
fn headers(record: &Record) -> Vec<String> {
    record.headers.iter().map(|(name, _)| format!("{name}: {}", record.header(name))).collect()
}

/// A5–A7, A13: rows that are due arrive, `next_retry_at` NULL included, in the form of docs/kafka.md; the rest does not.
#[test]
fn donation_rows_of_the_plain_client_reach_kafka() {
    for server in servers() {
        let bank = Bank::new(&server, "donation", &sink());
        let mut topic = Topic::create_on(&kafka(), "donation-events", 3, &[]);
        let id = |n: u32| format!("{}-{n}", &bank.word[..40.min(bank.word.len())]);
        // A5: NULL counts as due; PENDING and FAILED that are due come, what is not due does not.
        bank.donate(&id(1), &[("next_retry_at", "null")]);
        bank.donate(&id(2), &[("next_retry_at", "utc_timestamp() - interval 1 hour")]);
        bank.donate(
            &id(3),
            &[("status", "'FAILED'"), ("retry_count", "1"), ("next_retry_at", "utc_timestamp()")],
        );
        bank.donate(&id(4), &[("next_retry_at", "utc_timestamp() + interval 1 hour")]);
        // A7: NULL in version, retry_count and max_retries counts as 0, 0 and 3.
        bank.donate(&id(5), &[("version", "null"), ("retry_count", "null"), ("max_retries", "null")]);
        let written = bank
            .sql("select id, request_id, event_type, payload, content_hash, created_at from donation_outbox");
        bank.world.run(&["check"]).ok();
        bank.world.run(&["run", "--until-empty"]).ok();

        let records = bank_records(&mut topic, &id(0));
        let mut keys: Vec<String> = records.iter().map(Record::key_text).collect();
        keys.sort_unstable();
        assert_eq!(keys, [id(1), id(2), id(3), id(5)], "{server}");
        // The message, whole.
        let first = records.iter().find(|record| record.key_text() == id(1)).unwrap();
        assert_eq!(
            headers(first),
            [
                "content-type: application/json".to_owned(),
                "ce_specversion: 1.0".to_owned(),
                "ce_time: 2026-01-02T03:04:05Z".to_owned(),
                format!("ce_id: {}", id(1)),
                "ce_source: /donation".to_owned(),
                "ce_type: DONATION_COMPLETED".to_owned(),
                "ce_aggregatetype: Donation".to_owned(),
                format!("ce_aggregateid: {}", id(1)),
            ]
        );
        assert_eq!(first.value_text(), format!("{{\"request\": \"{}\", \"amount\": 100}}", id(1)));
        // A7: COMPLETED, and no longer anybody's; a claim and a settlement bump the version.
        assert_eq!(
            bank.sql("select status, version, locked_by, locked_at from donation_outbox order by id"),
            [
                "COMPLETED 2 null null",
                "COMPLETED 2 null null",
                "COMPLETED 2 null null",
                "PENDING 0 null null",
                "COMPLETED 2 null null"
            ],
            "{server}"
        );
        // A13: what the service wrote is as it was.
        let now = bank
            .sql("select id, request_id, event_type, payload, content_hash, created_at from donation_outbox");
        assert_eq!(now, written);
        assert_eq!(bank.value("select count(*) from donation_dlq"), "0");
        // Once it is due, it comes.
        bank.client("update donation_outbox set next_retry_at = null where status = 'PENDING'");
        bank.world.run(&["run", "--until-empty"]).ok();
        assert_eq!(bank_records(&mut topic, &id(0)).len(), 5);
    }
}

/// The records of requests that begin as this one does.
fn bank_records(topic: &mut Topic, request: &str) -> Vec<Record> {
    let start = request.trim_end_matches(|c: char| c.is_ascii_digit()).to_owned();
    topic.read().iter().filter(|record| record.key_text().starts_with(&start)).cloned().collect()
}

/// A6, A10: what was tampered with is DEAD_LETTER at once and in `donation_dlq`, is never published and costs no retry; the
/// rest flows on. It is logged at WARN.
#[test]
fn tampered_donations_are_dead_letters_and_never_reach_kafka() {
    for server in servers() {
        let bank = Bank::new(&server, "donation", &sink());
        let mut topic = Topic::create_on(&kafka(), "donation-events", 3, &[]);
        let id = |n: u32| format!("{}-{n}", &bank.word[..40.min(bank.word.len())]);
        for n in 1..=4 {
            bank.donate(&id(n), &[]);
        }
        bank.client(&format!(
            "update donation_outbox set payload = replace(payload, '100', '999') where request_id = '{}'; \
             update donation_outbox set content_hash = sha2('another', 256) where request_id = '{}'",
            id(2),
            id(3)
        ));
        let run = bank.world.run(&["run", "--until-empty"]);
        let mut keys: Vec<String> = bank_records(&mut topic, &id(0)).iter().map(Record::key_text).collect();
        keys.sort_unstable();
        assert_eq!(keys, [id(1), id(4)], "no publish, and the rest flows on");
        assert_eq!(
            bank.sql("select status, retry_count from donation_outbox order by id"),
            ["COMPLETED 0", "DEAD_LETTER 0", "DEAD_LETTER 0", "COMPLETED 0"],
            "at once, without a retry"
        );
        let letters = bank.sql(
            "select d.original_id = o.id, d.request_id = o.request_id, d.event_type = o.event_type, d.payload = o.payload, \
             d.reason like '%content_hash%', d.created_at is not null from donation_dlq d \
             join donation_outbox o on o.id = d.original_id order by d.id",
        );
        assert_eq!(letters, ["1 1 1 1 1 1", "1 1 1 1 1 1"], "the letter is the row, with the reason");
        assert!(bank.value("select last_error from donation_outbox where id = 2").contains("content_hash"));
        for n in [2, 3] {
            let line = run.stderr.lines().find(|line| line.contains(&id(n))).unwrap_or_default();
            assert!(line.contains("WARN") && line.contains("content_hash"), "{}", run.stderr);
        }
        assert!(!run.stderr.contains("999"), "no payload in a log: {}", run.stderr);
        run.ok();
    }
}

/// E3–E5: postings by the plain client arrive on the topic of all, each account's in order, with what a consumer verifies it by.
#[test]
fn ledger_rows_of_the_plain_client_reach_kafka() {
    for server in servers() {
        let bank = Bank::new(&server, "ledger", &sink());
        let mut topic = Topic::create_on(&kafka(), "ledger-events", 3, &[]);
        let account = |n: u32| format!("{}-{n}", bank.word);
        for n in 1..=12 {
            bank.post(if n % 4 == 0 { "LEDGER_REVERSED" } else { "LEDGER_POSTED" }, &account(n % 3), n);
        }
        bank.world.run(&["check"]).ok();
        bank.world.run(&["run", "--until-empty"]).ok();
        let records = arrived(&mut topic, &bank, 12);
        for one in 0..3 {
            let of: Vec<&Record> =
                records.iter().filter(|record| record.key_text() == account(one)).collect();
            // E4: by account, in order, each with its number.
            let numbers: Vec<u32> =
                of.iter().map(|record| record.header("ce_aggregateid").parse().unwrap()).collect();
            let sent: Vec<u32> = (1..=12).filter(|n| n % 3 == one).collect();
            assert_eq!(numbers, sent, "{server}");
            assert!(
                of.iter().all(|record| record.partition == of[0].partition),
                "one account, one partition"
            );
            assert!(of.iter().all(|record| record.header("ce_sequence") == record.header("ce_aggregateid")));
        }
        let fourth = records.iter().find(|record| record.header("ce_aggregateid") == "4").unwrap();
        assert_eq!(
            headers(fourth),
            [
                "content-type: application/json",
                "ce_specversion: 1.0",
                "ce_time: 2026-01-02T03:04:05.678Z",
                "ce_sequence: 4",
                "ce_id: 4",
                "ce_source: /ledger",
                "ce_type: LEDGER_REVERSED",
                "ce_aggregatetype: TRANSACTION",
                "ce_aggregateid: 4",
                &format!("ce_partitionkey: {}", account(1)),
            ]
        );
        let value: serde_json::Value = serde_json::from_str(&fourth.value_text()).unwrap();
        assert_eq!(value, serde_json::json!({ "accountId": account(1), "sequenceNumber": 4 }));
        // E3: PROCESSED, with its time, and nothing counted.
        let states = "select status, retry_count, processed_at is not null, count(*) from outbox_event group by 1, 2, 3";
        assert_eq!(bank.sql(states), ["PROCESSED 0 1 12"]);
    }
}

/// E5: one topic per type, by config.
#[test]
fn e5_one_topic_per_type() {
    for server in servers() {
        let per_type = format!("{}[[route]]\ntopic = \"{{type:kebab}}-events\"\n", sink());
        let bank = Bank::new(&server, "ledger", &per_type);
        let topic = |name: &str| Topic::create_on(&kafka(), name, 3, &[]);
        let (mut posted, mut reversed) = (topic("ledger-posted-events"), topic("ledger-reversed-events"));
        let mut all = topic("ledger-events");
        for n in 1..=5 {
            bank.post(if n == 3 { "LEDGER_REVERSED" } else { "LEDGER_POSTED" }, &bank.word, n);
        }
        bank.world.run(&["run", "--until-empty"]).ok();
        assert_eq!(arrived(&mut posted, &bank, 4).len(), 4);
        let reversed = arrived(&mut reversed, &bank, 1);
        assert_eq!(reversed[0].header("ce_type"), "LEDGER_REVERSED");
        assert!(arrived(&mut all, &bank, 0).is_empty());
    }
}
