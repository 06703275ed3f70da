//! What consumers see: docs/kafka.md has each form byte for byte, and this is what says so.

use postrider_servers::{Database, Record, Topic, kafka, kafka_tool, topic_name};

use crate::world::World;

const DOC: &str = include_str!("../../../../docs/kafka.md");

const FORMS: [&str; 5] = [
    "\"binary\"",
    "{ form = \"binary\", id_as = \"messageId\" }",
    "\"structured\"",
    "\"payload\"",
    "{ form = \"payload\", id_as = \"id\" }",
];

const LAYOUT: &str = r#"
name  = "forms"
table = "outbox"
way   = "cursor"
names = "free"

[columns]
id             = "id"
event_id       = "event_id"
type           = "type"
source         = "source"
aggregate_type = "aggregate_type"
aggregate_id   = "aggregate_id"
payload        = "payload"
time           = "time"
extensions     = "extensions"
"#;

/// B1, C1, D3: a table of the docs holds every form as a consumer reads it, and so does Kafka's own console consumer.
#[test]
fn the_docs_show_each_form_byte_for_byte() {
    let brokers = kafka();
    for form in FORMS {
        let (world, name) = (World::new(), topic_name("form"));
        let mut topic = Topic::create_on(&brokers, &name, 1, &[]);
        world.write("layout.toml", &format!("topic = \"{name}\"\nmessage = {form}\n{LAYOUT}"));
        world.write(
            "postrider.toml",
            &format!(
                "[outbox]\nurl = \"sqlite://shop.db\"\nlayout = \"./layout.toml\"\nstart = \"beginning\"\n\
                 [[sink]]\nurl = \"kafka://{brokers}\"\n"
            ),
        );
        let database = world.database("shop.db");
        database
            .execute_batch(
                "create table outbox (id integer primary key autoincrement, event_id text, type text, source text, \
                 aggregate_type text, aggregate_id text, payload text, time text, extensions text);
                 insert into outbox (event_id, type, source, aggregate_type, aggregate_id, payload, time, extensions) values \
                 ('01961c5e-0000-7000-8000-000000000001', 'loopers.order.created.v1', '/shop', 'Order', 'order-7', \
                 '{\"total\": 12}', '2026-03-01T12:00:00Z', '{\"tenant\":\"acme\"}');",
            )
            .unwrap();
        world.run(&["migrate"]).ok();
        world.run(&["run", "--until-empty"]).ok();
        let [record] = topic.read() else { panic!("{form}: {:?}", topic.read()) };
        let row = row(form, record);
        assert!(DOC.contains(&row), "docs/kafka.md has no such row: {row}");
        assert_eq!(console(&brokers, &name), line(record), "{form}");
    }
}

fn row(form: &str, record: &Record) -> String {
    let headers: Vec<String> =
        record.headers.iter().map(|(name, _)| format!("`{name}: {}`", record.header(name))).collect();
    format!("| `{form}` | `{}` | {} | `{}` |", record.key_text(), headers.join("<br>"), record.value_text())
}

/// As the console consumer prints it.
fn line(record: &Record) -> String {
    let headers: Vec<String> =
        record.headers.iter().map(|(name, _)| format!("{name}:{}", record.header(name))).collect();
    format!("{}\t{}\t{}\n", headers.join(","), record.key_text(), record.value_text())
}

fn console(brokers: &str, topic: &str) -> String {
    let print = |what| ["--formatter-property", what];
    let words = [
        &["--bootstrap-server", brokers, "--topic", topic, "--from-beginning", "--max-messages", "1"][..],
        &print("print.key=true"),
        &print("print.headers=true"),
    ];
    kafka_tool("org.apache.kafka.tools.consumer.ConsoleConsumer", &words.concat())
}

/// F1, C6: a NULL where data are optional, as in Debezium's table, is a tombstone: the record has a key and headers and no value.
#[test]
fn the_docs_show_a_tombstone_byte_for_byte() {
    let (brokers, word) = (kafka(), topic_name("Order"));
    let (world, database) = (World::new(), Database::create_blocking());
    database.query(
        "create table outbox (id uuid primary key, aggregatetype varchar(255) not null, aggregateid varchar(255) not null, \
         type varchar(255) not null, payload jsonb)",
    );
    world.write(
        "postrider.toml",
        &format!(
            "[outbox]\nurl = \"{}\"\nlayout = \"debezium\"\n[[sink]]\nurl = \"kafka://{brokers}\"\n",
            database.url()
        ),
    );
    world.run(&["migrate"]).ok();
    // Whoever compacts a topic by tombstones has it compacted.
    let name = format!("outbox.event.{word}");
    let mut topic = Topic::create_on(&brokers, &name, 1, &[("cleanup.policy", "compact")]);
    database.query(&format!(
        "insert into outbox values ('01961c5e-0000-7000-8000-000000000001', '{word}', 'order-7', 'OrderDeleted', null)"
    ));
    world.run(&["run", "--until-empty"]).ok();
    let [record] = topic.read() else { panic!("one record: {:?}", topic.read()) };
    assert_eq!((record.key_text(), &record.value), ("order-7".to_owned(), &None));
    let headers: Vec<String> =
        record.headers.iter().map(|(name, _)| format!("`{name}: {}`", record.header(name))).collect();
    let row = format!("| `\"binary\"`, a NULL | `order-7` | {} | none: a tombstone |", headers.join("<br>"));
    let row = row.replace(&word, "Order");
    assert!(DOC.contains(&row), "docs/kafka.md has no such row: {row}");
    assert!(console(&brokers, &name).ends_with("\torder-7\tnull\n"));
}
