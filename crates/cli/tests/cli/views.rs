//! A layout that names a view: refused by name, with the table behind it (F5).

use postrider_servers::Database;

use crate::changed::WAYS;
use crate::world::World;

/// F1, F5: a view can be written through, but shows neither indexes nor locks nor where ids come from: every command that
/// reads it says so in one sentence, and names the table behind it, also through a second view.
#[test]
fn a_view_is_refused_and_its_table_named() {
    for (layout, tables, table, _) in WAYS {
        let (world, database) = (World::new(), Database::create_blocking());
        database.query(tables);
        let config = |table: &str| {
            let url = database.url();
            format!(
                "[outbox]\nurl = \"{url}\"\nlayout = \"{layout}\"\ntable = \"{table}\"\n[[sink]]\nurl = \"file://events.jsonl\"\n"
            )
        };
        world.write("postrider.toml", &config(table));
        world.run(&["migrate"]).ok();
        database.query(&format!(
            "create view first_view as select * from {table}; create view second_view as select * from first_view; \
             create materialized view third_view as select * from {table}"
        ));
        for view in ["first_view", "second_view", "third_view"] {
            world.write("postrider.toml", &config(view));
            let behind = format!("table = \"{table}\"");
            for (command, code) in [(&["check"][..], 5), (&["run", "--until-empty"], 2), (&["status"], 2)] {
                world.run(command).failed(code, &["it is a view", &behind]);
            }
        }
        let named = world.run(&["init", "--from", &database.url(), "--table", "first_view", "--force"]);
        named.failed(1, &["first_view", "Of a view, name the table behind it"]);
    }
}
