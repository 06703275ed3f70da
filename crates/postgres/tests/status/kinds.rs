//! Status columns that are no text (F1): flags and numbers.

use postrider_conformance::source::SourceHarness;
use postrider_core::layout::{Layout, Order, Way};
use postrider_core::store::Filter;
use postrider_core::{Settlement, State};
use postrider_postgres::{Weight, check};

use crate::common::{Harness, ask, block_on};
use crate::dead;

fn layout(words: &str, way: Way, order: Order) -> Layout {
    let text = format!(
        r#"
        name = "flags"
        table = "flags"
        way = "lease"
        [columns]
        id = "id"
        type = "kind"
        source = {{ constant = "/test" }}
        aggregate_type = {{ constant = "Order" }}
        aggregate_id = "subject"
        payload = "payload"
        time = {{ none = true }}
        status = "done"
        [status]
        {words}
        "#
    );
    Layout { way, order, ..Layout::parse("flags.toml", text.as_bytes()).unwrap() }
}

/// F1: a boolean or an integer status; what it has no word for is kept beside the table.
#[test]
fn flags_and_numbers_are_statuses() {
    let flag = "pending = \"false\"\npublished = \"true\"";
    let number = "pending = \"0\"\nleased = \"5\"\npublished = \"1\"\ndead = \"-1\"";
    for (words, kind, published, given_up) in [
        (flag, "boolean not null default false", "true", "false"),
        (number, "smallint not null default 0", "1", "-1"),
        (number, "bigint not null default 0", "1", "-1"),
    ] {
        for (way, order) in [(Way::Lease, Order::Key), (Way::Lease, Order::None), (Way::Hold, Order::None)] {
            let harness = Harness::new(
                layout(words, way, order),
                &format!(
                    "create table flags (id bigint generated always as identity primary key, kind text not null default 'x', \
                     subject text not null, payload text not null default '{{}}', done {kind}); \
                     create index on flags (done, id)"
                ),
            );
            harness.database.query("insert into flags (subject) values ('a'), ('b'), ('c')");
            block_on(async {
                let found = check(&harness.config("check")).await;
                let faults = found.iter().filter(|finding| finding.weight == Weight::Fault);
                assert_eq!(faults.map(|finding| finding.fault.to_string()).collect::<Vec<_>>(), [""; 0]);
                let source = harness.open("relay").await;
                let claim = source.take(&ask()).await;
                assert_eq!(claim.entries.len(), 3);
                source
                    .finish(claim, |entry| match &*entry.envelope.aggregate_id {
                        "a" => Settlement::Published,
                        "b" => dead(1),
                        _ => crate::retried(1, 60_000),
                    })
                    .await;
                assert_eq!(source.drain(&ask()).await, [""; 0], "{kind} {way:?}");
                let store = harness.store().await;
                let depth = store.depth().await.unwrap();
                let counts = (depth.published, depth.dead, depth.waiting, depth.pending, depth.unknown);
                assert_eq!(counts, (1, 1, 1, 0, 0), "{kind} {way:?}");
                let of_dead = Filter { state: Some(State::Dead), ..Filter::default() };
                assert_eq!(store.list(&of_dead).await.unwrap().len(), 1);
                assert_eq!(
                    harness.value("select done::text from flags where subject = 'a'").as_deref(),
                    Some(published)
                );
                assert_eq!(
                    harness.value("select done::text from flags where subject = 'b'").as_deref(),
                    Some(given_up)
                );
                assert_eq!(store.revive(&of_dead, false).await.unwrap(), 1);
                assert_eq!(source.drain(&ask()).await.len(), 1, "{kind} {way:?}");
                assert_eq!(store.depth().await.unwrap().published, 2);
            });
        }
    }
}
