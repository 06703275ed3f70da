//! The outbox as chores and operators see it: which rows there are, and what state a source would treat each as.

use postrider_core::layout::{Column, Way};
use postrider_core::rows::Field;
use postrider_core::{Layout, State};

use super::fields::{column, kind};
use super::mark::Mark;
pub(super) use super::time::NOW;
use super::time::TimeColumn;
use super::{Names, literal};
use crate::table::{Kind, LiveColumn, Table};

/// What the store's statements are made of. Their parameters are those of [`super::store::StoreSql`].
pub(super) struct Seen<'a> {
    pub(super) layout: &'a Layout,
    pub(super) names: &'a Names,
    pub(super) table: &'a Table,
    pub(super) id: Id,
    /// How long what another program took is left to it.
    ttl_us: i64,
}

impl<'a> Seen<'a> {
    pub(super) fn new(layout: &'a Layout, names: &'a Names, table: &'a Table, ttl_us: i64) -> Self {
        Self { layout, names, table, id: Id::new(layout, table), ttl_us }
    }

    pub(super) fn is_cursor(&self) -> bool {
        self.layout.way == Way::Cursor
    }

    /// What rows are ordered by: by the id where it counts, else by the time before it.
    pub(super) fn order(&self) -> String {
        self.lead().map_or(self.id.column.clone(), |lead| format!("{lead}, {}", self.id.column))
    }

    /// What rows are ordered by before their id.
    pub(super) fn lead(&self) -> Option<String> {
        let time = self.layout.columns.time.as_ref().and_then(Column::name);
        time.filter(|_| !self.table.id_counts(self.layout)).map(column)
    }

    /// The table as `t`, with what is kept beside it: `x` exceptions and `c` claims of a cursor, else `s` its entries.
    pub(super) fn from(&self) -> String {
        let (table, id) = (&self.names.table, &self.id.column);
        if self.is_cursor() {
            return format!(
                "{} as t left join {} as x on x.outbox = $1 and x.entry = {id} \
                 left join {} as c on c.outbox = $1 and c.entry = {id}",
                self.rows(),
                self.names.exceptions,
                self.names.claims
            );
        }
        format!(
            "{table} as t left join {} as s on s.outbox = $1 and s.entry = {id}::text",
            self.names.entries
        )
    }

    /// A cursor's rows. What a team keeps in a table of its own after it failed is there as it was, also when its row is gone
    /// from the outbox (B6).
    pub(super) fn rows(&self) -> String {
        let Names { table, exceptions, .. } = self.names;
        if self.layout.sides.failed.is_none() {
            return table.clone();
        }
        format!(
            "(select t.* from {table} as t union all \
             select t.* from {exceptions} as e cross join lateral json_populate_record(null::{table}, e.copy) as t \
             where e.outbox = $1 and e.copy is not null and not exists (select from {table} as t where {} = e.entry))",
            self.id.column
        )
    }

    /// The state's word.
    pub(super) fn state(&self) -> String {
        let id = &self.id.column;
        if self.is_cursor() {
            return format!(
                "case when $5 and c.entry is not null then 'leased' \
                 when x.shelf = 'dead' then 'dead' when x.entry is not null then 'pending' \
                 when {id} > $2 and $5 and {id} <= $3 and {id} <> all($4) then 'leased' \
                 when {id} > $2 or {} or {} then 'pending' else 'published' end",
                self.parked(),
                self.in_gap(),
            );
        }
        let Some(status) = Status::new(self.layout, self.table) else {
            let published =
                self.mark().map_or(String::new(), |mark| format!("when {} then 'published' ", mark.is_set()));
            return format!(
                "case {published}when coalesce(s.dead, false) then 'dead' when {} then 'leased' else 'pending' end",
                self.held()
            );
        };
        format!(
            "case when {} then 'published' when {} then 'dead' when {open} and coalesce(s.dead, false) then 'dead' \
             when {open} and {} then 'leased' when {open} then 'pending' else 'unknown' end",
            status.is_published(),
            status.is_dead(),
            self.held(),
            open = status.is_open(),
        )
    }

    /// What shows that a row is published, where the table has no status.
    pub(super) fn mark(&self) -> Option<Mark<'a>> {
        Mark::new(self.layout, self.table)
    }

    /// That a row is neither published nor, as far as the table itself knows, dead.
    pub(super) fn is_open(&self) -> String {
        match Status::new(self.layout, self.table) {
            Some(status) => status.is_open(),
            None => self.mark().map_or("true".into(), |mark| mark.is_unset()),
        }
    }

    /// Whether a row that is not published or dead is in somebody's hands.
    pub(super) fn held(&self) -> String {
        if self.layout.way == Way::Hold {
            return held_by_lock();
        }
        let leased = format!("coalesce(s.leased_until > {NOW}, false)");
        self.foreign().map_or(leased.clone(), |foreign| format!("({leased} or {foreign})"))
    }

    /// Whether another program than Postrider took a row, and not too long ago.
    fn foreign(&self) -> Option<String> {
        let is_leased = Status::new(self.layout, self.table)?.is_leased()?;
        let at = TimeColumn::readable(self.layout.columns.leased_at.as_ref(), self.table, self.layout.zone)?;
        let until = format!("{at} + {} * interval '1 microsecond'", self.ttl_us);
        Some(format!("({is_leased} and s.leased_until is null and coalesce({until} > {NOW}, false))"))
    }

    /// When a row that is kept waiting is due: what is kept beside the table counts too.
    pub(super) fn not_before(&self) -> String {
        let mapped = self.layout.columns.not_before.as_ref();
        match TimeColumn::readable(mapped, self.table, self.layout.zone) {
            Some(own) => format!("greatest({own}, s.not_before)"),
            None => "s.not_before".into(),
        }
    }

    /// Whether a row's kind is parked as a whole.
    pub(super) fn parked(&self) -> String {
        format!(
            "exists (select 1 from {} as r where r.outbox = $1 and r.first <= {} and r.event_type = {} and r.aggregate_type = {})",
            self.names.ranges,
            self.id.column,
            kind(self.layout, self.table, Field::Type),
            kind(self.layout, self.table, Field::AggregateType),
        )
    }

    /// Whether a row was passed before it was committed, be it in a gap that was given up and is looked at again (the net finds it
    /// there, and takes it out). The ranges are put together once per statement, and searched.
    pub(super) fn in_gap(&self) -> String {
        format!(
            "coalesce((select range_agg(int8range(g.first, g.last, '[]')) from {}) @> {}::int8, false)",
            self.passed(),
            self.id.column,
        )
    }

    /// The open gaps, and those that were given up and are looked at again, under the alias `g`.
    pub(super) fn passed(&self) -> String {
        format!(
            "(select g.first, g.last from {} union all select first, last from {} where outbox = $1) as g",
            self.gaps(),
            self.names.closed
        )
    }

    /// The open gaps as rows, under the alias `g`.
    pub(super) fn gaps(&self) -> String {
        format!(
            "(select u.first, u.last from {} as p cross join lateral unnest(p.gap_first, p.gap_last) as u(first, last) \
             where p.outbox = $1) as g",
            self.names.position
        )
    }

    /// Rows of a state, by what an index knows before the state itself is worked out.
    pub(super) fn narrow(&self, state: State) -> String {
        let first = if self.is_cursor() { self.narrow_cursor(state) } else { self.narrow_status(state) };
        format!("{first} and ({}) = {}", self.state(), literal(state.word()))
    }

    fn narrow_cursor(&self, state: State) -> String {
        let Names { exceptions, claims, ranges, closed, .. } = self.names;
        let (id, gaps) = (&self.id.column, self.gaps());
        let late = format!(
            "select {id} from {closed} as z join {} as t on {id} between z.first and z.last where z.outbox = $1",
            self.names.table
        );
        match state {
            State::Dead => {
                format!("{id} in (select entry from {exceptions} where outbox = $1 and shelf = 'dead')")
            }
            State::Published => format!("{id} <= $2"),
            State::Leased => format!("({id} > $2 or {id} in (select entry from {claims} where outbox = $1))"),
            // Where no kind is parked and no gap is open, nothing below the position is pending but the exceptions, and what came
            // to be in gaps that were given up.
            State::Pending => format!(
                "({id} > $2 or {id} in (select entry from {exceptions} where outbox = $1) or {id} in ({late}) \
                 or {id} >= (select min(first) from (select first from {ranges} where outbox = $1 \
                 union all select g.first from {gaps}) as lowest))"
            ),
            // It has no status.
            State::Unknown => "false".into(),
        }
    }

    fn narrow_status(&self, state: State) -> String {
        match (Status::new(self.layout, self.table), state) {
            (Some(status), State::Dead) => format!("({} or s.dead)", status.is_dead()),
            (Some(status), State::Published) => status.is_published(),
            (Some(status), State::Pending | State::Leased) => status.is_open(),
            (Some(status), State::Unknown) => status.is_unknown(),
            (None, State::Dead) => "s.dead".into(),
            (None, State::Unknown) => "false".into(),
            (None, State::Published) => self.mark().map_or("false".into(), |mark| mark.is_set()),
            (None, State::Pending | State::Leased) => self.is_open(),
        }
    }
}

/// Nobody but the locker knows who holds a row, but its transaction holds a lock on itself: that it is alive can be seen
/// without locking anything, and without writing to a page.
fn held_by_lock() -> String {
    "t.xmax::text in (select l.transactionid::text from pg_locks as l \
     where l.locktype = 'transactionid' and l.mode = 'ExclusiveLock' and l.granted and l.pid is distinct from pg_backend_pid())"
        .into()
}

/// The row's id, and how a list of ids finds rows.
pub(super) struct Id {
    /// On the table `t`.
    pub(super) column: String,
    kind: Kind,
}

impl Id {
    fn new(layout: &Layout, table: &Table) -> Self {
        let id = layout.columns.id.as_ref().and_then(Column::name).expect("a valid layout names its id");
        Self { column: column(id), kind: table.id_kind(layout) }
    }

    /// Rows whose id is in the list that is parameter `n`.
    pub(super) fn among(&self, n: usize) -> String {
        let id = &self.column;
        match self.kind {
            Kind::Integer => format!("{id} = any(${n}::int8[])"),
            Kind::Uuid => format!("{id} = any(${n}::text[]::uuid[])"),
            Kind::Text => format!("{id} = any(${n}::text[])"),
            _ => format!("{id}::text = any(${n}::text[])"),
        }
    }

    /// Whether a row is the one that an entry beside the table is kept for. What is none of the table's ids is of no row.
    pub(super) fn is(&self, entry: &str) -> String {
        let id = &self.column;
        match self.kind {
            Kind::Integer => format!("{id} = case when {entry} ~ '^-?[0-9]{{1,18}}$' then {entry}::int8 end"),
            Kind::Uuid => format!("{id} = case when {entry} ~ '^[0-9a-f-]{{36}}$' then {entry}::uuid end"),
            Kind::Text => format!("{id} = {entry}"),
            _ => format!("{id}::text = {entry}"),
        }
    }

    /// The list as the texts by which entries are kept beside the table.
    pub(super) fn as_texts(&self, n: usize) -> String {
        match self.kind {
            Kind::Integer => format!("${n}::int8[]::text[]"),
            _ => format!("${n}::text[]"),
        }
    }
}

/// The status column of the table `t`, compared with the layout's words.
pub(super) struct Status<'a> {
    column: String,
    words: &'a postrider_core::layout::Words,
    live: Option<&'a LiveColumn>,
}

impl<'a> Status<'a> {
    /// None where the table has no status: a row is to be published unless something else is kept beside it.
    pub(super) fn new(layout: &'a Layout, table: &'a Table) -> Option<Self> {
        let (name, words) = (layout.columns.status.as_ref().and_then(Column::name)?, layout.status.as_ref()?);
        Some(Self { column: column(name), words, live: table.column(name.as_str()) })
    }

    /// The status as text.
    pub(super) fn text(&self) -> String {
        format!("{}::text", self.column)
    }

    pub(super) fn is_published(&self) -> String {
        self.words.published.as_deref().map_or("false".into(), |word| self.is(word))
    }

    pub(super) fn is_dead(&self) -> String {
        self.words.dead.as_deref().map_or("false".into(), |word| self.is(word))
    }

    /// The word for a row in somebody's hands, where the table has one.
    pub(super) fn is_leased(&self) -> Option<String> {
        self.words.leased.as_deref().map(|word| self.is(word))
    }

    /// Neither published nor dead.
    pub(super) fn is_open(&self) -> String {
        let words = self.words.open().chain(self.words.leased.as_deref());
        let each: Vec<String> = words.map(|word| self.is(word)).collect();
        format!("({})", each.join(" or "))
    }

    /// None of the layout's words, or none at all.
    pub(super) fn is_unknown(&self) -> String {
        format!("({} or {} or {}) is not true", self.is_published(), self.is_dead(), self.is_open())
    }

    fn is(&self, word: &str) -> String {
        match self.live {
            // A value that the type does not have is not even compared with it.
            Some(live) if !live.takes(word) => "false".into(),
            Some(live) if live.kind != Kind::Other => {
                format!("{} = {}", live.compared(&self.column), literal(word))
            }
            _ => format!("{} = {}", self.text(), literal(word)),
        }
    }
}
