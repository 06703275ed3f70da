//! Following an append-only table by id.

use postrider_core::Layout;
use postrider_core::layout::Column;

use super::fields::{fields, kind};
use super::{Names, literal};
use postrider_core::rows::Field;

/// ?1 is the outbox everywhere, but for the statements that read rows.
#[derive(Debug)]
pub(crate) struct CursorSql {
    /// Rows behind an id: ?1 the id, ?2 rows at most.
    pub(crate) after: String,
    /// Their ids alone.
    pub(crate) after_ids: String,
    /// Ids of a kind: ?1 first, ?2 last, ?3 event type, ?4 aggregate type, ?5 rows at most.
    pub(crate) range_ids: String,
    /// Rows by their ids: ?1.
    pub(crate) listed: String,
    /// The highest id that the table ever had.
    pub(crate) highest: String,
    /// The position and the epoch.
    pub(crate) position: String,
    pub(crate) exceptions: String,
    pub(crate) ranges: String,
    /// ?2 position.
    pub(crate) start_over: String,
    /// ?2 position, ?3 claimed, ?4 returned.
    pub(crate) write_position: String,
    /// ?2 rows `[entry, scope, key, shelf, due, retries, error]`.
    pub(crate) upsert: String,
    /// ?2 ids.
    pub(crate) delete: String,
    pub(crate) delete_ranges: String,
    /// ?2 rows `[event type, aggregate type, first]`.
    pub(crate) insert_ranges: String,
    /// ?2 ids.
    pub(crate) claim: String,
    /// ?2 ids.
    pub(crate) unclaim: String,
    pub(crate) unclaim_all: String,
}

impl CursorSql {
    pub(crate) fn new(layout: &Layout, names: &Names) -> Self {
        let id =
            layout.columns.id.as_ref().and_then(Column::name).expect("a valid layout names its id").quoted();
        let (table, fields) = (&names.table, fields(layout));
        let (event_type, aggregate_type) = (kind(layout, Field::Type), kind(layout, Field::AggregateType));
        let schema = layout.schema.as_ref().map_or(String::new(), |schema| format!("{}.", schema.quoted()));
        let Names { position, exceptions, ranges, claims, .. } = names;
        Self {
            after: format!("select {fields} from {table} as t where t.{id} > ?1 order by t.{id} limit ?2"),
            after_ids: format!("select t.{id} from {table} as t where t.{id} > ?1 order by t.{id} limit ?2"),
            range_ids: format!(
                "select t.{id} from {table} as t where t.{id} between ?1 and ?2 \
                 and {event_type} = ?3 and {aggregate_type} = ?4 order by t.{id} limit ?5"
            ),
            listed: format!(
                "select {fields} from {table} as t where t.{id} in (select value from json_each(?1)) order by t.{id}"
            ),
            highest: format!(
                "select seq from {schema}sqlite_sequence where name = {}",
                literal(layout.table.as_str())
            ),
            position: format!("select position, epoch from {position} where outbox = ?1"),
            exceptions: format!(
                "select entry, key_scope, key_id, shelf, due, retries, error from {exceptions} where outbox = ?1"
            ),
            ranges: format!("select event_type, aggregate_type, first from {ranges} where outbox = ?1"),
            start_over: format!(
                "update {position} set claimed = position, returned = '[]' where outbox = ?1"
            ),
            write_position: format!(
                "update {position} set position = ?2, claimed = ?3, returned = ?4 where outbox = ?1"
            ),
            upsert: format!(
                "insert into {exceptions} (outbox, entry, key_scope, key_id, shelf, due, retries, error) \
                 select ?1, value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6 \
                 from json_each(?2) where true on conflict (outbox, entry) do update \
                 set key_scope = excluded.key_scope, key_id = excluded.key_id, shelf = excluded.shelf, \
                 due = excluded.due, retries = excluded.retries, error = excluded.error"
            ),
            delete: format!(
                "delete from {exceptions} where outbox = ?1 and entry in (select value from json_each(?2))"
            ),
            delete_ranges: format!("delete from {ranges} where outbox = ?1"),
            insert_ranges: format!(
                "insert into {ranges} (outbox, event_type, aggregate_type, first) \
                 select ?1, value ->> 0, value ->> 1, value ->> 2 from json_each(?2)"
            ),
            claim: format!(
                "insert into {claims} (outbox, entry) select ?1, value from json_each(?2) where true on conflict do nothing"
            ),
            unclaim: format!(
                "delete from {claims} where outbox = ?1 and entry in (select value from json_each(?2))"
            ),
            unclaim_all: format!("delete from {claims} where outbox = ?1"),
        }
    }
}
