use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::retry::Backoff;
use crate::route::Kind;

const NATIVE: &str = include_str!("../../../../layouts/native.toml");
const LOGISTICS: &str = include_str!("../../../../layouts/logistics.toml");
const COMMERCE: &str = include_str!("../../../../layouts/commerce.toml");
const DEBEZIUM: &str = include_str!("../../../../layouts/debezium.toml");

fn fault(text: &str) -> String {
    Layout::parse("my.toml", text.as_bytes()).unwrap_err().to_string()
}

/// F1: every layout that comes with Postrider can be read.
#[test]
fn the_built_in_layouts_are_sound() {
    for name in Layout::built_in_names() {
        assert_eq!(Layout::built_in(name).unwrap().name, name);
    }
    let fault = Layout::built_in("logistic").unwrap_err().to_string();
    assert!(fault.contains("Did you mean \"logistics\"?"), "{fault}");
}

/// D4: the layout's own retry vector.
#[test]
fn a_layout_says_how_its_table_spells_an_entry() {
    let layout = Layout::built_in("logistics").unwrap();
    assert_eq!(layout.interval, Interval::Every(Duration::from_millis(200)));
    assert_eq!(layout.retry.retries_max, 5);
    assert_eq!(layout.retry.backoff, Backoff::Steps([1, 2, 4, 8, 16].map(Duration::from_secs).to_vec()));
    assert_eq!(layout.columns.source, Some(Column::Constant("/logistics".into())));
    assert_eq!(layout.status.unwrap().open().collect::<Vec<_>>(), ["PENDING"]);
}

/// B19, B4: the tables as the team has them, by column.
#[test]
fn commerce_names_its_three_tables_by_column() {
    let layout = Layout::built_in("commerce").unwrap();
    let columns = layout.columns.given().map(|(key, column)| (key, column.name().unwrap().as_str()));
    assert_eq!(
        columns.collect::<Vec<_>>(),
        [
            ("id", "id"),
            ("event_id", "event_id"),
            ("type", "event_type"),
            ("source", "source"),
            ("aggregate_type", "aggregate_type"),
            ("aggregate_id", "aggregate_id"),
            ("payload", "payload"),
            ("time", "created_at"),
        ]
    );
    assert_eq!(
        (layout.table.as_str(), layout.way, layout.published),
        ("outbox", Way::Cursor, Published::Status)
    );
    let cursor = layout.sides.position.unwrap();
    let columns = cursor.given().map(|(key, column)| (key, column.as_str()));
    assert_eq!(
        (cursor.name.as_str(), columns.collect::<Vec<_>>()),
        ("outbox_cursor", vec![("id", "id"), ("position", "last_processed_id"), ("time", "created_at")])
    );
    let failed = layout.sides.failed.unwrap();
    let columns = failed.given().map(|(_, column)| column.as_str());
    assert_eq!(failed.name.as_str(), "outbox_failed");
    assert_eq!(
        columns.collect::<Vec<_>>().join(" "),
        "id event_id event_type source aggregate_type aggregate_id payload retry_count last_error failed_at next_retry_at"
    );
}

/// B5: every 500 ms, 100 rows, the aggregate's id as the key. B6: what failed holds its key until it is given up.
#[test]
fn commerce_is_read_at_the_teams_pace() {
    let layout = Layout::built_in("commerce").unwrap();
    assert_eq!((layout.interval, layout.batch), (Interval::Every(Duration::from_millis(500)), 100));
    assert_eq!((layout.order, layout.on_dead, &layout.columns.key), (Order::Key, OnDead::Skip, &None));
}

/// B8: every 5 s 50 rows; ten retries: the first at once, then after 1, 2, 4 … at most 300 s.
#[test]
fn commerce_retries_at_once_and_then_ever_slower() {
    let layout = Layout::built_in("commerce").unwrap();
    assert_eq!(layout.retry_runs, Some(RetryRuns { every: Duration::from_secs(5), entries: 50 }));
    assert_eq!(layout.retry.retries_max, 10);
    let waits = (1..=13).map(|k| layout.retry.backoff.wait(k, 0.9).as_secs());
    assert_eq!(waits.collect::<Vec<_>>(), [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
}

/// B3: names and topics by convention, with one type's topic of its own; a route goes before both.
#[test]
fn commerce_topics_follow_the_convention_but_for_one() {
    let layout = Layout::built_in("commerce").unwrap();
    assert_eq!(layout.names, Names::Convention);
    let topic = |router: &Router, event_type: &'static str| {
        let kind = Kind { event_type: event_type.into(), aggregate_type: "Product".into() };
        router.route(&kind).unwrap().topic.to_string()
    };
    let router = layout.router(vec![], "kafka");
    assert_eq!(topic(&router, "loopers.order.created.v1"), "order-events");
    assert_eq!(topic(&router, "loopers.product.viewed.v1"), "product-view-events");
    assert_eq!(topic(&router, "loopers.product.viewed.v2"), "product-events");
    let route = |topic: Option<&str>| {
        let topic = topic.map(str::to_owned);
        layout.router(
            vec![Route { event_type: "loopers.product.*".into(), sink: None, topic, order: None }],
            "kafka",
        )
    };
    assert_eq!(topic(&route(Some("views")), "loopers.product.viewed.v1"), "views");
    assert_eq!(topic(&route(None), "loopers.product.viewed.v1"), "product-view-events");
}

/// B1: Commerce and native send every attribute beside the payload. C1, D3: the id under the team's own name, too.
#[test]
fn each_layout_has_its_form() {
    for (name, id_as) in [
        ("native", None),
        ("commerce", None),
        ("logistics", Some("messageId")),
        ("order-service", Some("eventId")),
    ] {
        let form = Layout::built_in(name).unwrap().message;
        assert_eq!((form.shape, form.id_as.as_deref()), (Shape::Binary, id_as), "{name}");
    }
}

/// B11: the team's producer, as far as the layout sets it; what keeps order is the sink's own matter.
#[test]
fn commerce_and_native_have_their_own_producers() {
    let kafka = |name| Layout::built_in(name).unwrap().kafka.into_iter().collect::<Vec<_>>();
    let expected =
        [("linger.ms", "5"), ("max.in.flight.requests.per.connection", "5"), ("retry.backoff.ms", "1000")];
    assert_eq!(kafka("commerce"), expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    assert_eq!(kafka("native"), [("linger.ms".to_owned(), "0".to_owned())]);
}

/// F2: no order where a route says so; the first match wins.
#[test]
fn a_route_may_have_no_order() {
    let route =
        |event_type: &str, order| Route { event_type: event_type.into(), sink: None, topic: None, order };
    let routes = [route("a.b.*", None), route("a.*", Some(Order::None)), route("c.*", Some(Order::Key))];
    let layout = Layout::built_in("native").unwrap().with_routes(&routes);
    for (event_type, order) in
        [("a.b.c.v1", Order::Key), ("a.c.d.v1", Order::None), ("x", Order::Key), ("c.d", Order::Key)]
    {
        assert_eq!(layout.order_of(event_type), order, "{event_type}");
    }
    let plain = Layout::built_in("native").unwrap();
    assert_eq!(plain.clone().with_routes(&routes[..1]), plain);
}

/// F1: Debezium's columns; published rows are deleted, so that it needs no status, and has no time.
#[test]
fn debeziums_table_is_taken_as_it_is() {
    let layout = Layout::built_in("debezium").unwrap();
    assert_eq!((layout.way, layout.published, layout.order), (Way::Hold, Published::Delete, Order::None));
    assert_eq!((&layout.status, &layout.columns.status), (&None, &None));
    assert_eq!(layout.columns.time, Some(Column::Absent));
    let kind = Kind { event_type: "OrderCreated".into(), aggregate_type: "OrderLine".into() };
    let router = layout.router(vec![], "kafka");
    assert_eq!(router.route(&kind).unwrap().topic, "outbox.event.OrderLine");
    let cursor = DEBEZIUM
        .replace("\"hold\"", "\"cursor\"")
        .replace("published = \"delete\"", "")
        .replace("order = \"none\"", "order = \"key\"")
        .replace("id             = \"id\"\n", "id = \"seq\"\nevent_id = \"id\"\n");
    assert_eq!(Layout::parse("my.toml", cursor.as_bytes()).unwrap().way, Way::Cursor);
}

/// F1: a time or a flag shows what is published, in a table without a status.
#[test]
fn a_column_shows_what_is_published() {
    let marked = |mark: &str| DEBEZIUM.replace("published = \"delete\"", &format!("published = {mark}"));
    let layout =
        Layout::parse("my.toml", marked("{ column = \"sent_at\", as = \"unix_ms\" }").as_bytes()).unwrap();
    assert_eq!(layout.published, Published::Column);
    let Some(Column::Named(name, TimeForm::UnixMs)) = &layout.columns.published else { panic!("{layout:?}") };
    assert_eq!(name.as_str(), "sent_at");
    for (text, expected) in [
        (marked("{ column = \"sent\" }").replace("\"hold\"", "\"cursor\""), "writes to no row"),
        (LOGISTICS.replace("way ", "published = { column = \"x\" }\nway "), "and a status is mapped"),
        (marked("{ column = \"payload\" }"), "published.column and columns.payload are the same column"),
        (marked("{ colunm = \"x\" }"), "Did you mean \"column\"?"),
        (marked("\"delte\""), "Did you mean \"delete\"?"),
        (marked("{ column = \"\" }"), "needs a name"),
        (marked("true"), "{ column = \"sent_at\" }"),
    ] {
        let fault = fault(&text);
        assert!(fault.contains(expected) && fault.starts_with("my.toml:"), "{expected} in {fault}");
    }
}

/// F5: an unknown key names file, line and the nearest key, in any table of the file.
#[test]
fn an_unknown_key_is_named_with_its_line() {
    assert_eq!(
        fault(&format!("tabel = \"x\"\n{NATIVE}")),
        "my.toml:1: unknown key \"tabel\". Did you mean \"table\"?"
    );
    let columns = NATIVE.replace("trace_state ", "trace_stat ");
    assert!(
        fault(&columns).contains("unknown key \"trace_stat\". Did you mean \"trace_state\"?"),
        "{}",
        fault(&columns)
    );
    let inner = NATIVE.replace("as = \"unix_us\"", "ass = \"unix_us\"");
    assert!(fault(&inner).contains("unknown key \"ass\". Did you mean \"as\"?"), "{}", fault(&inner));
    let value = NATIVE.replace("\"cursor\"", "\"curser\"");
    assert_eq!(fault(&value), "my.toml:4: unknown value \"curser\". Did you mean \"cursor\"?");
}

/// F5: an impossible mapping is named with its remedy.
#[test]
fn an_impossible_mapping_is_refused() {
    for (text, expected) in [
        (LOGISTICS.replace("status         = \"status\"", ""), "columns.status is missing"),
        (LOGISTICS.split("[status]").next().unwrap().to_owned(), "[status] is missing"),
        (LOGISTICS.replace("published = \"PUBLISHED\"", ""), "status.published is missing"),
        (LOGISTICS.replace("\"FAILED\"", "\"PENDING\""), "status.dead and status.pending are the same word"),
        (LOGISTICS.replace("\"hold\"", "\"cursor\""), "never writes a status"),
        (NATIVE.replace("id             = \"id\"", ""), "columns.id is missing"),
        (
            NATIVE.replace("= \"payload\"", "= { json = \"$.x\" }"),
            "columns.payload is a constant or a JSON path",
        ),
        (
            NATIVE.replace("= \"type\"", "= { column = \"type\", as = \"unix_ms\" }"),
            "columns.type is no time",
        ),
        (NATIVE.replace("batch     = 1000", "batch = 0"), "batch = 0 is not from 1"),
        (NATIVE.replace("\"outbox\"", "\"\""), "needs a name"),
        (NATIVE.replace("\"outbox\"", "\"shop.outbox\""), "Write schema = \"shop\" and table = \"outbox\""),
        (
            COMMERCE.replace("\"outbox_failed\"", "\"a.b\""),
            "Write schema = \"a\" and retry.table.name = \"b\"",
        ),
        (NATIVE.replace("\"outbox\"", "\"a\\u0000b\""), "control character"),
        (NATIVE.replace("\"7d\"", "\"7 weeks\""), "no span of time"),
        (NATIVE.replace("\"event_id\"", "{ json = \"x\" }"), "no path into the payload"),
        (NATIVE.replace("= \"type\"", "= { none = true }"), "only columns.time can be"),
        (NATIVE.replace("= \"type\"", "= { none = false }"), "exactly one of"),
        (DEBEZIUM.replace("time           = { none = true }", "#"), "columns.time is missing"),
        (DEBEZIUM.replace("published = \"delete\"", ""), "columns.status is missing"),
        (DEBEZIUM.replace("[columns]", "[columns]\nstatus = \"state\""), "[status] is missing"),
        (DEBEZIUM.replace("\"hold\"", "\"cursor\""), "does not delete"),
        (COMMERCE.replace("\"cursor\"", "\"log\""), "[position.table] is for way = \"cursor\""),
        (COMMERCE.replace("interval    = \"5s\"", ""), "retry.interval and retry.batch one is missing"),
        (COMMERCE.replace("interval    = \"5s\"", "interval = \"0s\""), "retry.interval is zero"),
        (COMMERCE.replace("batch       = 50", "batch = 0"), "retry.batch is not from 1"),
        (
            COMMERCE.replace("\"outbox_failed\"", "\"outbox\""),
            "retry.table.name and table are the same table",
        ),
        (COMMERCE.replace("\"outbox_failed\"", "\"outbox_cursor\""), "and position.table are the same table"),
        (
            COMMERCE.replace("\"next_retry_at\"", "\"failed_at\""),
            "not_before and failed_at are the same column",
        ),
        (COMMERCE.replace("\"last_processed_id\"", "\"id\""), "position and id are the same column"),
        (COMMERCE.replace("not_before     = \"next_retry_at\"", ""), "missing field `not_before`"),
        (COMMERCE.replace("\"next_retry_at\"", "\"\""), "needs a name"),
        (COMMERCE.replace("loopers.product.viewed.v1", "ProductViewed"), "off the convention"),
        (COMMERCE.replace("\"product-view-events\"", "\"\""), "a type or its topic is empty"),
        (
            COMMERCE.replace("{domain}-events", "{domian}-events"),
            "topic: there is no {domian} to fill in. Did you mean \"{domain}\"?",
        ),
        (
            COMMERCE.replace("\"product-view-events\"", "\"{typ}\""),
            "[topics] \"loopers.product.viewed.v1\": there is no {typ}",
        ),
        (format!("{LOGISTICS}[kafka]\nlinger.ms = 5"), "write its name in quotes"),
        (NATIVE.replace("[retry]", "[columns.extra]\ntenant = \"tenant_id\"\n[retry]"), "are both given"),
        (
            LOGISTICS.replace("[status]", "[columns.extra]\nTenant = \"tenant_id\"\n[status]"),
            "lower-case letters",
        ),
        (
            LOGISTICS.replace("[status]", "[columns.extra]\nid = \"tenant_id\"\n[status]"),
            "name of another attribute",
        ),
        (COMMERCE.replace("\"binary\"", "\"payload\""), "consumers are promised every attribute"),
        (LOGISTICS.replace("form = \"binary\"", "form = \"structured\""), "a structured message has its id"),
        (NATIVE.replace("\"event_id\"", "{ json = \"$.x\", constant = \"y\" }"), "exactly one of"),
    ] {
        let fault = fault(&text);
        assert!(fault.contains(expected) && fault.starts_with("my.toml:"), "{expected} in {fault}");
    }
}

proptest! {
    /// F5: any bytes as a layout file never panic.
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = Layout::parse("my.toml", &bytes);
    }

    /// F5: nor do the built-in files with a hole cut, bytes put in or a line twice.
    #[test]
    fn no_damaged_layout_panics(at in 0usize..2_400, cut in 0usize..40, put in "(?s).{0,6}", file in 0usize..4) {
        let text = [NATIVE, LOGISTICS, COMMERCE, DEBEZIUM][file].as_bytes();
        let at = at.min(text.len());
        let end = (at + cut).min(text.len());
        let damaged = [&text[..at], put.as_bytes(), &text[end..]].concat();
        if let Err(fault) = Layout::parse("my.toml", &damaged) {
            prop_assert!(fault.to_string().starts_with("my.toml"));
            prop_assert!(!fault.remedy.is_empty());
        }
    }
}
