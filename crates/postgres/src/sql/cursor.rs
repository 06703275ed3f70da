//! Following an append-only table by id.

use postrider_core::Layout;
use postrider_core::layout::Column;
use postrider_core::rows::Field;

use super::fields::{column, fields, kind, payload_bytes};
use super::{Names, in_schema, literal};
use crate::table::Table;

/// In every statement that writes, $1 is the outbox, $2 the owner and $3 the fence.
#[derive(Debug)]
pub(crate) struct CursorSql {
    pub(crate) rows: RowsSql,
    /// $1 outbox, $2 owner, $3 fence: the epoch, the database's time, whether the lease is held, whether it wants to be
    /// renewed ($4: its time to live in microseconds), the highest id that was ever drawn, and whether somebody else has
    /// written to the team's table of positions.
    pub(crate) pulse: String,
    /// $1 outbox, $2 what it has if nothing was ever drawn: the epoch, the database's time and the highest id that was ever
    /// drawn; what an idle relay asks most of the time, at half the cost.
    pub(crate) glance: String,
    /// $1 the table: who may still fill a gap.
    pub(crate) owners: &'static str,
    /// $1 outbox, $2 owner: whether the lease can be had.
    pub(crate) is_free: String,
    /// The highest id in the table.
    pub(crate) highest: String,
    /// The lowest id in the table.
    pub(crate) lowest: String,
    /// The ranges of ids from $1 to $2 that no row has.
    pub(crate) missing: String,
    /// $1 outbox: nothing is in anybody's hands.
    pub(crate) start_over: String,
    pub(crate) unclaim_all: String,
    /// $1 outbox: position, epoch, gaps.
    pub(crate) position: String,
    /// $1 outbox.
    pub(crate) exceptions: String,
    /// $1 outbox.
    pub(crate) ranges: String,
    /// $1 outbox: first, last and when, of what was given up.
    pub(crate) closed: String,
    /// $4 claimed, $5 returned, $6 epoch, $7 what had been set aside before: one row where it is done.
    pub(crate) mark: String,
    /// $4 position, $5 claimed, $6 returned, $7 what is no longer in hand.
    pub(crate) advance: String,
    /// The same, and $8 and $9 gaps, $10 to $16 exceptions, $17 those that are gone, $18 to $20 ranges, null where nothing
    /// changed; $21 to $23 closed gaps, $24 those that are none any more.
    pub(crate) write: String,
}

/// Reading rows: plain ones are those behind $1, $2 at most. The others are the union of rows with the ids $1, in the gaps
/// $2 to $3, of the kinds $4 and $5 from $6 to $7, and behind $8; $9 at most. A sized one stops by itself at as many bytes
/// as its last parameter says, and tells behind the envelope whether it did.
#[derive(Debug)]
pub(crate) struct RowsSql {
    pub(crate) plain: String,
    pub(crate) plain_sized: String,
    pub(crate) union: String,
    pub(crate) union_sized: String,
}

/// An insert locks the table, or the partition that it names, before its id is drawn, and until its end is visible: who holds
/// no such lock fills no gap. A prepared transaction is among them.
pub(crate) const OWNERS: &str = "\
with recursive tree(relid) as (select $1::oid union select i.inhrelid from pg_inherits as i join tree on i.inhparent = tree.relid) \
select distinct l.virtualtransaction from pg_locks as l \
where l.locktype = 'relation' and l.mode = 'RowExclusiveLock' and l.granted and l.relation in (select relid from tree) \
and l.database = (select oid from pg_database where datname = current_database())";

impl CursorSql {
    /// `sequence` is the one that ids are drawn from, quoted.
    pub(crate) fn new(layout: &Layout, table: &Table, sequence: &str) -> Self {
        let names = Names::new(layout);
        let id = id(layout);
        let Names { table: outbox, position, exceptions, ranges, claims, closed, leases, .. } = &names;
        // Who takes the lease over waits for whoever has this row, and comes to see what was written under the old fence.
        let held = format!(
            "held as (select 1 from {leases} where outbox = $1 and name = 'relay' and owner = $2 and fence = $3 for share)"
        );
        let is_held = "exists (select from held)";
        let TeamPosition { others, moved, seen } = TeamPosition::new(layout, position, is_held);
        let gone = format!(
            "gone as (delete from {claims} where outbox = $1 and entry = any($7::bigint[]) and {is_held})"
        );
        Self {
            rows: RowsSql::new(layout, table),
            pulse: format!(
                "select p.epoch, clock_timestamp(), l.fence is not null, \
                 coalesce(l.expires_at < clock_timestamp() + $4::bigint * 2 / 3 * interval '1 microsecond', true), \
                 (select case when is_called then last_value else last_value - 1 end from {sequence}), {others} \
                 from {position} as p left join {leases} as l \
                 on l.outbox = p.outbox and l.name = 'relay' and l.owner = $2 and l.fence = $3 where p.outbox = $1"
            ),
            glance: format!(
                "select epoch, clock_timestamp(), coalesce(pg_sequence_last_value({}), $2::bigint) from {position} where outbox = $1",
                regclass(sequence)
            ),
            owners: OWNERS,
            is_free: format!(
                "select not exists (select 1 from {leases} where outbox = $1 and name = 'relay' and owner <> $2 \
                 and expires_at > clock_timestamp())"
            ),
            highest: format!("select {id}::bigint from {outbox} as t order by {id} desc limit 1"),
            lowest: format!("select {id}::bigint from {outbox} as t order by {id} limit 1"),
            missing: format!(
                "select g.first, g.last from (select lag(i.id, 1, $1 - 1) over (order by i.id) + 1 as first, i.id - 1 as last \
                 from (select {id}::bigint as id from {outbox} as t where {id} between $1 and $2 union all select $2 + 1) as i) \
                 as g where g.first <= g.last order by g.first"
            ),
            start_over: format!(
                "update {position} set claimed = position, returned = '{{}}' where outbox = $1"
            ),
            unclaim_all: format!("delete from {claims} where outbox = $1"),
            position: format!(
                "select position, epoch, gap_first, gap_last from {position} where outbox = $1"
            ),
            exceptions: format!(
                "select entry, key_scope, key_id, shelf, due, retries, error from {exceptions} where outbox = $1 \
                 order by entry"
            ),
            ranges: format!(
                "select event_type, aggregate_type, first from {ranges} where outbox = $1 order by number"
            ),
            closed: format!("select first, last, at from {closed} where outbox = $1 order by first"),
            mark: format!(
                "with {held}, marked as (update {position} set claimed = $4, returned = $5 \
                 where outbox = $1 and epoch = $6 and {is_held} returning 1), \
                 again as (insert into {claims} (outbox, entry) select $1, e from unnest($7::bigint[]) as e \
                 where exists (select from marked) on conflict do nothing) select 1 from marked"
            ),
            advance: format!(
                "with {held}, {gone}{moved} \
                 update {position} set position = $4, claimed = $5, returned = $6{seen} where outbox = $1 and {is_held}"
            ),
            write: format!(
                "with {held}, {gone}{moved}, \
                 kept as (insert into {exceptions} (outbox, entry, key_scope, key_id, shelf, due, retries, error) \
                 select $1, e.entry, e.key_scope, e.key_id, e.shelf, \
                 timestamptz 'epoch' + e.due * interval '1 microsecond', e.retries, e.error \
                 from unnest($10::bigint[], $11::text[], $12::text[], $13::text[], $14::bigint[], $15::int[], $16::text[]) \
                 as e(entry, key_scope, key_id, shelf, due, retries, error) where {is_held} \
                 on conflict (outbox, entry) do update set key_scope = excluded.key_scope, key_id = excluded.key_id, \
                 shelf = excluded.shelf, due = excluded.due, retries = excluded.retries, error = excluded.error), \
                 settled as (delete from {exceptions} where outbox = $1 and entry = any($17::bigint[]) and {is_held}), \
                 parked as (insert into {ranges} (outbox, number, event_type, aggregate_type, first) \
                 select $1, r.number, r.event_type, r.aggregate_type, r.first \
                 from unnest($18::text[], $19::text[], $20::bigint[]) with ordinality \
                 as r(event_type, aggregate_type, first, number) where {is_held} \
                 on conflict (outbox, number) do update set event_type = excluded.event_type, \
                 aggregate_type = excluded.aggregate_type, first = excluded.first), \
                 freed as (delete from {ranges} where outbox = $1 and number > cardinality($18::text[]) and {is_held}), \
                 given_up as (insert into {closed} (outbox, first, last, at) select $1, c.first, c.last, \
                 timestamptz 'epoch' + c.at * interval '1 microsecond' \
                 from unnest($21::bigint[], $22::bigint[], $23::bigint[]) as c(first, last, at) where {is_held} \
                 on conflict (outbox, first) do update set last = excluded.last, at = excluded.at), \
                 reopened as (delete from {closed} where outbox = $1 and first = any($24::bigint[]) and {is_held}) \
                 update {position} set position = $4, claimed = $5, returned = $6, \
                 gap_first = coalesce($8::bigint[], gap_first), gap_last = coalesce($9::bigint[], gap_last){seen} \
                 where outbox = $1 and {is_held}"
            ),
        }
    }
}

/// What a team's own table of positions adds: a row for each move, and the highest id of those that are known.
struct TeamPosition {
    others: String,
    moved: String,
    seen: &'static str,
}

impl TeamPosition {
    fn new(layout: &Layout, position: &str, is_held: &str) -> Self {
        let Some(team) = &layout.sides.position else {
            return Self { others: "false".into(), moved: String::new(), seen: "" };
        };
        let table = in_schema(layout, &team.name.quoted());
        let (id, to) = (team.columns.id.quoted(), team.columns.position.quoted());
        let time = team.columns.time.as_ref().map(|time| format!(", {}", time.quoted()));
        let now = if time.is_some() { ", clock_timestamp()" } else { "" };
        Self {
            others: format!(
                "coalesce((select c.{id}::bigint from {table} as c order by c.{id} desc limit 1) > coalesce(p.seen, 0), false)"
            ),
            moved: format!(
                ", moved as (insert into {table} ({to}{}) select $4::bigint{now} where {is_held} \
                 and $4 <> (select position from {position} where outbox = $1) returning {id}::bigint as id)",
                time.unwrap_or_default()
            ),
            seen: ", seen = coalesce((select id from moved), seen)",
        }
    }
}

impl RowsSql {
    fn new(layout: &Layout, table: &Table) -> Self {
        let (outbox, id) = (Names::new(layout).table, id(layout));
        let (event_type, aggregate_type) =
            (kind(layout, table, Field::Type), kind(layout, table, Field::AggregateType));
        let fields = fields(layout, table);
        let behind = |after: &str, limit: &str| {
            format!("select t.* from {outbox} as t where {id} > {after} order by {id} limit {limit}")
        };
        let copies = copies(layout);
        // As a union, each part finds its rows by the index, whatever the parameters are; with `or` it would not.
        let union = format!(
            "select t.* from ((select t.* from {outbox} as t where {id} = any($1::bigint[])){copies} \
             union all (select t.* from unnest($2::bigint[], $3::bigint[]) as g(first, last) cross join lateral \
             (select t.* from {outbox} as t where {id} between g.first and g.last order by {id} limit $9) as t) \
             union all (select t.* from unnest($4::text[], $5::text[], $6::bigint[], $7::bigint[]) \
             as r(event_type, aggregate_type, first, last) cross join lateral \
             (select t.* from {outbox} as t where {id} between r.first and r.last \
             and {event_type} = r.event_type and {aggregate_type} = r.aggregate_type order by {id} limit $9) as t) \
             union all ({})) as t order by {id} limit $9",
            behind("$8", "$9")
        );
        let plain = behind("$1", "$2");
        let all = |rows: &str| format!("select {fields} from ({rows}) as t order by {id}");
        // Sizes are known without fetching the values: what does not fit is never sent.
        let bytes = payload_bytes(layout, table);
        let sized = |rows: &str, most: &str| {
            format!(
                "select {fields}, t.\"postrider through\" >= {most} from (select t.*, \
                 sum({bytes}) over (order by {id} rows unbounded preceding) as \"postrider through\" \
                 from ({rows}) as t) as t where t.\"postrider through\" - {bytes} < {most} order by {id}"
            )
        };
        Self {
            plain_sized: sized(&plain, "$3"),
            plain: all(&plain),
            union_sized: sized(&union, "$10"),
            union: all(&union),
        }
    }
}

/// What a team keeps in a table of its own after it failed is sent as it was, also when its row is gone from the outbox.
fn copies(layout: &Layout) -> String {
    if layout.sides.failed.is_none() {
        return String::new();
    }
    let Names { table, exceptions, .. } = Names::new(layout);
    format!(
        " union all (select t.* from {exceptions} as e cross join lateral json_populate_record(null::{table}, e.copy) as t \
         where e.outbox = {name} and e.entry = any($1::bigint[]) and e.copy is not null \
         and not exists (select from {table} as t where {id} = e.entry))",
        name = literal(layout.table.as_str()),
        id = id(layout),
    )
}

/// A relation by its name, which is looked up with each use: the sequence may be another one by then.
fn regclass(name: &str) -> String {
    format!("cast(cast('{}' as text) as regclass)", name.replace('\'', "''"))
}

fn id(layout: &Layout) -> String {
    column(layout.columns.id.as_ref().and_then(Column::name).expect("a valid layout names its id"))
}
