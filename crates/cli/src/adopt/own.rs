//! A layout of the user's own, written for a live table.

use postrider_core::layout::{Layout, TO_FILL_IN, Way};
use postrider_postgres::{Described, DescribedColumn, Holds};

use super::columns::Found;
use super::words::{Sorted, words};

/// Its file's text, the layout that it is, and what was guessed; an error says what could not be told.
pub(super) fn layout(table: &Described) -> Result<(String, Layout, Vec<String>), Vec<String>> {
    let found = Found::of(table);
    let mut unclear = found.unclear();
    for part in ["id", "type", "payload"] {
        if found.get(part).is_none() {
            unclear.push(format!("no column is called like an entry's {part}"));
        }
    }
    let counts = found.get("id").is_some_and(|id| id.counts && id.holds == Holds::Integer);
    let mut told = Vec::new();
    let mut states = Vec::new();
    match found.get("status") {
        Some(status) => states = status_words(status, &mut told),
        None if found.mark().is_some() => {
            let mark = found.mark().map_or("", |column| &column.name);
            told.push(format!("Guessed by name: an entry is published as soon as \"{mark}\" is set."));
        }
        None if counts => {}
        None => unclear.push(
            "it has neither a status column, nor a published_at that is empty until then, nor an id that the table hands out, so nothing says what is published".into(),
        ),
    }
    if !unclear.is_empty() {
        return Err(unclear);
    }
    let way = if states.is_empty() && found.mark().is_none() { Way::Cursor } else { Way::Lease };
    let text = text(table, &found, way, counts, &states, &mut told);
    // What is left to be filled in is sound as soon as it is.
    let open = format!("= \"{TO_FILL_IN}\"");
    let filled: String = text
        .split_inclusive(&open)
        .enumerate()
        .map(|(n, part)| part.replace(&open, &format!("= \"word {n}\"")))
        .collect();
    let layout = Layout::parse("the layout", filled.as_bytes()).map_err(|fault| vec![fault.to_string()])?;
    Ok((text, layout, told))
}

/// The word of each state, and what is said of it; what was not seen in the table is left for a person to fill in.
fn status_words(status: &DescribedColumn, told: &mut Vec<String>) -> Vec<(&'static str, String, String)> {
    let Sorted { mut found, left, missing } = words(status);
    let name = &status.name;
    if !found.is_empty() {
        let said: Vec<String> = found.iter().map(|(state, word)| format!("{word} = {state}")).collect();
        told.push(format!("Guessed by name: the words of \"{name}\": {}.", said.join(", ")));
    }
    if !left.is_empty() && missing.is_empty() {
        told.push(format!("Left out: {}: entries with these words are not touched.", left.join(", ")));
    }
    let seen = seen(status, &left);
    if !missing.is_empty() {
        told.push(format!(
            "Not known: what \"{name}\" holds in an entry that is {} ({seen}). Fill it in under [status], where \"{TO_FILL_IN}\" stands.",
            missing.join(", and in one that is ")
        ));
    }
    found.extend(missing.into_iter().map(|state| (state, TO_FILL_IN.to_owned())));
    let place = |state: &str| ["pending", "published"].iter().position(|first| *first == state).unwrap_or(2);
    found.sort_by_key(|(state, _)| place(state));
    let said = |word: &str| if word == TO_FILL_IN { format!("    # FILL IN: {seen}") } else { String::new() };
    found.into_iter().map(|(state, word)| (state, quoted(&word), said(&word))).collect()
}

/// Which words there are to choose from, and which one new rows have.
fn seen(status: &DescribedColumn, left: &[String]) -> String {
    let DescribedColumn { declared, default, .. } = status;
    let mut seen = match left {
        [] => format!("the table shows no word for it, the column is of type {declared}"),
        words => format!("of type {declared}, with {}", words.join(", ")),
    };
    if let Some(default) = default.as_ref().filter(|word| left.contains(word)) {
        seen.push_str(&format!("; {default} is the default of a new row"));
    }
    one_line(&seen)
}

/// A cursor on a table that Postrider did not create has to be told where to begin.
pub(super) fn needs_start(layout: &Layout) -> bool {
    layout.way == Way::Cursor && layout.sides.position.is_none() && layout.name != "native"
}

fn text(
    table: &Described,
    found: &Found<'_>,
    way: Way,
    counts: bool,
    states: &[(&'static str, String, String)],
    told: &mut Vec<String>,
) -> String {
    let order = if counts { "key" } else { "none" };
    let topic = if found.get("aggregate_type").is_some() { "{aggregate_type}-events" } else { "events" };
    let payload = match found.get("payload").map(|column| column.holds) {
        Some(Holds::Json) => "json",
        Some(Holds::Text) if found.get("content_type").is_none() => "json",
        _ => "bytes",
    };
    let mut text = format!(
        "# Written by `postrider init --from` for the table \"{}.{}\". `postrider check` compares the two.\n\
         name  = {name}\n\
         table = {name}\n\
         way   = \"{}\"    # cursor: append-only, read by id · lease: claimed by a status column · hold: by row locks\n\
         order = \"{order}\"    # key: the events of one key stay in order · none: best effort by time\n\
         names = \"free\"     # convention: only types like company.domain.action.v1\n\
         topic = \"{topic}\"\n\n\
         on_dead = \"skip\"   # hold: a dead entry holds back the later ones of its key\n\
         payload = \"{payload}\"\n",
        one_line(&table.schema),
        one_line(&table.name),
        way.word(),
        name = quoted(&table.name),
    );
    if let Some(mark) = found.mark() {
        text.push_str(&format!(
            "published = {{ column = {} }}    # set: published · empty: to be published\n",
            quoted(&mark.name)
        ));
    }
    let local = |column: &DescribedColumn| column.holds == Holds::Local;
    if found.mark().is_some_and(local) || found.parts().any(|(_, column)| local(column)) {
        text.push_str("zone    = \"UTC\"    # of the times that are written without one\n");
        told.push("Guessed: times without a zone are UTC.".into());
    }
    text.push_str("\n[columns]\n");
    for (part, column) in found.parts() {
        text.push_str(&format!("{part:14} = {}\n", quoted(&column.name)));
    }
    if found.get("source").is_none() {
        text.push_str(&format!(
            "{:14} = {{ constant = {} }}\n",
            "source",
            quoted(&format!("/{}", table.name))
        ));
    }
    if found.get("time").is_none() {
        text.push_str(&format!("{:14} = {{ none = true }}    # events are sent without a time\n", "time"));
        told.push("It has no column for the event's time: events are sent without one.".into());
    }
    if !states.is_empty() {
        text.push_str("\n[status]\n");
        for (state, word, said) in states {
            text.push_str(&format!("{state:9} = {word}{said}\n"));
        }
        if states.iter().all(|(state, ..)| *state != "dead") {
            text.push_str("# dead    =        # the word for entries that are given up; without one that is kept beside the table\n");
        }
    }
    let left = found.left_over();
    if !left.is_empty() {
        told.push(format!("Left out, since no part of an entry is called so: {}.", left.join(", ")));
    }
    text
}

/// A text as TOML has it.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

fn one_line(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).collect()
}
