//! Adopting a live table: which one it is, and the layout that fits it. What cannot be told is said, not guessed.

mod built_in;
mod columns;
mod own;
mod words;

use postrider_core::layout::Layout;
use postrider_postgres::Described;

use crate::exit::Failure;

/// How a live table is adopted.
#[derive(Debug)]
pub(crate) struct Adopted {
    pub(crate) layout: Fits,
    /// The table's name, where it is not the layout's.
    pub(crate) table: Option<String>,
    /// Its schema, where the connection does not find it without.
    pub(crate) schema: Option<String>,
    /// Whether it is read by a cursor, which has to be told where to begin.
    pub(crate) needs_start: bool,
    /// What was guessed, and what is worth knowing.
    pub(crate) told: Vec<String>,
}

/// The layout that fits.
#[derive(Debug)]
pub(crate) enum Fits {
    BuiltIn(&'static str),
    /// A layout file of the user's own: its text.
    Own(String),
}

/// A table's name as a person types it: `outbox`, `shop.outbox`, `"My Shop"."Outbox"`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) schema: Option<String>,
    pub(crate) table: String,
}

/// The names of every table that a built-in layout has beside its outbox.
pub(crate) fn side_tables() -> Vec<String> {
    let layouts = Layout::built_in_names().filter_map(|name| Layout::built_in(name).ok());
    layouts.flat_map(|layout| built_in::sides(&layout)).map(|(table, _)| table).collect()
}

impl Named {
    /// Takes the name apart where a dot stands outside of quotes.
    pub(crate) fn parse(text: &str) -> Self {
        let (mut parts, mut quoted) = (vec![String::new()], false);
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            let part = parts.last_mut().expect("there is always one");
            match c {
                '"' if quoted && chars.peek() == Some(&'"') => {
                    part.push('"');
                    chars.next();
                }
                '"' => quoted = !quoted,
                '.' if !quoted => parts.push(String::new()),
                c => part.push(c),
            }
        }
        let table = parts.pop().unwrap_or_default();
        Self { schema: (!parts.is_empty()).then(|| parts.join(".")), table }
    }

    /// As it was typed, or as SQL folds it.
    fn is(&self, found: &Described) -> bool {
        let same = |typed: &str, name: &str| typed == name || typed.to_lowercase() == name;
        same(&self.table, &found.name)
            && self.schema.as_ref().is_none_or(|schema| same(schema, &found.schema))
    }
}

/// The table that is meant: the one that is named, or the only one that could be it.
pub(crate) fn choose<'t>(tables: &'t [Described], named: Option<&Named>) -> Result<&'t Described, Failure> {
    if let Some(named) = named {
        let mut found: Vec<_> = tables.iter().filter(|table| named.is(table)).collect();
        // What was typed exactly goes before what SQL would make of it, and what is found without a schema before the rest.
        let rank = |table: &Described| (table.name != named.table, !table.visible);
        found.sort_by_key(|table| rank(table));
        return match found[..] {
            [] => Err(Failure::failed(
                format!("table \"{}\"", named.table),
                "there is no such table",
                "Look at its spelling; a schema is written before it, as in shop.outbox. Of a view, name the table behind it",
            )),
            [table] => Ok(table),
            [table, next, ..] if rank(table) < rank(next) => Ok(table),
            _ => Err(several(&found)),
        };
    }
    let mut likely: Vec<_> = tables.iter().filter(|table| could_be(table, tables)).collect();
    if likely.iter().filter(|table| is_called_outbox(table)).count() > 0 {
        likely.retain(|table| is_called_outbox(table));
    }
    match likely[..] {
        [table] => Ok(table),
        [] => Err(Failure::failed(
            "init --from",
            "no table looks like an outbox: one has at least an id, an event's type and a payload",
            "Name the table with --table; or leave --from out, and `postrider migrate` creates one",
        )),
        _ => Err(several(&likely)),
    }
}

fn is_called_outbox(table: &Described) -> bool {
    table.name.to_lowercase().contains("outbox")
}

/// Whether it has what an outbox has, and is no table beside one.
fn could_be(table: &Described, tables: &[Described]) -> bool {
    let is_side = side_tables().contains(&table.name)
        && tables
            .iter()
            .any(|other| other.schema == table.schema && built_in::matching(other, tables).is_some());
    !is_side && !table.name.starts_with("postrider_") && columns::Found::of(table).is_outbox()
}

/// A table's name as [`Named::parse`] takes it.
fn typed(table: &Described) -> String {
    let part = |name: &str| match name.contains(['.', '"', ' ']) {
        true => format!("\"{}\"", name.replace('"', "\"\"")),
        false => name.to_owned(),
    };
    format!("{}.{}", part(&table.schema), part(&table.name))
}

fn several(tables: &[&Described]) -> Failure {
    let names: Vec<String> = tables.iter().map(|table| typed(table)).collect();
    Failure::usage(
        "init --from",
        format!("several tables could be the outbox: {}", names.join(", ")),
        "Say which one with --table",
    )
}

/// The layout that fits a table; an error says what could not be told.
pub(crate) fn adopt(table: &Described, tables: &[Described]) -> Result<Adopted, Vec<String>> {
    let schema = (!table.visible).then(|| table.schema.clone());
    if let Some(layout) = built_in::matching(table, tables) {
        let name = Layout::built_in_names().find(|name| *name == layout.name).unwrap_or("native");
        return Ok(Adopted {
            needs_start: own::needs_start(&layout),
            layout: Fits::BuiltIn(name),
            table: (layout.table.as_str() != table.name).then(|| table.name.clone()),
            schema,
            told: Vec::new(),
        });
    }
    let (text, layout, told) = own::layout(table)?;
    Ok(Adopted { needs_start: own::needs_start(&layout), layout: Fits::Own(text), table: None, schema, told })
}

#[cfg(test)]
mod tests;
