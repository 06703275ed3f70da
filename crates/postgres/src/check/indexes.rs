//! Indexes: the one that claiming needs, and those that every write pays for.

use postrider_core::layout::{Column, Identifier, Way};

use super::Found;
use crate::sql::mark::Mark;
use crate::sql::status::{behind, is_indexed, order};
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

    /// Without an index on the open rows, every claim reads the whole table; without one in their order, it sorts.
    fn open_rows(&mut self, table: &Table) {
        let layout = self.config.layout.clone();
        let is_there = |name: &&Identifier| table.column(name.as_str()).is_some();
        let order: Vec<&Identifier> = order(&layout, table).into_iter().filter(is_there).collect();
        let mark = Mark::new(&layout, table);
        let mapped = layout.columns.status.as_ref().or(layout.columns.published.as_ref());
        let Some(teller) = mapped.and_then(Column::name).filter(is_there) else { return };
        let columns = order.iter().map(|name| name.quoted()).collect::<Vec<_>>().join(", ");
        let holds = match &mark {
            Some(mark) => format!("({columns}) where {}", mark.condition()),
            None => format!("({}, {columns})", teller.quoted()),
        };
        let create = format!(
            "create index concurrently {} on {} {holds};",
            quoted(&format!("{}_open", layout.table)),
            Names::new(&layout).table,
        );
        let useful: Vec<&Index> =
            table.indexes.iter().filter(|index| behind(index, teller).is_some()).collect();
        let first = order.first().map_or("", |name| name.as_str());
        let begins = |index: &Index| behind(index, teller).and_then(|behind| Some(behind.first()? == first));
        let problem = if useful.is_empty() {
            let what = match mark {
                Some(_) => format!("no index holds the rows whose {} is not set", teller.quoted()),
                None => format!("no index begins with {}, nor holds open rows only", teller.quoted()),
            };
            format!("{what}: each claim reads the whole table")
        } else if is_indexed(&layout, table) {
            return;
        } else if useful.iter().any(|index| begins(index) == Some(true)) {
            format!(
                "no index has the open rows in the whole order that they are claimed in ({columns}): those with the same {first}, which \
                 may be all, are sorted with each page. One that has it does the work of the one there is"
            )
        } else {
            format!(
                "no index has the open rows in the order that they are claimed in ({columns}): each claim sorts all of them"
            )
        };
        self.advise(problem, create);
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
