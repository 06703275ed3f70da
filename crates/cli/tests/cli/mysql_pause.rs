//! A relay that is stopped (SIGSTOP) past its lease on a team's own table, and continued (A7, F8): it settles nothing any more,
//! and what it published comes at most twice, with the same bytes.

use postrider_servers::{Record, Topic, kafka};
use rustix::process::Signal;

use crate::bank::{Bank, servers};
use crate::wait::until;

const EVENTS: usize = 6;

/// Stops a relay at a point for longer than its lease, lets another one finish, and lets it go on.
fn paused(server: &str, layout: &str, point: &str) {
    let mut topic = Topic::create(2);
    let sink = format!(
        "lease_ttl = \"2s\"\n[[sink]]\nname = \"kafka\"\nurl = \"kafka://{}\"\n[[route]]\ntopic = \"{}\"\n[relay]\npoll = \"50ms\"\n",
        kafka(),
        topic.name()
    );
    let bank = Bank::new(server, layout, &sink);
    for n in 1..=EVENTS as u32 {
        match layout {
            "donation" => bank.donate(&format!("r-{n}"), &[]),
            _ => bank.post("LEDGER_POSTED", &format!("account-{}", n % 2), n),
        }
    }
    let place = format!("{layout} at {point} on {server}");
    let table = if layout == "donation" { "donation_outbox" } else { "outbox_event" };
    let rows = || bank.sql(&format!("select * from {table} order by id"));
    let mut first =
        bank.world.start("first", &["run", "-v"], &[("POSTRIDER_PAUSE_AT", &format!("{point}:1"))]);
    until(&format!("the pause of {place}"), || first.stands_still());
    // It waits for the lease of the one that stands still.
    bank.world.run(&["run", "--until-empty"]).ok();
    let settled = rows();
    let done = if layout == "donation" { "COMPLETED" } else { "PROCESSED" };
    assert_eq!(settled.iter().filter(|row| row.contains(done)).count(), EVENTS, "{place}: {settled:?}");
    first.signal(Signal::CONT);
    first.wait_until_said("a claim was lost to another relay");
    first.signal(Signal::TERM);
    assert_eq!(first.wait().code(), Some(0), "{place}: {}", first.said());
    assert_eq!(rows(), settled, "{place}: it settles nothing");
    assert_eq!(bank.sql("select * from postrider_entries"), Vec::<String>::new(), "{place}");

    let records = topic.read();
    for record in records {
        let same: Vec<&Record> =
            records.iter().filter(|other| other.header("ce_id") == record.header("ce_id")).collect();
        assert!(same.len() <= 2, "{place}: {same:?}");
        assert!(same.iter().all(|other| (&other.headers, &other.value) == (&record.headers, &record.value)));
    }
    let mut ids: Vec<String> = records.iter().map(|record| record.header("ce_id")).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), EVENTS, "{place}: every event has arrived");
    // What was never sent is not sent any more by who lost it.
    if point == "claimed" {
        assert_eq!(records.len(), EVENTS, "{place}");
    }
}

#[test]
fn a_relay_stopped_past_its_lease_settles_nothing_and_publishes_at_most_duplicates() {
    let servers = servers();
    std::thread::scope(|scope| {
        for server in &servers {
            for (layout, points) in
                [("donation", ["planned", "judged"]), ("ledger", ["claimed", "kafka.acked"])]
            {
                scope.spawn(move || points.iter().for_each(|point| paused(server, layout, point)));
            }
        }
    });
}
