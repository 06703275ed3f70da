//! The rows of a cursor as chores and operators see them. Beside `:outbox`, statements take `:position`, `:claimed`, `:returned` (a
//! JSON array) and `:alive`, whether the holder's lease is good. A row that was passed before it was committed is taken for a
//! published one here: gaps are few, and whoever reads the rows knows them.

use postrider_core::State;
use postrider_core::layout::{OnDead, Way};
use postrider_core::rows::Field;

use super::Names;
use super::fields::{key, kind};
use super::seen::Seen;

impl Seen<'_> {
    pub(super) fn is_cursor(&self) -> bool {
        self.layout.way == Way::Cursor
    }

    /// The table as `t`, with what is kept beside it: `x` exceptions and `c` claims.
    pub(super) fn cursor_from(&self) -> String {
        let Names { table, exceptions, claims, .. } = &self.names;
        let id = &self.id.column;
        format!(
            "{table} as t left join {exceptions} as x on x.outbox = :outbox and x.entry = {id} \
             left join {claims} as c on c.outbox = :outbox and c.entry = {id}"
        )
    }

    pub(super) fn cursor_state(&self) -> String {
        let id = &self.id.column;
        format!(
            "case when :alive and c.entry is not null then 'leased' \
             when x.shelf = 'dead' then 'dead' when x.entry is not null then 'pending' \
             when {id} > :position and :alive and {id} <= :claimed and not {} then 'leased' \
             when {id} > :position or {} then 'pending' else 'published' end",
            self.is_returned(),
            self.parked(),
        )
    }

    fn is_returned(&self) -> String {
        format!("json_contains(:returned, cast({} as char character set utf8mb4))", self.id.column)
    }

    /// Whether a row's kind is parked as a whole.
    fn parked(&self) -> String {
        format!(
            "exists (select 1 from {} as r where r.outbox = :outbox and r.first_id <= {} and r.event_type = {} \
             and r.aggregate_type = {})",
            self.names.ranges,
            self.id.column,
            kind(self.layout, self.table, Field::Type),
            kind(self.layout, self.table, Field::AggregateType),
        )
    }

    /// Rows of a state, by what an index knows before the state itself is worked out. `:lowest` is where the first range or gap
    /// begins: below it nothing before the position is pending but the exceptions.
    pub(super) fn narrow_cursor(&self, state: State) -> String {
        let (id, is) = (&self.id.column, self.cursor_state());
        match state {
            State::Dead => format!("x.shelf = 'dead' and ({is}) = 'dead'"),
            State::Published => format!("{id} <= :position and ({is}) = 'published'"),
            State::Leased => format!("({id} > :position or c.entry is not null) and ({is}) = 'leased'"),
            // A row in a gap says that it is published.
            State::Pending => format!(
                "({id} > :position or x.entry is not null or {id} >= :lowest) and ({is}) in ('pending', 'published')"
            ),
            // It has no status.
            State::Unknown => "false".into(),
        }
    }

    /// The id of the first row that is to be published some day: behind the position, set aside, parked with its kind, or in one
    /// of the gaps in `:gaps`.
    pub(super) fn first_unpublished(&self) -> String {
        let Names { table, exceptions, ranges, .. } = &self.names;
        let id = &self.id.column;
        let plain = self.is_no_exception();
        // Each by itself is the head of an index; together they would be a scan.
        format!(
            "select min(u.v) from ((select {id} as v from {table} as t where {id} > :position and not exists (select 1 \
             from {exceptions} as d where d.outbox = :outbox and d.entry = {id} and d.shelf = 'dead') order by {id} limit 1) \
             union all (select min(entry) from {exceptions} where outbox = :outbox and shelf <> 'dead') \
             union all (select {id} from {table} as t where {id} >= (select min(first_id) from {ranges} where outbox = :outbox) \
             and {parked} and {plain} order by {id} limit 1) \
             union all (select min({id}) from {gaps} where {plain})) as u",
            parked = self.parked(),
            gaps = self.in_gaps(),
        )
    }

    fn is_no_exception(&self) -> String {
        format!(
            "not exists (select 1 from {} as d where d.outbox = :outbox and d.entry = {})",
            self.names.exceptions, self.id.column
        )
    }

    /// Rows in the gaps, a JSON array of pairs.
    fn in_gaps(&self) -> String {
        format!(
            "json_table(:gaps, '$[*]' columns (a bigint path '$[0]', b bigint path '$[1]')) as g \
             straight_join {} as t on {} between g.a and g.b",
            self.names.table, self.id.column
        )
    }

    /// Each state or shelf by its word, and how many, as [`postrider_core::store::Depth::of_cursor`] takes them; but for the ids
    /// in gaps, which are known without asking. It is not to be prepared.
    pub(super) fn cursor_counts(&self) -> String {
        let Names { table, exceptions, ranges, claims, .. } = &self.names;
        let id = &self.id.column;
        let in_table = format!("exists (select 1 from {table} as t where {id} = x.entry)");
        // Rows that are neither an exception nor claimed one by one.
        let plain = format!(
            "{} and not (:alive and exists (select 1 from {claims} as d where d.outbox = :outbox and d.entry = {id}))",
            self.is_no_exception()
        );
        let parked = self.parked();
        let ranged = format!(
            "{id} >= (select min(first_id) from {ranges} where outbox = :outbox) and {plain} and {parked}"
        );
        let (stood, gaps) = (self.stood(), self.in_gaps());
        let parts = [
            format!("'behind', count(*) from {table} as t where {id} > :position"),
            format!("'before', count(*) from {table} as t where {id} <= :position"),
            format!(
                "'leased', count(*) from {table} as t where :alive and {id} > :position and {id} <= :claimed and {plain} \
                 and not {}",
                self.is_returned()
            ),
            format!("'again', count(*) from {claims} where outbox = :outbox and :alive"),
            format!(
                "'again before', count(*) from {claims} as x where x.outbox = :outbox and :alive and x.entry <= :position \
                 and {in_table} and not exists (select 1 from {exceptions} as d where d.outbox = :outbox and d.entry = x.entry)"
            ),
            format!("'ranged', count(*) from {table} as t where {ranged} and {id} <= :position"),
            format!(
                "'ranged behind', count(*) from {table} as t where {ranged} and {id} > greatest(:position, :claimed)"
            ),
            format!("'passed', count(*) from {gaps} where {id} <= :position and {plain} and not {parked}"),
            format!("'gap rows', count(*) from {gaps}"),
            format!(
                "x.word, count(*) from ({stood}) as x where not (:alive and exists (select 1 from {claims} as d \
                 where d.outbox = :outbox and d.entry = x.entry)) group by 1"
            ),
            format!(
                "'exceptions behind', count(*) from {exceptions} as x where x.outbox = :outbox and x.entry > :position and {in_table}"
            ),
            format!(
                "'exceptions before', count(*) from {exceptions} as x where x.outbox = :outbox and x.entry <= :position and {in_table}"
            ),
        ];
        parts.map(|part| format!("(select {part})")).join(" union all ")
    }

    /// How each exception stands. One whose time has come cannot go either while one of its key before it waits, or is dead and
    /// holds it.
    fn stood(&self) -> String {
        let now = &self.names.now;
        let dead = match self.layout.on_dead {
            OnDead::Hold => " or shelf = 'dead'",
            OnDead::Skip => "",
        };
        format!(
            "select entry, key_scope, key_id, case when shelf <> 'waiting' then shelf when due > {now} then 'waiting' \
             when key_id is not null and coalesce(max((shelf = 'waiting' and due > {now}){dead}) over \
             (partition by key_scope, key_id order by entry rows between unbounded preceding and 1 preceding), 0) > 0 \
             then 'parked' else 'due' end as word from {} where outbox = :outbox",
            self.names.exceptions
        )
    }

    /// The key with the most exceptions behind it, and how many. It is not to be prepared.
    pub(super) fn cursor_culprit(&self) -> String {
        format!(
            "select x.key_scope, x.key_id, count(*), 0 from ({}) as x where x.word = 'parked' and x.key_id is not null \
             group by 1, 2 order by 3 desc, 1, 2 limit 1",
            self.stood()
        )
    }

    /// What a buried row's key is, as text: its scope and its id.
    pub(super) fn key(&self) -> (String, String) {
        key(self.layout, self.table)
    }
}
