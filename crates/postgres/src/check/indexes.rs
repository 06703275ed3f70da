//! Indexes: the one that claiming needs, and those that every write pays for.

use postrider_core::layout::{Column, Identifier, Published, Way};

use super::Found;
use crate::sql::{Names, quoted};
use crate::table::{Index, Table};

/// More than this, and writers pay more for indexes than for the row.
const INDEXES_MAX: usize = 4;

impl Found<'_> {
    pub(super) fn indexes(&mut self, table: &Table) {
        if self.layout().way != Way::Cursor {
            self.open_rows(table);
            self.claimed(table);
        }
        if table.indexes.len() > INDEXES_MAX {
            self.advise(
                format!(
                    "the table has {} indexes: each further one costs a writer a fifth to a half more per event",
                    table.indexes.len()
                ),
                "Drop those that no query of yours needs; Postrider needs the one on the id, and on a status table one that begins with the status.",
            );
        }
    }

    /// Without an index on the open rows, every claim reads the whole table.
    fn open_rows(&mut self, table: &Table) {
        let layout = self.layout();
        if layout.published == Published::Column {
            let columns: Vec<String> = order(layout, table).into_iter().map(Identifier::quoted).collect();
            return self.unmarked_rows(table, &columns);
        }
        let Some(status) = layout.columns.status.as_ref().and_then(Column::name) else { return };
        if table.column(status.as_str()).is_none() {
            return;
        }
        let mentions =
            |index: &Index| index.condition.as_ref().is_some_and(|on| on.contains(status.as_str()));
        let leads = |index: &Index| index.columns.first().is_some_and(|first| first == status.as_str());
        let order = order(self.layout(), table);
        let columns: Vec<String> =
            std::iter::once(status).chain(order.iter().copied()).map(Identifier::quoted).collect();
        let create = format!(
            "create index concurrently {} on {} ({});",
            quoted(&format!("{}_open", layout.table)),
            Names::new(layout).table,
            columns.join(", ")
        );
        let useful: Vec<&Index> =
            table.indexes.iter().filter(|index| leads(index) || mentions(index)).collect();
        if useful.is_empty() {
            self.advise(
                format!(
                    "no index begins with {}, nor holds open rows only: each claim reads the whole table",
                    status.quoted()
                ),
                create,
            );
            return;
        }
        let first = order.first().map_or("", |name| name.as_str());
        let in_order = |index: &&Index| {
            let behind = if leads(index) { &index.columns[1..] } else { &index.columns[..] };
            behind.first().is_some_and(|column| column == first)
        };
        if !useful.iter().any(in_order) {
            self.advise(
                format!(
                    "no index has the open rows in the order that they are claimed in ({}): each claim sorts all of them",
                    columns[1..].join(", ")
                ),
                create,
            );
        }
    }

    /// What each claim writes stands in no index, so that a claim is a cheap update in place.
    fn claimed(&mut self, table: &Table) {
        let columns = &self.config.layout.columns;
        let named = [
            ("lease_owner", &columns.lease_owner),
            ("leased_at", &columns.leased_at),
            ("version", &columns.version),
        ];
        for (key, column) in named {
            let Some(name) = column.as_ref().and_then(Column::name).map(|name| name.as_str()) else {
                continue;
            };
            if table.indexes.iter().any(|index| index.columns.iter().any(|column| column == name)) {
                self.advise(
                    format!("an index mentions \"{name}\" (columns.{key}), which every claim writes: each claim rewrites all indexes"),
                    format!("Drop that index, or leave columns.{key} out of the layout: leases are then kept beside the table."),
                );
            }
        }
    }
}

/// What open rows are claimed in the order of.
fn order<'l>(layout: &'l postrider_core::Layout, table: &Table) -> Vec<&'l Identifier> {
    let columns = &layout.columns;
    let name = |column: &'l Option<Column>| column.as_ref().and_then(Column::name);
    let leads = match layout.way {
        Way::Hold => [name(&columns.not_before), name(&columns.time)],
        _ if table.id_counts(layout) => [None, None],
        _ => [name(&columns.time), None],
    };
    let all = leads.into_iter().chain([name(&columns.id)]).flatten();
    all.filter(|name| table.column(name.as_str()).is_some()).collect()
}
