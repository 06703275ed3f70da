use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::retry::Backoff;

const NATIVE: &str = include_str!("../../../../layouts/native.toml");
const LOGISTICS: &str = include_str!("../../../../layouts/logistics.toml");

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
        (NATIVE.replace("\"outbox\"", "\"a\\u0000b\""), "control character"),
        (NATIVE.replace("\"7d\"", "\"7 weeks\""), "no span of time"),
        (NATIVE.replace("\"event_id\"", "{ json = \"x\" }"), "no path into the payload"),
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
    fn no_damaged_layout_panics(at in 0usize..1_200, cut in 0usize..40, put in "(?s).{0,6}", file in 0usize..2) {
        let text = [NATIVE, LOGISTICS][file].as_bytes();
        let at = at.min(text.len());
        let end = (at + cut).min(text.len());
        let damaged = [&text[..at], put.as_bytes(), &text[end..]].concat();
        if let Err(fault) = Layout::parse("my.toml", &damaged) {
            prop_assert!(fault.to_string().starts_with("my.toml"));
            prop_assert!(!fault.remedy.is_empty());
        }
    }
}
