use postrider_postgres::{DescribedColumn, Holds};

use super::*;
use postrider_core::layout::Way;

fn column(name: &str, holds: Holds) -> DescribedColumn {
    let counts = name == "id" && holds == Holds::Integer;
    DescribedColumn {
        name: name.into(),
        declared: format!("{holds:?}").to_lowercase(),
        holds,
        counts,
        empty_at_first: false,
        words: Vec::new(),
        default: None,
    }
}

fn table(name: &str, columns: &[(&str, Holds)]) -> Described {
    let columns: Vec<_> = columns.iter().map(|(name, holds)| column(name, *holds)).collect();
    let primary_key = vec![columns[0].name.clone()];
    Described { schema: "public".into(), name: name.into(), visible: true, columns, primary_key }
}

fn status_table(words: &[&str]) -> Described {
    let mut table = table(
        "Events",
        &[
            ("id", Holds::Uuid),
            ("eventType", Holds::Text),
            ("aggregateId", Holds::Uuid),
            ("Payload", Holds::Json),
            ("createdAt", Holds::Local),
            ("Status", Holds::Text),
        ],
    );
    table.columns[5].words = words.iter().map(|word| (*word).to_owned()).collect();
    table
}

/// F1: a status table under its own names, with an enum's words; what was guessed is said.
#[test]
fn a_status_table_is_mapped_by_how_its_columns_are_called() {
    let adopted = adopt(&status_table(&["Pending", "Sent", "Failed", "Odd"]), &[]).unwrap();
    let Fits::Own(text) = &adopted.layout else { panic!("{adopted:?}") };
    let layout = Layout::parse("x", text.as_bytes()).unwrap();
    let columns: Vec<_> = layout
        .columns
        .given()
        .filter_map(|(part, column)| Some(format!("{part}={}", column.name()?)))
        .collect();
    assert_eq!(
        columns.join(" "),
        "id=id type=eventType aggregate_id=aggregateId payload=Payload time=createdAt status=Status"
    );
    let words = layout.status.unwrap();
    assert_eq!(
        (&*words.pending, words.published.as_deref(), words.dead.as_deref()),
        ("Pending", Some("Sent"), Some("Failed"))
    );
    assert!(adopted.told[0].contains("Pending = pending"), "{:?}", adopted.told);
    assert!(adopted.told[1].contains("Odd"), "{:?}", adopted.told);
    assert!(!adopted.needs_start);
}

/// F5: numbers, flags and words without a meaning are not guessed.
#[test]
fn what_is_not_to_be_guessed_is_said() {
    let said = |table: &Described| adopt(table, &[]).unwrap_err().join("; ");
    let mut dates = status_table(&[]);
    dates.columns[5].holds = Holds::Moment;
    assert!(said(&dates).contains("column \"Status\" is a text: which of its values means pending"));
    let mut ticks = status_table(&["NEW", "SENT", "FAILED"]);
    ticks.columns[4].holds = Holds::Integer;
    assert!(said(&ticks).contains("as = \"unix_ms\""));
    let mut bare = status_table(&[]);
    bare.columns.pop();
    assert!(said(&bare).contains("nothing says what is published"));
    bare.columns.remove(1);
    assert!(said(&bare).contains("an entry's type"));
}

/// F5: words that the table does not show are left to be filled in, and the layout is refused until they are.
#[test]
fn words_that_are_not_seen_are_left_to_be_filled_in() {
    let mut numbers = status_table(&["0", "1"]);
    numbers.columns[5].holds = Holds::Integer;
    for (table, open) in [
        (status_table(&["Pending"]), "status.published is"),
        (status_table(&["A", "B"]), "status.pending and status.published is"),
        (status_table(&[]), "status.pending and status.published is"),
        (numbers, "status.pending and status.published is"),
    ] {
        let adopted = adopt(&table, &[]).unwrap();
        let Fits::Own(text) = &adopted.layout else { panic!("{adopted:?}") };
        assert!(text.contains("= \"?\"    # FILL IN: "), "{text}");
        assert!(
            adopted.told.iter().any(|told| told.contains("Fill it in under [status]")),
            "{:?}",
            adopted.told
        );
        let fault = Layout::parse("x", text.as_bytes()).unwrap_err().to_string();
        assert!(fault.contains(&format!("{open} yet to be filled in")), "{fault}");
        let filled = text.replacen("= \"?\"", "= \"one\"", 1).replacen("= \"?\"", "= \"two\"", 1);
        Layout::parse("x", filled.as_bytes()).unwrap();
    }
}

/// F1, F5: the words there are to choose from are named, with the one that new rows have; a flag that is called a status is not
/// guessed either.
#[test]
fn words_to_choose_from_are_named() {
    let open = |table: &Described| {
        let adopted = adopt(table, &[]).unwrap();
        let Fits::Own(text) = &adopted.layout else { panic!("{adopted:?}") };
        let lines: Vec<String> =
            text.lines().filter(|line| line.contains("FILL IN")).map(str::to_owned).collect();
        (lines, adopted.told.join(" "))
    };
    let mut numbers = status_table(&["0", "1"]);
    numbers.columns[5].holds = Holds::Integer;
    numbers.columns[5].default = Some("0".into());
    let (lines, told) = open(&numbers);
    let said = "of type text, with 0, 1; 0 is the default of a new row";
    assert_eq!(
        lines,
        [
            format!("pending   = \"?\"    # FILL IN: {said}"),
            format!("published = \"?\"    # FILL IN: {said}")
        ]
    );
    assert!(told.contains(&format!("pending, and in one that is published ({said})")), "{told}");
    assert!(!told.contains("Left out: 0"), "{told}");
    let mut flag = status_table(&[]);
    flag.columns[5] = column("status", Holds::Boolean);
    let (lines, _) = open(&flag);
    assert_eq!(lines[0], "pending   = \"?\"    # FILL IN: of type boolean, with false, true");
    let (lines, _) = open(&status_table(&[]));
    assert_eq!(
        lines[1],
        "published = \"?\"    # FILL IN: the table shows no word for it, the column is of type text"
    );
}

/// F1: a flag is a status of two words; that an entry is dead is kept beside the table.
#[test]
fn a_flag_says_what_is_published() {
    let mut flag = status_table(&[]);
    flag.columns[5] = column("processed", Holds::Boolean);
    let adopted = adopt(&flag, &[]).unwrap();
    let Fits::Own(text) = &adopted.layout else { panic!("{adopted:?}") };
    let words = Layout::parse("x", text.as_bytes()).unwrap().status.unwrap();
    assert_eq!((&*words.pending, words.published.as_deref(), words.dead), ("false", Some("true"), None));
    assert!(adopted.told[0].contains("false = pending, true = published"), "{:?}", adopted.told);
}

/// F1: a table without a status whose time of publishing is empty at first shows by that what is published.
#[test]
fn a_time_that_is_empty_at_first_says_what_is_published() {
    let mut marked = table(
        "log",
        &[("id", Holds::Integer), ("kind", Holds::Text), ("data", Holds::Bytes), ("sent_at", Holds::Local)],
    );
    let cursor = adopt(&marked, &[]).unwrap();
    let Fits::Own(text) = &cursor.layout else { panic!("{cursor:?}") };
    assert_eq!(
        Layout::parse("x", text.as_bytes()).unwrap().way,
        Way::Cursor,
        "one that is always set shows nothing"
    );
    for (name, holds) in [("sent_at", Holds::Local), ("is_published", Holds::Boolean)] {
        marked.columns[3] = DescribedColumn { empty_at_first: true, ..column(name, holds) };
        let adopted = adopt(&marked, &[]).unwrap();
        let Fits::Own(text) = &adopted.layout else { panic!("{adopted:?}") };
        let layout = Layout::parse("x", text.as_bytes()).unwrap();
        assert_eq!((layout.way, adopted.needs_start), (Way::Lease, false));
        let mark = layout.columns.published.as_ref().and_then(|column| column.name());
        assert_eq!(mark.map(|mark| mark.as_str()), Some(name));
        assert!(
            adopted.told[0].contains(&format!("published as soon as \"{name}\" is set")),
            "{:?}",
            adopted.told
        );
    }
}

/// F1: an append-only table is a cursor, which has to be told where to begin.
#[test]
fn an_id_that_counts_makes_a_cursor() {
    let events = table("log", &[("id", Holds::Integer), ("kind", Holds::Text), ("data", Holds::Bytes)]);
    let adopted = adopt(&events, &[]).unwrap();
    let Fits::Own(text) = &adopted.layout else { panic!("{adopted:?}") };
    let layout = Layout::parse("x", text.as_bytes()).unwrap();
    assert_eq!((layout.way, adopted.needs_start), (Way::Cursor, true));
    assert_eq!(layout.payload, postrider_core::layout::Payload::Bytes);
}

#[test]
fn one_of_several_has_to_be_named() {
    let outbox =
        |name| table(name, &[("id", Holds::Integer), ("type", Holds::Text), ("payload", Holds::Text)]);
    let tables = [outbox("orders"), outbox("shop_outbox")];
    assert_eq!(choose(&tables, None).unwrap().name, "shop_outbox", "its name says so");
    let tables = [outbox("Outbox"), outbox("outbox"), outbox("old_outbox")];
    let failure = choose(&tables, None).unwrap_err();
    assert!(failure.fault.unwrap().to_string().contains("public.Outbox, public.outbox, public.old_outbox"));
    let odd = [outbox("my \"Outbox"), outbox("an outbox")];
    let named = choose(&odd, None).unwrap_err().fault.unwrap().to_string();
    assert!(
        named.contains("public.\"my \"\"Outbox\", public.\"an outbox\""),
        "as --table takes them: {named}"
    );
    assert_eq!(choose(&odd, Some(&Named::parse("public.\"my \"\"Outbox\""))).unwrap().name, "my \"Outbox");
    assert_eq!(choose(&tables, Some(&Named::parse("Outbox"))).unwrap().name, "Outbox");
    assert_eq!(choose(&tables, Some(&Named::parse("public.OLD_OUTBOX"))).unwrap().name, "old_outbox");
    assert!(choose(&tables, Some(&Named::parse("other.outbox"))).is_err());
    assert!(choose(&[], None).is_err());
}

#[test]
fn names_are_taken_apart_outside_of_quotes() {
    let named = |text: &str| {
        let Named { schema, table } = Named::parse(text);
        (schema, table)
    };
    assert_eq!(named("outbox"), (None, "outbox".into()));
    assert_eq!(named("shop.outbox"), (Some("shop".into()), "outbox".into()));
    assert_eq!(named("\"My.Shop\".\"Out\"\"box\""), (Some("My.Shop".into()), "Out\"box".into()));
}
