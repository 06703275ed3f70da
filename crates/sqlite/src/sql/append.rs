//! Appending: one statement for many rows.

use postrider_core::Layout;
use postrider_core::append::{RowIds, Slot, slots};
use postrider_core::layout::Column;

use super::Names;

/// The largest number of rows in one statement, as a power of two.
const ROWS_MAX_LOG2: u32 = 8;

#[derive(Debug)]
pub(crate) struct AppendSql {
    /// Who gives new rows their ids.
    pub(crate) row_ids: RowIds,
    /// What the parameters of one row are.
    pub(crate) slots: Vec<Slot>,
    /// Statements for 1, 2, 4 … rows, so that any number needs few of them and all of them stay prepared.
    sized: Vec<String>,
    /// ?1 outbox, ?2 key, ?3 event id, ?4 time.
    pub(crate) remember: String,
    /// ?1 outbox, ?2 key, ?3 the row's id, ?4 the event's.
    pub(crate) complete: String,
    /// ?1 outbox, ?2 key: the event's id and the row's.
    pub(crate) recall: String,
}

/// ?1 table, ?2 schema, ?3 column: how it is declared, and whether it is the primary key, alone.
pub(crate) const ID_COLUMN: &str = "\
    select type, pk > 0 and (select count(*) from pragma_table_xinfo(?1, ?2) where pk > 0) = 1 \
    from pragma_table_xinfo(?1, ?2) where name = ?3 collate nocase";

impl AppendSql {
    /// `row_ids` says who gives new rows their ids.
    pub(crate) fn new(layout: &Layout, names: &Names, row_ids: RowIds) -> Self {
        let slots = slots(layout, row_ids);
        let columns = slots.iter().map(|(name, _)| name.quoted()).collect::<Vec<_>>().join(", ");
        let id =
            layout.columns.id.as_ref().and_then(Column::name).expect("a valid layout names its id").quoted();
        let row = format!("({})", vec!["?"; slots.len()].join(", "));
        let sized = (0..=ROWS_MAX_LOG2)
            .map(|log2| {
                let rows = vec![row.as_str(); 1 << log2].join(", ");
                format!("insert into {} ({columns}) values {rows} returning {id}", names.table)
            })
            .collect();
        Self {
            row_ids,
            slots: slots.into_iter().map(|(_, slot)| slot).collect(),
            sized,
            remember: format!(
                "insert into {} (outbox, key, event_id, written_at) values (?1, ?2, ?3, ?4) on conflict do nothing",
                names.idempotency
            ),
            complete: format!(
                "update {} set entry = ?3, event_id = ?4 where outbox = ?1 and key = ?2",
                names.idempotency
            ),
            recall: format!(
                "select event_id, entry from {} where outbox = ?1 and key = ?2",
                names.idempotency
            ),
        }
    }

    /// Splits a number of rows into statements: how many rows each takes, and its text.
    pub(crate) fn statements(&self, rows: usize) -> impl Iterator<Item = (usize, &str)> {
        let most = 1 << ROWS_MAX_LOG2;
        let full = std::iter::repeat_n(ROWS_MAX_LOG2, rows / most);
        let rest = rows % most;
        let parts = (0..ROWS_MAX_LOG2).rev().filter(move |log2| rest >> log2 & 1 == 1);
        full.chain(parts).map(|log2| (1 << log2, self.sized[log2 as usize].as_str()))
    }
}
