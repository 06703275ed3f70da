//! F8: a thousand rows of 1 MB go through in bounded memory, in each way.

use postrider_servers::Database;
use rustix::process::Signal;

use crate::changed::WAYS;
use crate::wait::until;
use crate::world::World;

/// What is in claims is 16 MB and one entry more; what the driver reads, the copy that entries share and the encoded messages
/// are as much again, each of them for two claims at the most.
const MEMORY_KB_MAX: u64 = 160 * 1024;

#[test]
fn a_thousand_rows_of_a_megabyte_in_bounded_memory() {
    // The whole thousand by the way that reads the most at once, and more than fits into memory by the others. What JSONB
    // counts for is known by how it is stored, so there it is nothing that can be compressed.
    let many = "repeat('x', 999900)";
    let sundry = "(select string_agg(md5(i::text), '') from generate_series(1, 31000) as i)";
    let loads = [(1_000, many), (400, many), (200, sundry)];
    for ((layout, tables, table, (names, values)), (rows, text)) in WAYS.into_iter().zip(loads) {
        let (world, database) = (World::new(), Database::create_blocking());
        database.query(tables);
        world.write(
            "postrider.toml",
            &format!(
                "[outbox]\nurl = \"{}\"\nlayout = \"{layout}\"\n[relay]\npoll = \"20ms\"\n[[sink]]\nurl = \"null:\"\n",
                database.url()
            ),
        );
        world.run(&["migrate"]).ok();
        database.query(&format!(
            "with large as materialized (select '{{\"x\":\"' || {text} || '\"}}' as text) \
             insert into {table} ({names}, payload) select {values}, large.text::json \
             from large cross join generate_series(1, {rows})"
        ));
        let mut relay = world.start("relay", &["run"], &[]);
        let published = || {
            let status: serde_json::Value =
                serde_json::from_str(&world.run(&["status", "--json"]).ok()).unwrap();
            status["published"].as_u64()
        };
        until("all of them", || published() == Some(rows));
        let peak = relay.peak_kb();
        assert!(peak < MEMORY_KB_MAX, "{layout}: {peak} KB");
        relay.signal(Signal::TERM);
        assert!(relay.wait().success(), "{}", relay.said());
    }
}
