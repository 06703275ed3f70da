//! Appending: one statement for many rows.

use postrider_core::Layout;
use postrider_core::layout::Column;

use super::Names;
use crate::row_ids::RowIds;

/// What a column of a new row holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    EventId,
    Type,
    Source,
    AggregateType,
    AggregateId,
    Key,
    Time,
    ContentType,
    Trace,
    TraceState,
    Sequence,
    Extensions,
    Payload,
    /// The same in every row.
    Word(String),
    Zero,
}

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
        let columns = slots.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
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

fn slots(layout: &Layout, row_ids: RowIds) -> Vec<(String, Slot)> {
    let columns = &layout.columns;
    let mut slots: Vec<(String, Slot)> = Vec::new();
    let quoted = |column: &Option<Column>| column.as_ref().and_then(Column::name).map(|name| name.quoted());
    let assigned = quoted(&columns.id).filter(|_| row_ids != RowIds::Event);
    let mut put = |column: &Option<Column>, slot: Slot| {
        if let Some(name) = quoted(column)
            && assigned.as_ref() != Some(&name)
            && slots.iter().all(|(taken, _)| *taken != name)
        {
            slots.push((name, slot));
        }
    };
    put(&columns.id, Slot::EventId);
    put(&columns.event_id, Slot::EventId);
    put(&columns.event_type, Slot::Type);
    put(&columns.source, Slot::Source);
    put(&columns.aggregate_type, Slot::AggregateType);
    put(&columns.aggregate_id, Slot::AggregateId);
    put(&columns.key, Slot::Key);
    put(&columns.time, Slot::Time);
    put(&columns.content_type, Slot::ContentType);
    put(&columns.trace, Slot::Trace);
    put(&columns.trace_state, Slot::TraceState);
    put(&columns.sequence, Slot::Sequence);
    put(&columns.extensions, Slot::Extensions);
    put(&columns.payload, Slot::Payload);
    if let Some(words) = &layout.status {
        put(&columns.status, Slot::Word(words.pending.clone()));
    }
    put(&columns.retries, Slot::Zero);
    put(&columns.version, Slot::Zero);
    slots
}
