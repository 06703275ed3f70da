//! Following an append-only table by id.

use postrider_core::layout::Column;
use postrider_core::rows::Field;

use super::fields::{fields, kind, payload_bytes};
use super::time::LONG_AGO;
use super::{Names, name, quoted};
use crate::config::Config;
use crate::table::Table;

/// `:outbox` wherever Postrider's own tables are asked; `:fence` in every statement that writes.
#[derive(Debug)]
pub(crate) struct CursorSql {
    pub(crate) rows: RowsSql,
    pub(crate) write: WriteSql,
    /// `:owner`, `:fence`, `:left_us`: the epoch, the database's time, whether the lease is held, whether less than so much of
    /// it is left, and the highest id in the table.
    pub(crate) pulse: String,
    /// The database's time.
    pub(crate) now: String,
    /// `:owner`: whether the lease can be had.
    pub(crate) is_free: String,
    /// The highest and the lowest id in the table.
    pub(crate) bounds: String,
    /// `:first`, `:last`: the ids in between.
    pub(crate) between: String,
    /// `:fence`: from now on it is written under this one, and nothing is in anybody's hands.
    pub(crate) start_over: String,
    pub(crate) unclaim_all: String,
    /// Position, epoch, gaps.
    pub(crate) position: String,
    pub(crate) exceptions: String,
    pub(crate) ranges: String,
    /// First, last and when, of what was given up.
    pub(crate) closed: String,
}

/// Reading rows: plain ones are those behind `:after`, `:rows` at most. The others are the union of these with those that have
/// the ids `:ids`, a JSON array, and those in the gaps `:gaps`, an array of pairs; and, where kinds are asked for, those of
/// `:kinds` from `:first` to `:last`. Each is there as whole rows, and as ids with the sizes of their payloads.
#[derive(Debug)]
pub(crate) struct RowsSql {
    pub(crate) plain: Read,
    pub(crate) union: Read,
    pub(crate) with_kinds: Read,
    /// Rows by their ids alone.
    pub(crate) by_ids: String,
}

#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) whole: String,
    pub(crate) sizes: String,
}

/// What a cursor writes.
#[derive(Debug)]
pub(crate) struct WriteSql {
    /// `:epoch`, `:claimed`, `:returned`: one row where the fence is held and no verb came in between.
    pub(crate) mark: String,
    /// `:position`, `:claimed`, `:returned`, `:gaps` (null where they stay): one row where the fence is held.
    pub(crate) advance: String,
    /// Each takes a `:list`.
    pub(crate) claim: String,
    pub(crate) unclaim: String,
    pub(crate) keep: String,
    pub(crate) forget: String,
    pub(crate) park: String,
    pub(crate) give_up: String,
    pub(crate) reopen: String,
    pub(crate) unpark: String,
}

/// `:schema`, `:table`: the id that is drawn next. MySQL is to be told that it must not be an old one.
pub(crate) const NEXT_ID: &str = "select auto_increment from information_schema.tables \
    where table_schema = coalesce(:schema, database()) and table_name = :table";

impl CursorSql {
    pub(crate) fn new(config: &Config, table: &Table) -> Self {
        let names = Names::new(config);
        let id = id(config);
        let Names { table: outbox, position, exceptions, ranges, claims, closed, leases, now, .. } = &names;
        let at = "outbox = :outbox";
        Self {
            rows: RowsSql::new(config, table),
            write: WriteSql::new(&names),
            pulse: format!(
                "select p.epoch, {now}, l.fence is not null and p.fence = :fence, \
                 coalesce(l.expires_at < {}, true), (select max({id}) from {outbox} as t) \
                 from {position} as p left join {leases} as l \
                 on l.outbox = p.outbox and l.name = 'relay' and l.owner = :owner and l.fence = :fence \
                 where p.outbox = :outbox and p.position is not null",
                names.after(":left_us")
            ),
            now: format!("select {now}"),
            is_free: format!(
                "select not exists (select 1 from {leases} where {at} and name = 'relay' and owner <> :owner \
                 and expires_at > {now})"
            ),
            bounds: format!("select max({id}), min({id}) from {outbox} as t"),
            between: format!(
                "select {id} from {outbox} as t where {id} between :first and :last order by {id}"
            ),
            start_over: format!(
                "update {position} set fence = :fence, claimed = coalesce(position, 0), returned = null where {at}"
            ),
            unclaim_all: format!("delete from {claims} where {at}"),
            position: format!(
                "select position, epoch, gaps from {position} where {at} and position is not null"
            ),
            exceptions: format!(
                "select entry, key_scope, key_id, shelf, due, retries, error from {exceptions} where {at} order by entry"
            ),
            ranges: format!(
                "select event_type, aggregate_type, first_id from {ranges} where {at} order by number"
            ),
            closed: format!("select first_id, last_id, at from {closed} where {at} order by first_id"),
        }
    }
}

impl RowsSql {
    fn new(config: &Config, table: &Table) -> Self {
        let (outbox, id, layout) = (Names::new(config).table, id(config), &config.layout);
        let index = table.id_index(layout).map_or_else(|| "primary".into(), |index| quoted(&index.name));
        let number =
            if table.id(layout).is_some_and(|id| id.unsigned) { "bigint unsigned" } else { "bigint" };
        // The index is used however small the table is: each part finds its rows by it.
        let rows = format!("{outbox} as t force index ({index})");
        let listed = |from: &str| format!("json_table({from}, '$[*]' columns (id {number} path '$')) as i");
        let behind = format!("select {id} as id from {rows} where {id} > :after order by {id} limit :rows");
        let by_id =
            format!("(select {id} as id from {} straight_join {rows} on {id} = i.id)", listed(":ids"));
        let in_gaps = format!(
            "(select {id} as id from json_table(:gaps, '$[*]' columns (a {number} path '$[0]', b {number} path '$[1]')) as g \
             straight_join {rows} on {id} between g.a and g.b)"
        );
        let (event_type, aggregate_type) =
            (kind(layout, table, Field::Type), kind(layout, table, Field::AggregateType));
        let text = "text character set utf8mb4 collate utf8mb4_bin";
        let of_kinds = format!(
            "(select {id} as id from {rows} where {id} between :first and :last and exists (select 1 from json_table(:kinds, \
             '$[*]' columns (f {number} path '$.f', t {text} path '$.t', a {text} path '$.a')) as k \
             where k.f <= {id} and k.t = {event_type} and k.a = {aggregate_type}) order by {id} limit :rows)"
        );
        let (fields, bytes) = (fields(layout, table), payload_bytes(layout));
        let read = |select: &str, from: &str| {
            format!("select {select} from {from} straight_join {rows} on {id} = i.id order by i.id")
        };
        // As a union of ids, in one statement and so in one snapshot; the rows are fetched by them.
        let union = |parts: &[&str]| {
            let from =
                format!("({} union all ({behind}) order by id limit :rows) as i", parts.join(" union all "));
            Read { whole: read(&fields, &from), sizes: read(&format!("i.id, {bytes}"), &from) }
        };
        let plain = |select: &str| {
            format!("select {select} from {rows} where {id} > :after order by {id} limit :rows")
        };
        Self {
            plain: Read { whole: plain(&fields), sizes: plain(&format!("{id}, {bytes}")) },
            union: union(&[&by_id, &in_gaps]),
            with_kinds: union(&[&by_id, &in_gaps, &of_kinds]),
            by_ids: read(&fields, &listed(":ids")),
        }
    }
}

impl WriteSql {
    fn new(names: &Names) -> Self {
        let Names { position, exceptions, ranges, claims, closed, .. } = names;
        let numbers = "json_table(:list, '$[*]' columns (entry bigint path '$')) as g";
        let text = "text character set utf8mb4";
        let among = |table: &str, column: &str| {
            format!(
                "{numbers} straight_join {table} as e force index (primary) on e.outbox = :outbox and e.{column} = g.entry"
            )
        };
        Self {
            mark: format!(
                "update {position} set claimed = :claimed, returned = :returned \
                 where outbox = :outbox and fence = :fence and epoch = :epoch"
            ),
            advance: format!(
                "update {position} set position = :position, claimed = :claimed, returned = :returned, \
                 gaps = coalesce(:gaps, gaps) where outbox = :outbox and fence = :fence"
            ),
            claim: format!(
                "insert ignore into {claims} (outbox, entry) select :outbox, g.entry from {numbers}"
            ),
            unclaim: format!("delete e from {}", among(claims, "entry")),
            keep: format!(
                "insert into {exceptions} (outbox, entry, key_scope, key_id, shelf, due, retries, error) \
                 select :outbox, g.entry, g.scope, g.k, g.shelf, {LONG_AGO} + interval g.due microsecond, g.retries, g.error \
                 from json_table(:list, '$[*]' columns (entry bigint path '$.e', scope {text} path '$.s', k {text} path '$.k', \
                 shelf varchar(10) path '$.h', due bigint path '$.d', retries int path '$.r', error {text} path '$.x')) as g \
                 on duplicate key update key_scope = values(key_scope), key_id = values(key_id), shelf = values(shelf), \
                 due = values(due), retries = values(retries), error = values(error)"
            ),
            forget: format!("delete e from {}", among(exceptions, "entry")),
            unpark: format!("delete from {ranges} where outbox = :outbox"),
            park: format!(
                "insert into {ranges} (outbox, number, event_type, aggregate_type, first_id) \
                 select :outbox, g.n, g.t, g.a, g.f from json_table(:list, '$[*]' columns (n for ordinality, \
                 t {text} path '$.t', a {text} path '$.a', f bigint path '$.f')) as g"
            ),
            give_up: format!(
                "insert into {closed} (outbox, first_id, last_id, at) \
                 select :outbox, g.f, g.l, {LONG_AGO} + interval g.at_us microsecond from json_table(:list, '$[*]' columns \
                 (f bigint path '$.f', l bigint path '$.l', at_us bigint path '$.a')) as g \
                 on duplicate key update last_id = values(last_id), at = values(at)"
            ),
            reopen: format!("delete e from {}", among(closed, "first_id")),
        }
    }
}

fn id(config: &Config) -> String {
    let id = config.layout.columns.id.as_ref().and_then(Column::name);
    id.map_or_else(|| "t.id".into(), |id| format!("t.{}", name(id)))
}
