//! Counting: ranges of ids and index ranges, never a row more than is counted.

use postrider_core::Layout;
use postrider_core::layout::{Column, OnDead, TimeForm, Way};

use super::fields::{fields_without_payload, kind};
use super::lease::{form, kept};
use super::store::View;
use super::{Names, literal};
use postrider_core::rows::Field;

/// Parameters as in [`super::StoreSql`].
#[derive(Debug)]
pub(crate) struct DepthSql {
    /// Each state or shelf by its word, and how many: `waiting` is not due, `due` is.
    pub(crate) counts: String,
    /// The id of the oldest row that is to be published.
    pub(crate) oldest: String,
    /// The key with the most parked behind it, where the database knows.
    pub(crate) culprit: Option<String>,
    /// Open rows in order, to find what is held back by what: the envelope, and whether it waits.
    pub(crate) open: Option<String>,
}

impl DepthSql {
    pub(crate) fn new(layout: &Layout, names: &Names, id_counts: bool) -> Self {
        let view = View::new(layout, names, id_counts);
        if layout.way == Way::Cursor { cursor(&view) } else { status(&view) }
    }
}

fn cursor(view: &View<'_>) -> DepthSql {
    let Names { table, exceptions, ranges, claims, .. } = view.names;
    let id = &view.id;
    // Rows that are neither an exception nor claimed one by one.
    let plain = format!(
        "{id} not in (select entry from {exceptions} where outbox = ?1) and {id} not in (select entry from {claims} where outbox = ?1)"
    );
    let of_range = format!(
        "exists (select 1 from {ranges} as r where r.outbox = ?1 and r.first <= {id} and r.event_type = {} and r.aggregate_type = {})",
        kind(view.layout, Field::Type),
        kind(view.layout, Field::AggregateType),
    );
    let unclaimed = format!("not (?6 and x.entry in (select entry from {claims} where outbox = ?1))");
    let stood = stood(view);
    let lowest_range = format!("{id} >= (select min(first) from {ranges} where outbox = ?1)");
    DepthSql {
        counts: format!(
            "select 'behind', count(*) from {table} as t where {id} > ?3 \
             union all select 'before', count(*) from {table} as t where {id} <= ?3 \
             union all select 'leased', count(*) from {table} as t where ?6 and {id} > ?3 and {id} <= ?4 and {plain} \
                 and {id} not in (select value from json_each(?5)) \
             union all select 'again', count(*) from {claims} where outbox = ?1 and ?6 \
             union all select 'ranged', count(*) from {table} as t where {lowest_range} and {id} <= ?3 and {plain} and {of_range} \
             union all select 'ranged behind', count(*) from {table} as t where {lowest_range} and {id} > max(?3, ?4) and {plain} and {of_range} \
             union all select x.word, count(*) from ({stood}) as x where {unclaimed} group by 1 \
             union all select 'exceptions behind', count(*) from {exceptions} as x where x.outbox = ?1 and x.entry > ?3 \
                 and exists (select 1 from {table} as t where {id} = x.entry) \
             union all select 'exceptions before', count(*) from {exceptions} as x where x.outbox = ?1 and x.entry <= ?3 \
                 and exists (select 1 from {table} as t where {id} = x.entry)"
        ),
        oldest: format!(
            "select min(id) from (select min({id}) as id from {table} as t where {id} > ?3 \
             and {id} not in (select entry from {exceptions} where outbox = ?1 and shelf = 'dead') \
             union all select min(entry) from {exceptions} where outbox = ?1 and shelf <> 'dead' \
             union all select min({id}) from {table} as t where {lowest_range} and {plain} and {of_range})"
        ),
        culprit: Some(format!(
            "select key_scope, key_id, count(*) from {exceptions} where outbox = ?1 and shelf = 'parked' and key_id is not null \
             group by 1, 2 order by 3 desc, 1, 2 limit 1"
        )),
        open: None,
    }
}

/// How each exception stands. One whose time has come cannot go either while one of its key before it waits, or is dead and
/// holds it.
fn stood(view: &View<'_>) -> String {
    let dead = match view.layout.on_dead {
        OnDead::Hold => " or shelf = 'dead'",
        OnDead::Skip => "",
    };
    format!(
        "select entry, case when shelf <> 'waiting' then shelf when due > ?2 then 'waiting' \
         when key_id is not null and max((shelf = 'waiting' and due > ?2){dead}) over \
         (partition by key_scope, key_id order by entry rows between unbounded preceding and 1 preceding) then 'parked' \
         else 'due' end as word from {} where outbox = ?1",
        view.names.exceptions
    )
}

fn status(view: &View<'_>) -> DepthSql {
    let (layout, names) = (view.layout, view.names);
    let columns = &layout.columns;
    let words = layout.status.as_ref().expect("a status table has its words");
    let status = kept(columns.status.as_ref(), "null");
    let not_before = kept(columns.not_before.as_ref(), "s.not_before");
    // What is no time is due, and a text compares as larger than any number.
    let is_number = format!("typeof({not_before}) in ('integer', 'real')");
    // Near enough for a count: what a source does is decided by the decoder.
    let waits = match columns.not_before.as_ref().map_or(TimeForm::UnixUs, form) {
        TimeForm::UnixUs => format!("{is_number} and {not_before} > ?2"),
        TimeForm::UnixMs => format!("{is_number} and {not_before} > ?2 / 1000"),
        TimeForm::UnixS => format!("{is_number} and {not_before} > ?2 / 1000000"),
        TimeForm::Text => format!("julianday({not_before}) > julianday(?3)"),
    };
    let leased_word = words.leased.as_deref().map_or(String::new(), |word| {
        format!("when {status} = {} and s.leased_until is null then 'leased' ", literal(word))
    });
    let open: Vec<String> = words.open().chain(words.leased.as_deref()).map(literal).collect();
    let open = format!("{status} in ({})", open.join(", "));
    let published = words.published.as_deref().map_or("'published', 0".into(), |word| {
        format!("'published', count(*) from {} as t where {status} = {}", names.table, literal(word))
    });
    let time = columns.time.as_ref().and_then(Column::name);
    let order = time.map_or(view.id.clone(), |time| format!("{}, {}", super::fields::column(time), view.id));
    let order = if view.id_counts() { view.id.clone() } else { order };
    let of = |word: &str| {
        format!(
            "case when s.leased_until > ?2 then 'leased' {leased_word}when {waits} then 'waiting' else {word} end"
        )
    };
    DepthSql {
        counts: format!(
            "select {state}, count(*) from {from} where {open} group by 1 \
             union all select 'dead', count(*) from {table} as t where {status} = {dead} \
             union all select 'unknown', count(*) from {table} as t where {unknown} \
             union all select {published}",
            state = of("'due'"),
            from = view.from(),
            table = names.table,
            dead = literal(words.dead.as_deref().unwrap_or_default()),
            unknown = view.is_unknown(),
        ),
        oldest: format!("select {} from {} as t where {open} order by {order} limit 1", view.id, names.table),
        culprit: None,
        open: Some(format!(
            "select {}, {} from {} where {open} order by {order}",
            fields_without_payload(layout),
            of("'due'"),
            view.from(),
        )),
    }
}
