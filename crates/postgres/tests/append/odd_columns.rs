//! A status that is no text, and a column that shows what is published: each driver writes a row that is to be published (F1).

use postrider_core::Layout;

use crate::world::{Driver, End, World, id, plain};

fn layout(published: &str, status: &str, words: &str) -> Layout {
    let text = format!(
        r#"
        name = "odd"
        table = "odd"
        way = "lease"
        names = "free"
        {published}
        [columns]
        id = "id"
        type = "event_type"
        aggregate_type = "aggregate_type"
        aggregate_id = "aggregate_id"
        payload = "payload"
        time = "created_at"
        retries = "retries"
        {status}
        {words}
    "#
    );
    Layout::parse("odd.toml", text.as_bytes()).unwrap()
}

/// Appends with every driver, one by one, together and through the function; each row holds this in its column.
async fn all_write(layout: Layout, declared: &str, expected: &str) {
    let tables = format!(
        "create domain stage as int check (value between 0 and 9); create domain late_stage as stage; \
         create type word as enum ('TODO', 'DONE'); create domain word_of as word; create domain state_word as word_of; \
         create domain number as uuid; create domain number_of as number; create domain document as jsonb; create domain flag as boolean; create domain zoned as timestamptz; create domain moment as zoned; create domain mark as flag; \
         create table odd (id number_of primary key, event_type text, aggregate_type text, aggregate_id text, payload document, \
         created_at moment, odd {declared}, retries smallint not null)"
    );
    let world = World::of(layout, &tables).await;
    world.migrate().await;
    for driver in Driver::ALL {
        world.append(driver, &[plain(1), plain(2), plain(3)], End::Commit).await;
        world.append_once(driver, &plain(4), &format!("{driver:?}")).await;
        let row = "concat_ws(' ', id, coalesce(odd::text, 'null'), retries)";
        let stored = world.texts(&format!("select {row} from odd order by 1"));
        let expected: Vec<String> = (1..=4).map(|n| format!("{} {expected} 0", id(n))).collect();
        assert_eq!(stored, expected, "{declared} by {driver:?}");
        world.database.query("delete from odd");
    }
}

/// F1, F9: a status that is a flag or a number of any size gets the word of what is to be published.
#[tokio::test]
async fn a_status_that_is_a_flag_or_a_number() {
    for (declared, pending, published) in [
        ("boolean not null", "false", "true"),
        ("boolean not null default true", "false", "true"),
        ("smallint not null", "0", "1"),
        ("integer not null check (odd in (-1, 7))", "-1", "7"),
        ("bigint", "9007199254740993", "1"),
        ("stage not null", "3", "4"),
        ("late_stage not null", "3", "4"),
        ("state_word not null", "TODO", "DONE"),
        ("mark not null", "false", "true"),
        ("numeric(4)", "10", "20"),
        ("char(1)", "N", "S"),
    ] {
        let words = format!("[status]\npending = \"{pending}\"\npublished = \"{published}\"");
        all_write(layout("", "status = \"odd\"", &words), declared, pending).await;
    }
}

/// F1, F9: what shows that a row is published is empty in a new one, whatever the table would fill in.
#[tokio::test]
async fn a_column_that_shows_what_is_published() {
    for (declared, expected) in [
        ("timestamptz", "null"),
        ("timestamp default now()", "null"),
        ("bigint", "null"),
        ("boolean", "false"),
        ("boolean not null", "false"),
        ("boolean not null default true", "false"),
        ("mark", "false"),
    ] {
        all_write(layout("published = { column = \"odd\", as = \"unix_ms\" }", "", ""), declared, expected)
            .await;
    }
}
