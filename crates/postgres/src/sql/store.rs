//! What operators list, show and change.

use postrider_core::layout::{Column, TimeForm, Way};
use postrider_core::{Layout, State};

use super::Names;
use super::fields::{STATE, column, fields, fields_without_payload, key, text};
use super::seen::{NOW, Seen, Status};
use super::time::{TimeColumn, interval};
use super::verbs::VerbSql;
use crate::table::{Kind, Table};
use postrider_core::rows::Field;

/// The columns behind the envelope.
pub(crate) mod seen {
    use super::STATE;

    pub(crate) const WORD: usize = STATE;
    pub(crate) const RETRIES: usize = STATE + 1;
    pub(crate) const RETRIES_MAX: usize = STATE + 2;
    pub(crate) const NOT_BEFORE: usize = STATE + 3;
    pub(crate) const ERROR: usize = STATE + 4;
    pub(crate) const HOLDER: usize = STATE + 5;
    pub(crate) const PUBLISHED_AT: usize = STATE + 6;
    /// The table's own word.
    pub(crate) const STATUS: usize = STATE + 7;
}

/// $1 outbox, $2 position, $3 how far the holder has claimed, $4 what it gave back of that, $5 whether its lease is good,
/// $6 ids (or an event's id), $7 and $8 the least and the greatest age in microseconds (or null), $9 ids of keys (or null), $10 an id
/// that all are above (or null).
#[derive(Debug)]
pub(crate) struct StoreSql {
    all: Query,
    pending: Query,
    leased: Query,
    published: Query,
    dead: Query,
    unknown: Query,
    /// Rows by their ids.
    pub(crate) listed: Query,
    /// The same with their payload.
    pub(crate) shown: Query,
    /// One row by its event's id.
    pub(crate) shown_by_event: Query,
    /// The oldest row that is to be published.
    pub(crate) oldest: Query,
    pub(crate) not_before_form: TimeForm,
    pub(crate) published_at_form: TimeForm,
    /// What verbs change.
    pub(crate) verbs: VerbSql,
}

/// A statement over a table of any size: its rows are fetched part by part.
#[derive(Debug)]
pub(crate) struct Query {
    pub(crate) declare: String,
    pub(crate) fetch: String,
    pub(crate) close: String,
}

impl Query {
    fn new(name: &str, sql: &str) -> Self {
        Self {
            declare: format!("declare postrider_{name} no scroll cursor for {sql}"),
            fetch: format!("fetch {FETCH_ROWS} from postrider_{name}"),
            close: format!("close postrider_{name}"),
        }
    }
}

/// Rows of one fetch.
pub(crate) const FETCH_ROWS: usize = 1_000;

impl StoreSql {
    pub(crate) fn new(layout: &Layout, names: &Names, table: &Table, ttl_us: i64) -> Self {
        let rows = Seen::new(layout, names, table, ttl_us);
        let list = |name: &str, narrowed: &str| {
            Query::new(name, &rows.select(false, &format!("{narrowed}{}", rows.filter())))
        };
        let of = |state: State| list(state.word(), &rows.narrow(state));
        let by_ids = rows.id.among(6);
        let by_event = format!("{} = $6", text(layout, table, Field::EventId));
        let columns = &layout.columns;
        Self {
            all: list("all", "true"),
            pending: of(State::Pending),
            leased: of(State::Leased),
            published: of(State::Published),
            dead: of(State::Dead),
            unknown: of(State::Unknown),
            listed: list("listed", &by_ids),
            shown: Query::new("shown", &rows.select(true, &by_ids)),
            shown_by_event: Query::new("shown_by_event", &rows.select(true, &by_event)),
            oldest: Query::new("oldest", &format!("{} limit 1", rows.select(false, &rows.unpublished()))),
            not_before_form: form(columns.not_before.as_ref().filter(|_| layout.way != Way::Cursor)),
            published_at_form: form(rows.published_at()),
            verbs: VerbSql::new(&rows),
        }
    }

    /// Rows in a state, or all of them, oldest first.
    pub(crate) fn list(&self, state: Option<State>) -> &Query {
        match state {
            None => &self.all,
            Some(State::Pending) => &self.pending,
            Some(State::Leased) => &self.leased,
            Some(State::Published) => &self.published,
            Some(State::Dead) => &self.dead,
            Some(State::Unknown) => &self.unknown,
        }
    }
}

fn form(column: Option<&Column>) -> TimeForm {
    match column {
        Some(Column::Named(_, form)) => *form,
        _ => TimeForm::Text,
    }
}

impl Seen<'_> {
    fn select(&self, payload: bool, narrowed: &str) -> String {
        let (layout, table) = (self.layout, self.table);
        let columns = &layout.columns;
        let fields = if payload { fields(layout, table) } else { fields_without_payload(layout, table) };
        let read = |mapped: Option<&Column>, beside: &str| {
            let name = mapped.and_then(Column::name);
            name.map_or(beside.to_owned(), |name| table.kind(name).select(&column(name)))
        };
        let due = columns.not_before.as_ref();
        let is_readable = due.is_none() || TimeColumn::readable(due, table, layout.zone).is_some();
        let (retries, not_before, error) = if self.is_cursor() {
            ("x.retries".into(), "x.due".into(), "x.error".into())
        } else {
            (
                read(columns.retries.as_ref(), "s.retries"),
                if is_readable {
                    self.not_before()
                } else {
                    read(columns.not_before.as_ref(), "s.not_before")
                },
                // What the table did not take is said beside it.
                match columns.error.as_ref().and_then(Column::name) {
                    Some(name) if table.kind(name) == Kind::Text => {
                        format!("coalesce(case when s.dead then s.error end, {})", column(name))
                    }
                    _ => read(columns.error.as_ref(), "s.error"),
                },
            )
        };
        format!(
            "select {fields}, {state}, {retries}, {retries_max}, {not_before}, {error}, {holder}, {published_at}, {status} \
             from {from} where {narrowed} order by {order}",
            state = self.state(),
            retries_max = read(columns.retries_max.as_ref(), "null::int"),
            holder = self.holder(),
            published_at = TimeColumn::new(self.published_at(), table, layout.zone)
                .map_or("null::timestamptz".into(), |time| time.select()),
            status = Status::new(layout, table).map_or("null::text".into(), |status| status.text()),
            from = self.from(),
            order = self.order(),
        )
    }

    /// Where it says when a row was published.
    fn published_at(&self) -> Option<&Column> {
        let mark = || self.mark().and_then(|mark| mark.published_at());
        self.layout.columns.published_at.as_ref().or_else(mark)
    }

    /// Who holds a row, where a lease of its own says so, or the table itself.
    fn holder(&self) -> String {
        if self.layout.way != Way::Lease {
            return "null::text".into();
        }
        let owner = self.layout.columns.lease_owner.as_ref().and_then(Column::name);
        let status = Status::new(self.layout, self.table).and_then(|status| status.is_leased());
        let theirs = owner.zip(status).map_or(String::new(), |(owner, is_leased)| {
            format!("when {is_leased} and s.leased_until is null then {}::text ", column(owner))
        });
        format!("case when s.leased_until > {NOW} then s.owner {theirs}end")
    }

    /// What the database can tell of a filter. The decoder has the last word: a second more or less is left to it.
    fn filter(&self) -> String {
        let moment = TimeColumn::readable(self.layout.columns.time.as_ref(), self.table, self.layout.zone);
        let age = moment.map_or(String::new(), |moment| {
            format!(
                " and ($7::int8 is null or ({moment} < {NOW} - {} + interval '1 second') is not false) \
                 and ($8::int8 is null or ({moment} > {NOW} - {} - interval '1 second') is not false)",
                interval("$7::int8"),
                interval("$8::int8")
            )
        });
        let (_, id) = key(self.layout, self.table);
        let above = if self.table.id_counts(self.layout) {
            format!(" and ($10::int8 is null or {} > $10)", self.id.column)
        } else {
            String::new()
        };
        format!("{age} and ($9::text[] is null or {id} = any($9)){above}")
    }

    /// The first row that is to be published some day. A cursor's is behind the position, set aside, or passed.
    fn unpublished(&self) -> String {
        if !self.is_cursor() {
            let open = self.is_open();
            return format!("{open} and not coalesce(s.dead, false)");
        }
        let Names { table, exceptions, ranges, .. } = self.names;
        let (id, gaps) = (&self.id.column, self.gaps());
        // Each by itself is the head of an index; together they would be a scan.
        format!(
            "{id} = least((select {id} from {table} as t where {id} > $2 and not exists (select 1 from {exceptions} as d \
             where d.outbox = $1 and d.entry = {id} and d.shelf = 'dead') order by {id} limit 1), \
             (select min(entry) from {exceptions} where outbox = $1 and shelf <> 'dead'), \
             (select {id} from {table} as t where {id} >= (select min(first) from {ranges} where outbox = $1) \
             and {parked} and not exists (select 1 from {exceptions} as d where d.outbox = $1 and d.entry = {id}) \
             order by {id} limit 1), \
             (select {id} from {gaps} join {table} as t on {id} between g.first and g.last \
             where not exists (select 1 from {exceptions} as d where d.outbox = $1 and d.entry = {id}) order by {id} limit 1))",
            parked = self.parked(),
        )
    }
}
