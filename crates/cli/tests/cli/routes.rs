//! What a layout and a route say of an event: columns that become attributes, types that have no order.

use postrider_servers::Database;
use serde_json::Value;

use crate::world::World;

/// A table of a user's own, read by `way`.
fn layout(way: &str) -> String {
    let status = match way {
        "lease" => {
            "status = \"status\"\n[status]\npending = \"NEW\"\npublished = \"SENT\"\ndead = \"FAILED\"\n"
        }
        _ => "",
    };
    format!(
        "name = \"own\"\ntable = \"own\"\nway = \"{way}\"\nnames = \"free\"\ntopic = \"own\"\non_dead = \"hold\"\n\
         [columns.extra]\ntenant = \"tenant_id\"\nregion = \"region\"\nshop = {{ constant = \"eu\" }}\ntotal = {{ json = \"$.total\" }}\n\
         [columns]\nid = \"id\"\ntype = \"type\"\nsource = {{ constant = \"/own\" }}\naggregate_type = {{ constant = \"Order\" }}\n\
         aggregate_id = \"k\"\npayload = \"payload\"\ntime = {{ none = true }}\n{status}"
    )
}

const TABLE: &str = "create table own (id ID, type text, k text, payload text, status text default 'NEW', tenant_id text, region int);";

/// Rows in a table of one's own, on SQLite and on PostgreSQL, relayed to a file with the given routes.
fn relayed(way: &str, rows: &str, routes: &str) -> Vec<Vec<Value>> {
    let mut all = Vec::new();
    for on_server in [false, true] {
        let world = World::new();
        let database = on_server.then(Database::create_blocking);
        let url = database.as_ref().map_or("sqlite://own.db".to_owned(), Database::url);
        world.write("layout.toml", &layout(way));
        let start = if way == "cursor" { "start = \"beginning\"\n" } else { "" };
        world.write(
            "postrider.toml",
            &format!(
                "[outbox]\nurl = \"{url}\"\nlayout = \"./layout.toml\"\npayload_bytes_max = 100\n{start}\
                 [[sink]]\nurl = \"file://events.jsonl\"\n{routes}"
            ),
        );
        let tables = |id: &str| format!("{}{rows}", TABLE.replace("ID", id));
        match &database {
            Some(database) => drop(database.query(&tables("bigserial primary key"))),
            None => {
                world.database("own.db").execute_batch(&tables("integer primary key autoincrement")).unwrap();
            }
        }
        world.run(&["migrate"]).ok();
        world.run(&["check"]).ok();
        world.run(&["run", "--until-empty"]).ok();
        all.push(
            world.read("events.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect(),
        );
    }
    all
}

/// F1: extra columns become attributes, and so headers; NULL is none, numbers are texts.
#[test]
fn extra_columns_become_attributes() {
    let rows = "insert into own (type, k, payload, tenant_id, region) values \
                ('Paid', '1', '{\"total\": 12}', 'acme', 7), ('Paid', '2', '{}', null, null);";
    for events in ["cursor", "lease"].into_iter().flat_map(|way| relayed(way, rows, "")) {
        let attributes =
            |event: &Value| ["tenant", "region", "shop", "total"].map(|name| event[name].clone());
        assert_eq!(attributes(&events[0]), ["acme", "7", "eu", "12"].map(Value::from));
        assert_eq!(attributes(&events[1]), [Value::Null, Value::Null, "eu".into(), Value::Null]);
    }
}

/// F2: a dead event holds its key, but not where its route has no order.
#[test]
fn what_has_no_order_is_not_held_back() {
    let large = "x".repeat(200);
    let rows = format!(
        "insert into own (type, k, payload) values ('order.made', '1', '{{\"n\": \"{large}\"}}'), ('order.paid', '1', '{{\"n\": 2}}'), \
         ('view_seen', '2', '{{\"n\": \"{large}\"}}'), ('view_seen', '2', '{{\"n\": 4}}'), ('viewXseen', '3', '{{\"n\": \"{large}\"}}'), \
         ('viewXseen', '3', '{{\"n\": 6}}');"
    );
    let routes = "[[route]]\ntype = \"view_*\"\norder = \"none\"\n";
    for events in ["cursor", "lease"].into_iter().flat_map(|way| relayed(way, &rows, routes)) {
        let numbers: Vec<&Value> = events.iter().map(|event| &event["data"]["n"]).collect();
        assert_eq!(numbers, [4]);
    }
}
