//! Databases without an encoding hold any bytes as text (F5).

use postrider_servers::Database;
use serde_json::Value;

use crate::changed::WAYS;
use crate::world::World;

/// F5: in a database of the encoding SQL_ASCII, a payload that is no UTF-8 is a dead entry that says so; all others flow on.
#[test]
fn a_row_that_is_no_utf_8_is_dead_and_the_rest_flows_on() {
    for (layout, tables, table, (names, values)) in WAYS {
        let (world, database) = (World::new(), Database::create_without_encoding());
        database.query(tables);
        let url = database.url();
        world.write(
            "postrider.toml",
            &format!(
                "[outbox]\nurl = \"{url}\"\nlayout = \"{layout}\"\n[[sink]]\nurl = \"file://events.jsonl\"\n"
            ),
        );
        world.run(&["migrate"]).ok();
        for payload in ["{\"n\":1}", "{\"n\":\"\\377\"}", "{\"n\":3}"] {
            // Another key each, so that nobody waits for the dead one.
            let values = values.replacen("'7'", &format!("'{}'", payload.len()), 1);
            database.query(&format!(
                "insert into {table} ({names}, payload) values ({values}, convert_from('{payload}', 'SQL_ASCII')::{kind})",
                kind = if layout == "logistics" { "jsonb" } else { "text" },
            ));
        }
        let ran = world.run(&["run", "--until-empty"]);
        assert_eq!(ran.code, 0, "{layout}: {}", ran.stderr);
        let landed = world.landed();
        assert_eq!(landed.lines().count(), 2, "{layout}: {landed}");
        let dead = world.run(&["list", "--state", "dead", "--json"]).ok();
        let dead: Vec<Value> = dead.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(dead.len(), 1, "{layout}: {dead:?}");
        let error = dead[0]["error"].as_str().unwrap_or_default();
        assert!(error.contains("not UTF-8"), "{layout}: {error}");
        world.run(&["show", &dead[0]["id"].to_string().replace('"', "")]).ok();
        world.run(&["check"]).ok();
    }
}
