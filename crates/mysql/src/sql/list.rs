//! Lists of rows as one parameter.

use postrider_core::{EntryId, Layout};
use serde::Serialize;

use super::{name, quoted};
use crate::table::{Kind, LiveColumn, Table};

/// What an entry is kept under beside the table.
const ENTRY: &str = "varchar(255) character set utf8mb4 collate utf8mb4_bin";

/// The row's id, and how a list of ids finds rows by their index: the list always leads the join, and the index is used however
/// small the table is, so that nothing is locked that is not listed.
#[derive(Clone, Debug)]
pub(crate) struct Id {
    /// On the table `t`.
    pub(crate) column: String,
    /// The type by which an id in a list is compared with it.
    listed: String,
    collation: Option<(String, String)>,
    counts: bool,
    /// The index that finds a row.
    pub(crate) index: String,
}

impl Id {
    pub(crate) fn new(layout: &Layout, table: &Table) -> Self {
        let id = layout.columns.id.as_ref().and_then(postrider_core::layout::Column::name);
        Self {
            column: id.map_or_else(|| "null".into(), |id| format!("t.{}", name(id))),
            listed: table.id(layout).map_or_else(|| ENTRY.into(), listed),
            collation: table.id(layout).and_then(|id| id.collation.clone()),
            counts: table.id_counts(layout),
            index: table.id_index(layout).map_or_else(|| "primary".into(), |index| quoted(&index.name)),
        }
    }

    /// The id as the text that an entry is kept under.
    pub(crate) fn text(&self) -> String {
        format!("cast({} as char character set utf8mb4) collate utf8mb4_bin", self.column)
    }

    /// That a row is the one that `s.entry` is kept for: by the id's own index.
    pub(crate) fn of_entry(&self) -> String {
        if self.counts {
            return format!("{} = cast(s.entry as signed)", self.column);
        }
        match &self.collation {
            Some((set, collation)) => {
                format!("{} = convert(s.entry using {set}) collate {collation}", self.column)
            }
            None => format!("{} = s.entry", self.column),
        }
    }

    /// The list in a parameter, with further columns, under the alias `g`.
    pub(crate) fn list(&self, parameter: &str, more: &str) -> String {
        format!(
            "json_table({parameter}, '$[*]' columns (n for ordinality, id {} path '$.e', entry {ENTRY} path '$.e'{more})) as g",
            self.listed
        )
    }

    /// The rows of a list.
    pub(crate) fn rows_of(&self, list: &str, table: &str) -> String {
        format!("{list} straight_join {table} as t force index ({}) on {} = g.id", self.index, self.column)
    }

    /// What is kept beside the rows of a list.
    pub(crate) fn beside(&self, list: &str, entries: &str) -> String {
        format!(
            "{list} straight_join {entries} as e force index (primary) on e.outbox = :outbox and e.entry = g.entry"
        )
    }

    /// What is no id of this table is no row's: the database would refuse the whole list for it.
    pub(crate) fn takes(&self, id: &EntryId) -> bool {
        !self.counts || id.int().is_some() || id.to_string().parse::<i64>().is_ok()
    }
}

fn listed(id: &LiveColumn) -> String {
    match (id.kind, &id.collation) {
        (Kind::Integer, _) if id.unsigned => "bigint unsigned".into(),
        (Kind::Integer, _) => "bigint".into(),
        (Kind::Text, Some((set, collation))) => {
            format!("varchar(255) character set {set} collate {collation}")
        }
        _ => ENTRY.into(),
    }
}

/// Ids as a list.
pub(crate) fn ids<'a>(ids: impl IntoIterator<Item = &'a str>) -> String {
    #[derive(Serialize)]
    struct Listed<'a> {
        e: &'a str,
    }
    let all: Vec<Listed<'_>> = ids.into_iter().map(|e| Listed { e }).collect();
    serde_json::to_string(&all).unwrap_or_default()
}
