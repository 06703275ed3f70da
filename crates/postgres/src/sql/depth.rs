//! Counting: ranges of ids and index ranges, never a row more than is counted.

use postrider_core::Layout;
use postrider_core::layout::{OnDead, Order};

use super::Names;
use super::fields::key;
use super::seen::{NOW, Seen, Status};
use crate::table::Table;

/// Parameters as in [`super::store::StoreSql`], the first five of them.
#[derive(Debug)]
pub(crate) struct DepthSql {
    /// Each state or shelf by its word, and how many: `waiting` is not due, `due` is.
    pub(crate) counts: String,
    /// Rows by the table's own word, where it has a status.
    pub(crate) words: Option<String>,
    /// The key with the most entries held back behind it, how many those are, and how many there are behind all keys.
    pub(crate) culprit: Option<String>,
}

impl DepthSql {
    pub(crate) fn new(layout: &Layout, names: &Names, table: &Table, ttl_us: i64) -> Self {
        let rows = Seen::new(layout, names, table, ttl_us);
        if rows.is_cursor() { of_cursor(&rows) } else { of_status(&rows) }
    }
}

/// $1 the table's name: who writes to it or any part of it, the oldest transaction first.
pub(crate) const WRITERS: &str = "\
select coalesce('prepared transaction \"' || p.gid || '\"', 'process ' || l.pid || coalesce(', user ' || a.usename, '') || \
coalesce(', ' || nullif(a.application_name, ''), '') || \
coalesce(', open for ' || date_trunc('second', pg_catalog.clock_timestamp() - a.xact_start), ''), 'a prepared transaction') \
from (select distinct pid, virtualtransaction from pg_locks where locktype = 'relation' and mode = 'RowExclusiveLock' \
and database = (select oid from pg_database where datname = current_database()) and pid is distinct from pg_backend_pid() \
and relation in (select relid from pg_partition_tree(to_regclass($1)) union all select to_regclass($1))) as l \
left join pg_stat_activity as a on a.pid = l.pid \
left join pg_locks as x on x.virtualtransaction = l.virtualtransaction and x.locktype = 'transactionid' \
and x.mode = 'ExclusiveLock' and l.pid is null left join pg_prepared_xacts as p on p.transaction = x.transactionid \
order by coalesce(p.prepared, a.xact_start) limit 5";

fn of_cursor(rows: &Seen<'_>) -> DepthSql {
    let Names { table, exceptions, ranges, claims, .. } = rows.names;
    let (id, gaps) = (&rows.id.column, rows.gaps());
    let in_table = format!("exists (select 1 from {table} as t where {id} = x.entry)");
    // Rows that are neither an exception nor claimed one by one.
    let plain = format!(
        "not exists (select 1 from {exceptions} as d where d.outbox = $1 and d.entry = {id}) \
         and not ($5 and exists (select 1 from {claims} as d where d.outbox = $1 and d.entry = {id}))"
    );
    let parked = rows.parked();
    let ranged =
        format!("{id} >= (select min(first) from {ranges} where outbox = $1) and {plain} and {parked}");
    let stood = stood(rows);
    let within = format!("join {table} as t on {id} between g.first and g.last");
    let passed = rows.passed();
    DepthSql {
        counts: format!(
            "select 'behind', count(*) from {table} as t where {id} > $2 \
             union all select 'before', count(*) from {table} as t where {id} <= $2 \
             union all select 'leased', count(*) from {table} as t where $5 and {id} > $2 and {id} <= $3 and {plain} \
                 and {id} <> all($4) \
             union all select 'again', count(*) from {claims} where outbox = $1 and $5 \
             union all select 'again before', count(*) from {claims} as x where x.outbox = $1 and $5 and x.entry <= $2 and {in_table} \
                 and not exists (select 1 from {exceptions} as d where d.outbox = $1 and d.entry = x.entry) \
             union all select 'ranged', count(*) from {table} as t where {ranged} and {id} <= $2 \
             union all select 'ranged behind', count(*) from {table} as t where {ranged} and {id} > greatest($2, $3) \
             union all select 'passed', count(*) from {passed} {within} where {id} <= $2 and {plain} and not {parked} \
             union all select 'gap ids', coalesce(sum(g.last - g.first + 1), 0)::int8 from {gaps} \
             union all select 'gap rows', count(*) from {gaps} {within} \
             union all select x.word, count(*) from ({stood}) as x \
                 where not ($5 and exists (select 1 from {claims} as d where d.outbox = $1 and d.entry = x.entry)) group by 1 \
             union all select 'exceptions behind', count(*) from {exceptions} as x where x.outbox = $1 and x.entry > $2 and {in_table} \
             union all select 'exceptions before', count(*) from {exceptions} as x where x.outbox = $1 and x.entry <= $2 and {in_table}"
        ),
        words: None,
        culprit: Some(format!(
            "select key_scope, key_id, count(*), 0::int8 from ({stood}) as x where word = 'parked' \
             and key_id is not null group by 1, 2 order by 3 desc, 1, 2 limit 1"
        )),
    }
}

/// How each exception stands. One whose time has come cannot go either while one of its key before it waits, or is dead and
/// holds it.
fn stood(rows: &Seen<'_>) -> String {
    let dead = match rows.layout.on_dead {
        OnDead::Hold => " or shelf = 'dead'",
        OnDead::Skip => "",
    };
    format!(
        "select entry, key_scope, key_id, case when shelf <> 'waiting' then shelf when due > {NOW} then 'waiting' \
         when key_id is not null and bool_or((shelf = 'waiting' and due > {NOW}){dead}) over \
         (partition by key_scope, key_id order by entry rows between unbounded preceding and 1 preceding) then 'parked' \
         else 'due' end as word from {} where outbox = $1",
        rows.names.exceptions
    )
}

fn of_status(rows: &Seen<'_>) -> DepthSql {
    let status = Status::new(rows.layout, rows.table);
    let (open, table) = (rows.is_open(), &rows.names.table);
    let published = rows.mark().map_or(String::new(), |mark| {
        format!(" union all select 'published', count(*) from {table} as t where {}", mark.is_set())
    });
    DepthSql {
        counts: format!(
            "select {}, count(*) from {} where {open} group by 1{published}",
            stands(rows),
            rows.from()
        ),
        words: status
            .map(|status| format!("select {}, count(*) from {table} as t group by 1", status.text())),
        culprit: (rows.layout.order == Order::Key).then(|| behind(rows, &open)),
    }
}

/// How an open row stands: in somebody's hands, waiting for its time, or due.
fn stands(rows: &Seen<'_>) -> String {
    // What only the decoder can read as a time counts as due: a source finds out.
    format!(
        "case when s.dead then 'dead' when {} then 'leased' when {} > {NOW} then 'waiting' else 'due' end",
        rows.held(),
        rows.not_before()
    )
}

/// Due rows behind one of their key that waits, or is dead and holds it.
fn behind(rows: &Seen<'_>, open: &str) -> String {
    let (scope, key) = key(rows.layout, rows.table);
    let id = &rows.id.column;
    let lead = rows.lead().unwrap_or("null::int".into());
    let part = format!("select {scope} as scope, {key} as key, {lead} as lead, {id} as id");
    let dead = match (rows.layout.on_dead, Status::new(rows.layout, rows.table)) {
        (OnDead::Hold, Some(status)) => {
            format!(
                " union all {part} from {} where s.holds_key and (s.dead or {})",
                rows.from(),
                status.is_dead()
            )
        }
        (OnDead::Hold, None) => {
            format!(" union all {part} from {} where s.holds_key and s.dead and {open}", rows.from())
        }
        (OnDead::Skip, _) => String::new(),
    };
    let is_behind = match rows.lead() {
        Some(_) => "(o.lead, o.id) > (b.lead, b.id)",
        None => "o.id > b.id",
    };
    format!(
        "with open as materialized ({part}, {stands} as stands from {from} where {open}), \
         first as (select distinct on (scope, key) * from ( \
         select scope, key, lead, id from open where stands = 'waiting'{dead}) as b \
         where key is not null order by scope, key, lead, id), \
         behind as (select o.scope, o.key, count(*) as held from open as o \
         join first as b on b.scope = o.scope and b.key = o.key where o.stands = 'due' and {is_behind} group by 1, 2) \
         select scope, key, held, (sum(held) over ())::int8 from behind order by held desc, scope, key limit 1",
        stands = stands(rows),
        from = rows.from(),
    )
}

/// Statuses that are none of the layout's words, and how many rows have each: the most frequent first.
pub(crate) fn unknown_words(layout: &Layout, names: &Names, table: &Table) -> Option<String> {
    let status = Status::new(layout, table)?;
    Some(format!(
        "select {}, count(*) from {} as t where {} group by 1 order by 2 desc, 1 limit 20",
        status.text(),
        names.table,
        status.is_unknown(),
    ))
}
