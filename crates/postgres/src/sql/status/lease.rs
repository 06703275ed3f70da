//! Taking rows under a lease.

use super::settle::LISTED;
use super::{Parts, listed};
use crate::sql::fields::{STATE, fields, key};
use crate::sql::literal;
use crate::sql::time::{NOW, after};

/// The columns behind the envelope in [`LeaseSql::take`].
pub(crate) mod taken {
    use super::STATE;

    pub(crate) const RETRIES: usize = STATE;
    pub(crate) const RETRIES_MAX: usize = STATE + 1;
    /// The version that the claim gave it.
    pub(crate) const VERSION: usize = STATE + 2;
    /// Its id as a text.
    pub(crate) const ENTRY: usize = STATE + 3;
    /// The claim's own number, the same in every row.
    pub(crate) const CLAIM: usize = STATE + 4;
}

/// $1 is the outbox everywhere.
#[derive(Debug)]
pub(crate) struct LeaseSql {
    /// Marks rows as held and answers them whole: $2 entries, $3 owner, $4 rows at most, $5 fence.
    pub(crate) take: String,
    /// Keeps rows held: $2 entries, $3 owner, $4 claim. Answers how many.
    pub(crate) extend: String,
    /// Says so in the table, where that has a column for it: $2 entries.
    pub(crate) mark: Option<String>,
    /// Gives back what a predecessor held. Answers how many.
    pub(crate) orphans: String,
    /// Gives back what this holder holds: $2 owner. Answers how many.
    pub(crate) give_back: String,
    /// Gives back one of its claims: $2 owner, $3 claim. Answers how many.
    pub(crate) put_down: String,
}

impl LeaseSql {
    pub(crate) fn new(parts: &Parts<'_>) -> Self {
        Self {
            take: parts.take(),
            extend: parts.extend(),
            mark: parts.mark_held(),
            orphans: parts.give_back(""),
            give_back: parts.give_back(" and e.owner = $2"),
            put_down: parts.give_back(" and e.owner = $2 and e.fence = $3"),
        }
    }
}

impl Parts<'_> {
    /// The row's lock keeps out whoever claims or settles it, the second look at its word whoever has settled it since it
    /// was scanned, the condition on the conflict whoever has claimed it since.
    fn take(&self) -> String {
        let columns = &self.layout.columns;
        let (table, listed_here, open) = (&self.names.table, self.is_listed(), self.is_available());
        // A row that somebody has locked is passed by; where order is kept, so are those of its key that come after it.
        let (given, key, stuck, free) = if self.keeps_order() {
            let (scope, key) = key(self.layout, self.live);
            (
                "(select u.entry, u.at from unnest($2::text[]) with ordinality as u(entry, at)) as g"
                    .to_owned(),
                format!(", g.at, {scope} as scope, {key} as key"),
                format!(
                    ", stuck as materialized (select {scope} as scope, {key} as key, min(g.at) as at from given as g \
                     join {table} as t on {listed_here} where {open} \
                     and g.entry not in (select l.entry from locked as l) group by 1, 2)"
                ),
                " where not exists (select 1 from stuck as s where s.scope = l.scope and s.key = l.key and s.at < l.at)",
            )
        } else {
            (listed("$2::text[]", "entry"), String::new(), String::new(), "")
        };
        // In order, they are looked up one by one: a merge, which the planner likes for its order, would read all that come before.
        let lock = if self.keeps_order() {
            format!(
                "cross join lateral (select t.* from {table} as t where {listed_here} and {open} offset 0 \
                 for update of t skip locked) as t order by g.at limit $4"
            )
        } else {
            let order = self.in_order();
            format!(
                "join {table} as t on {listed_here} where {open} order by {order} limit $4 for update of t skip locked"
            )
        };
        let until = after(&self.ttl_us.to_string());
        let marked = match self.marks() {
            set if set.is_empty() => String::new(),
            set => format!(
                ", marked as (update {} as t set {} from taken as g where {} returning g.entry)",
                self.names.table,
                set.join(", "),
                self.is_listed()
            ),
        };
        let retries = self.bare(columns.retries.as_ref());
        let retries_max = self.bare(columns.retries_max.as_ref());
        let version = if marked.is_empty() || columns.version.is_none() {
            "l.version".to_owned()
        } else {
            // A trigger may have swallowed the mark.
            format!(
                "case when g.entry in (select m.entry from marked as m) then l.version % {} + 1 else l.version end",
                self.version_max()
            )
        };
        format!(
            "with {guard}, given as materialized (select g.* from {given} where exists (select 1 from guard)), \
             locked as materialized (select g.entry, {own_version} as version{key} from given as g {lock}){stuck}, \
             taken as (insert into {entries} as e (outbox, entry, owner, leased_until, fence) \
             select $1, l.entry, $3, {until}, pg_current_xact_id()::text::bigint from locked as l{free} \
             on conflict (outbox, entry) do update set owner = excluded.owner, leased_until = excluded.leased_until, \
             fence = excluded.fence where (e.leased_until is null or e.leased_until <= {NOW}) and not e.dead \
             and (e.not_before is null or e.not_before <= {NOW}) returning e.entry, e.retries, e.fence){marked} \
             select r.*, {version}, g.entry, g.fence from taken as g join locked as l on l.entry = g.entry \
             cross join lateral (select {fields}, {retries}, {retries_max} from {table} as t where {listed} offset 0) as r",
            guard = self.guard("$3", "$5"),
            own_version = self.version(),
            entries = self.names.entries,
            listed = listed_here,
            fields = fields(self.layout, self.live),
            retries = retries.map_or("g.retries".into(), |name| format!("t.{name}")),
            retries_max = retries_max.map_or("null::int".into(), |name| format!("t.{name}")),
        )
    }

    /// Open, due, and in no other program's hands.
    fn is_available(&self) -> String {
        let mut open: Vec<String> = Vec::new();
        for (word, is_leased) in self.open_words() {
            let mut one = word.map_or_else(|| self.is_unmarked(), |word| self.has_word(&[word]));
            if let Some(at) = self.leased_at.as_ref().filter(|at| is_leased && at.is_comparable()) {
                let at = at.moment();
                let ttl = self.ttl_us;
                one =
                    format!("({one} and ({at} is null or {at} + {ttl} * interval '1 microsecond' <= {NOW}))");
            }
            open.push(one);
        }
        let due =
            self.not_before.as_ref().map(|due| format!(" and coalesce({} <= {NOW}, true)", due.moment()));
        self.by_id_alone(&format!("({}){}", open.join(" or "), due.unwrap_or_default()))
    }

    /// What the table itself has for a row that is held.
    fn marks(&self) -> Vec<String> {
        let columns = &self.layout.columns;
        let mut set = Vec::new();
        if let (Some(word), Some(status)) =
            (self.words().and_then(|words| words.leased.as_deref()), self.status())
        {
            set.push(format!("{status} = {}", literal(word)));
        }
        if let Some(name) = columns.lease_owner.as_ref().and_then(postrider_core::layout::Column::name) {
            let most = self.live.column(name.as_str()).and_then(|live| live.characters_max);
            let owner = most.map_or("$3".into(), |most| format!("left($3, {most})"));
            set.push(format!("{} = {owner}", name.quoted()));
        }
        set.extend(self.leased_at.as_ref().map(|at| format!("{} = {}", at.name.quoted(), at.at(NOW))));
        set.extend(self.bump());
        set
    }

    fn extend(&self) -> String {
        format!(
            "with mine as (update {} as e set leased_until = {} from {} where {LISTED} \
             and case when e.owner = $3 and e.fence = $4 then e.leased_until is not null else false end returning g.entry) select count(*) from mine",
            self.names.entries,
            after(&self.ttl_us.to_string()),
            listed("$2::text[]", "entry"),
        )
    }

    /// By itself: whoever has locked the table keeps no lease from being extended.
    fn mark_held(&self) -> Option<String> {
        let at = self.leased_at.as_ref()?;
        Some(format!(
            "update {} as t set {} = {} from {} where $1::text is not null and {} and {}",
            self.names.table,
            at.name.quoted(),
            at.at(NOW),
            listed("$2::text[]", "entry"),
            self.is_listed(),
            self.is_open()
        ))
    }

    fn give_back(&self, whose: &str) -> String {
        let mut set = Vec::new();
        if let (Some(words), Some(status)) = (self.words(), self.status())
            && let Some(leased) = &words.leased
        {
            let (leased, pending) = (literal(leased), literal(&words.pending));
            let own = self.compared(&status);
            set.push(format!("{status} = case {own} when {leased} then {pending} else {own} end"));
        }
        set.extend(self.unheld());
        let done = if set.is_empty() {
            String::new()
        } else {
            format!(
                ", done as (update {} as t set {} from back as g where {} and {})",
                self.names.table,
                set.join(", "),
                self.is_listed(),
                self.is_open()
            )
        };
        format!(
            "with back as (update {} as e set owner = null, leased_until = null, fence = null \
             where e.outbox = $1 and e.leased_until is not null{whose} returning e.entry){done} select count(*) from back",
            self.names.entries
        )
    }
}
