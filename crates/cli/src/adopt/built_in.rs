//! Whether a built-in layout fits exactly.

use std::collections::BTreeSet;

use postrider_core::layout::{Column, Layout, TimeForm, Way};
use postrider_postgres::{Described, DescribedColumn, Holds};

/// The built-in layout that fits: every column has its part, and every part its column.
pub(super) fn matching(table: &Described, tables: &[Described]) -> Option<Layout> {
    Layout::built_in_names()
        .filter_map(|name| Layout::built_in(name).ok())
        .find(|layout| has_its_columns(table, layout) && has_its_sides(table, tables, layout))
}

/// The tables that a layout has beside its outbox, with their columns.
pub(super) fn sides(layout: &Layout) -> Vec<(String, Vec<String>)> {
    let names = |given: Vec<(&'static str, &postrider_core::layout::Identifier)>| {
        given.into_iter().map(|(_, column)| column.to_string()).collect()
    };
    let position = layout.sides.position.as_ref();
    let failed = layout.sides.failed.as_ref();
    position
        .map(|table| (table.name.to_string(), names(table.given().collect())))
        .into_iter()
        .chain(failed.map(|table| (table.name.to_string(), names(table.given().collect()))))
        .collect()
}

fn has_its_columns(table: &Described, layout: &Layout) -> bool {
    let mapped: BTreeSet<&str> =
        layout.columns.given().filter_map(|(_, column)| column.name()).map(|name| name.as_str()).collect();
    let there: BTreeSet<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
    let of = |part: Option<&Column>| -> Option<&DescribedColumn> {
        let name = part?.name()?;
        table.columns.iter().find(|column| column.name == name.as_str())
    };
    let time = match &layout.columns.time {
        Some(Column::Named(_, TimeForm::Text)) => &[Holds::Moment, Holds::Local][..],
        Some(Column::Named(..)) => &[Holds::Integer],
        _ => &[],
    };
    mapped == there
        && of(layout.columns.time.as_ref()).is_none_or(|column| time.contains(&column.holds))
        && (layout.way != Way::Cursor || of(layout.columns.id.as_ref()).is_some_and(|id| id.counts))
        && of(layout.columns.status.as_ref()).is_none_or(|status| has_its_words(status, layout))
}

fn has_its_words(status: &DescribedColumn, layout: &Layout) -> bool {
    let Some(words) = &layout.status else { return false };
    let known = [Some(&words.pending), words.leased.as_ref(), words.published.as_ref(), words.dead.as_ref()];
    status.holds == Holds::Text
        && status.words.iter().chain(&status.default).all(|word| known.contains(&Some(word)))
}

fn has_its_sides(table: &Described, tables: &[Described], layout: &Layout) -> bool {
    sides(layout).iter().all(|(name, columns)| {
        tables.iter().any(|side| {
            side.schema == table.schema
                && side.name == *name
                && columns.iter().all(|column| side.columns.iter().any(|there| there.name == *column))
        })
    })
}
