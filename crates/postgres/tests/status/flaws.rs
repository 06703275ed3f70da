//! F5: nonsense and NULL in every column is a flaw, and stops nothing.

use postrider_conformance::source::SourceHarness;
use postrider_core::layout::{Layout, Order, Way};
use postrider_core::{Settlement, layout::Published};

use crate::common::tables::full_status_layout;
use crate::common::{Harness, ask, block_on};
use crate::dead;

/// All columns as loose as they can be.
const TABLE: &str = "
    create table full_letters (
        id bigint generated always as identity primary key, event_id text, event_type text, kind text, subject text,
        payload text, created_at bigint, status text, retry_count int, max_retries int, next_retry_at timestamp,
        last_error text, sent_at bigint, locked_by text, locked_at timestamp, version int
    );
    create index on full_letters (status, next_retry_at);
";

/// Each row, and whether it is an event for all that.
const ROWS: &[(&str, &str, bool)] = &[
    ("event_id", "null", false),
    ("event_type", "null", false),
    ("kind", "null", false),
    ("subject", "null", false),
    ("created_at", "null", true),
    ("created_at", "9223372036854775807", false),
    ("retry_count", "null", true),
    ("retry_count", "-5", true),
    ("max_retries", "null", true),
    ("max_retries", "-1", true),
    ("next_retry_at", "null", true),
    ("next_retry_at", "'-infinity'", true),
    ("version", "null", true),
    ("version", "2147483647", true),
    ("locked_by", "'somebody'", true),
    ("locked_at", "'infinity'", true),
];

fn rows(harness: &Harness) {
    for (column, value, _) in ROWS {
        let all = [
            ("event_id", format!("'{column}'")),
            ("event_type", "'t'".into()),
            ("kind", "'k'".into()),
            ("subject", "'s'".into()),
            ("payload", "'{}'".into()),
            ("created_at", "0".into()),
            ("status", "'PENDING'".into()),
            ("next_retry_at", "'1970-01-01 00:00:00'".into()),
        ];
        let mut set: std::collections::BTreeMap<&str, String> = all.into();
        set.insert(column, (*value).to_owned());
        let (names, values): (Vec<&str>, Vec<String>) = set.into_iter().unzip();
        harness.database.query(&format!(
            "insert into full_letters ({}) values ({})",
            names.join(", "),
            values.join(", ")
        ));
    }
}

fn all_come(layout: Layout) {
    let deletes = layout.published == Published::Delete;
    let harness = Harness::new(layout, TABLE);
    rows(&harness);
    block_on(async {
        let source = harness.open("one").await;
        let mut came = 0;
        while came < ROWS.len() {
            let claim = source.take(&ask()).await;
            came += claim.entries.len();
            for entry in &claim.entries {
                let at = usize::try_from(entry.id.int().unwrap() - 1).unwrap();
                let (column, value, sound) = ROWS[at];
                assert_eq!(entry.flaw.is_none(), sound, "{column} = {value}: {:?}", entry.flaw);
            }
            source
                .finish(claim, |entry| if entry.flaw.is_some() { dead(0) } else { Settlement::Published })
                .await;
        }
        assert_eq!(source.drain(&ask()).await, Vec::<String>::new());
    });
    let dead = ROWS.iter().filter(|(_, _, sound)| !sound).count().to_string();
    let sound = (ROWS.len() - ROWS.iter().filter(|(_, _, sound)| !sound).count()).to_string();
    let count =
        |word: &str| harness.value(&format!("select count(*) from full_letters where status = '{word}'"));
    assert_eq!(count("DEAD_LETTER"), Some(dead));
    assert_eq!(count("COMPLETED"), Some(if deletes { "0".into() } else { sound }));
}

#[test]
fn f5_every_row_of_a_lease_comes_whatever_it_holds() {
    all_come(full_status_layout(Order::None));
}

#[test]
fn f5_every_row_of_an_ordered_lease_comes_whatever_it_holds() {
    all_come(full_status_layout(Order::Key));
}

#[test]
fn f5_every_row_of_a_hold_comes_whatever_it_holds() {
    all_come(Layout { way: Way::Hold, published: Published::Delete, ..full_status_layout(Order::None) });
}
