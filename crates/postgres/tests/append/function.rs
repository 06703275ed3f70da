//! The function that `migrate` installs, for every language that speaks SQL (F9).

use postrider_core::Layout;
use postrider_core::layout::Identifier;
use postrider_servers::query;

use crate::world::World;

const ORDER: &str = "type => 'loopers.order.created.v1', aggregate_type => 'Order', aggregate_id => '7'";

/// F9: the few arguments that are needed; the rest is filled in. It joins the transaction that is open.
#[tokio::test]
async fn an_event_is_appended_by_plain_sql() {
    let world = World::native().await;
    let call = format!("select * from postrider_append_outbox({ORDER}, payload => '{{\"total\": 12}}')");
    world.database.query(&format!("begin; {call}; rollback"));
    assert_eq!(world.value("select count(*) from outbox"), "0");
    let told = world.database.query(&call).swap_remove(0);
    let row = "select id || ' ' || event_id || ' ' || concat_ws('|', type, source, aggregate_type, aggregate_id, key, content_type, payload) \
        from outbox where abs(time - extract(epoch from now()) * 1e6) < 600e6";
    let [Some(entry), Some(event_id), repeated] = &told[..] else { panic!("{told:?}") };
    assert_eq!(repeated.as_deref(), Some("f"));
    let rest = "loopers.order.created.v1|/outbox|Order|7|{\"total\": 12}";
    assert_eq!(world.value(row), format!("{entry} {event_id} {rest}"));
    // A UUID of version 7.
    assert_eq!((event_id.len(), &event_id[14..15]), (36, "7"), "{event_id}");
    let positional =
        "select repeated from postrider_append_outbox('loopers.order.paid.v1', 'Order', '7', '{}')";
    assert_eq!(world.value(positional), "f");
}

/// A2: a repetition writes nothing, says so, and tells the first one's ids; a rolled back one leaves no trace.
#[tokio::test]
async fn a_repetition_is_a_no_op_by_plain_sql() {
    let world = World::native().await;
    let call = format!(
        "select entry || ' ' || event_id, repeated from postrider_append_outbox({ORDER}, payload => '{{}}', idempotency_key => 'r-1')"
    );
    world.database.query(&format!("begin; {call}; rollback"));
    let first = world.database.query(&call).swap_remove(0);
    let second = world.database.query(&call).swap_remove(0);
    assert_eq!((first[0].clone(), first[1].as_deref()), (second[0].clone(), Some("f")));
    assert_eq!(second[1].as_deref(), Some("t"));
    assert_eq!(world.value("select count(*) from outbox"), "1");
}

/// F5, B3: what the library refuses, the function refuses too, with a remedy and without the payload.
#[tokio::test]
async fn bad_input_is_refused_by_plain_sql() {
    let world = World::native().await;
    for (arguments, expected) in [
        (
            "type => 'OrderCreated', aggregate_type => 'Order', aggregate_id => '7'",
            "company.domain.action.v1",
        ),
        ("type => 'a.b.c.v01', aggregate_type => 'Order', aggregate_id => '7'", "company.domain.action.v1"),
        (
            "type => 'a.b.c.v4294967296', aggregate_type => 'Order', aggregate_id => '7'",
            "company.domain.action.v1",
        ),
        ("type => null, aggregate_type => 'Order', aggregate_id => '7'", "the event's type is missing"),
        ("type => 'a.b.c.v1', aggregate_type => 'Order'", "aggregate_id is missing"),
        ("type => 'a.b.c.v1', aggregate_type => E'a\\nb', aggregate_id => '7'", "control character"),
        (&format!("{ORDER}, key => '{}'", "k".repeat(1_025)), "over 1024 bytes"),
        (&format!("{ORDER}, payload => '{{secret'"), "not JSON"),
        (&format!("{ORDER}, payload_bytes => '{{secret'"), "not JSON"),
        (&format!("{ORDER}, payload => '1', payload_bytes => '1'"), "both"),
        (&format!("{ORDER}, payload => to_json(repeat('secret', 200000))::text"), "the limit is 1000000"),
        (&format!("{ORDER}, extensions => '[1]'"), "object of texts"),
        (&format!("{ORDER}, extensions => '{{\"Tenant\": \"x\"}}'"), "object of texts"),
        (&format!("{ORDER}, extensions => '{{\"tenant\": 7}}'"), "object of texts"),
        (&format!("{ORDER}, idempotency_key => ''"), "from 1 to 1024"),
    ] {
        let call = format!("select * from postrider_append_outbox({arguments})");
        let said = query(&world.database.url(), &call).expect_err(expected).to_string();
        assert!(said.contains(expected) && said.contains("HINT") && !said.contains("secret"), "{said}");
    }
    assert_eq!(world.value("select count(*) from outbox"), "0");
}

/// F5: what a table has no column for is refused, not dropped; free names are taken where the layout takes them.
#[tokio::test]
async fn what_the_table_has_no_column_for_is_refused_by_plain_sql() {
    let tables = "create table outbox_events (id uuid primary key, aggregate_type text, aggregate_id uuid, event_type text, payload jsonb, \
        occurred_at timestamptz, status text, retry_count int, next_attempt_at timestamptz default now(), last_error text, \
        processed_at timestamptz)";
    let world = World::of(Layout::built_in("logistics").unwrap(), tables).await;
    world.migrate().await;
    let call = |more: &str| {
        format!(
            "select event_id from postrider_append_outbox_events('OrderPlaced', 'Order', '018f3b0c-7d4e-7abc-8def-00000000000a', '{{}}'{more})"
        )
    };
    for more in ["key => 'k'", "sequence => 1", "extensions => '{}'", "content_type => 'text/plain'"] {
        let said = query(&world.database.url(), &call(&format!(", {more}"))).expect_err(more).to_string();
        assert!(said.contains("no column for it") && said.contains("HINT"), "{said}");
    }
    let event_id = world.value(&call(", trace => '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'"));
    let row = "select concat_ws('|', id, event_type, status, retry_count, next_attempt_at <= now()) from outbox_events";
    assert_eq!(world.value(row), format!("{event_id}|OrderPlaced|PENDING|0|t"));
    let again = call(&format!(", id => '{}'", event_id.to_uppercase()));
    assert!(query(&world.database.url(), &again).unwrap_err().to_string().contains("duplicate key"));
}

/// F9: migrating again, and after the layout has changed, leaves one function that fits; long names stay apart.
#[tokio::test]
async fn the_function_follows_the_layout() {
    let mut world = World::native().await;
    world.migrate().await;
    let functions = "select count(*) from pg_proc where proname like 'postrider\\_append\\_%'";
    assert_eq!(world.value(functions), "1");
    world.layout.columns.key = None;
    world.migrate().await;
    let call = format!("select * from postrider_append_outbox({ORDER}, key => 'k')");
    assert!(query(&world.database.url(), &call).unwrap_err().to_string().contains("no column for it"));
    for end in ["one", "two"] {
        world.layout.table = Identifier::new(format!("{}_{end}", "a_long_name_".repeat(4))).unwrap();
        world.layout.columns = Layout::built_in("native").unwrap().columns;
        world.outbox = postrider_postgres::Outbox::new(&world.layout).unwrap();
        world.migrate().await;
        let client = world.client().await;
        world.outbox.append_once(&client, &crate::world::plain(1), "k").await.unwrap();
        assert_eq!(world.value(&format!("select count(*) from {}", world.layout.table)), "1");
    }
    assert_eq!(world.value(functions), "3");
}

/// F5: a layout that does not fit its table is told, and the rest is migrated.
#[tokio::test]
async fn no_function_is_installed_for_a_layout_that_does_not_fit() {
    let world = World::of(
        Layout::built_in("debezium").unwrap(),
        "create table outbox (id uuid primary key, type text)",
    )
    .await;
    let config =
        postrider_postgres::Config::new(&world.database.url(), world.layout.clone(), "test").unwrap();
    let done = postrider_postgres::migrate(&config).await.unwrap();
    assert!(done.iter().any(|line| line.contains("maps column \"aggregatetype\"")), "{done:?}");
    world
        .database
        .query("alter table outbox add aggregatetype text, add aggregateid text, add payload jsonb");
    world.migrate().await;
    world.database.query("select * from postrider_append_outbox('OrderPlaced', 'Order', '7', '{}')");
    assert_eq!(world.value("select aggregateid from outbox"), "7");
}
