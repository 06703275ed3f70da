//! Writing what became of a batch.

use postrider_core::layout::{Published, Way};

use super::{Parts, listed};
use crate::sql::literal;
use crate::sql::mark::Mark;
use crate::sql::time::{NOW, after};

/// Both answer one row: the entries that are not in this claim's hands, and those that the table did not take.
///
/// $1 the outbox, $2 entries, $3 their versions; for a lease $4 the owner, $5 the claim and $6 the fence.
#[derive(Debug)]
pub(crate) struct SettleSql {
    pub(crate) published: String,
    /// Further $7 words, $8 retries, $9 microseconds to wait, $10 errors, $11 who holds its key, $12 who is dead.
    pub(crate) returned: String,
    /// Keeps rows beside the table, whatever it says: $1 the outbox, $2 entries, $3 microseconds to wait, $4 why, $5 the
    /// owner, $6 the claim, $7 who is done with, $8 who of these holds its key.
    pub(crate) set_aside: String,
    /// How many of the entries $2 are published already.
    pub(crate) was_published: String,
    /// How many of the entries $2 are back and in nobody's hands.
    pub(crate) was_returned: String,
}

impl SettleSql {
    pub(crate) fn new(parts: &Parts<'_>) -> Self {
        Self {
            published: parts.published(),
            returned: parts.returned(),
            set_aside: parts.set_aside(),
            was_published: parts.was_published(),
            was_returned: parts.was_returned(),
        }
    }
}

/// What the columns of `$2` and so on are called.
const GIVEN: &str = "$2::text[], $3::bigint[]";
const RETURNED: &str =
    "$2::text[], $3::bigint[], $7::text[], $8::int[], $9::bigint[], $10::text[], $11::bool[], $12::bool[]";
/// Rows of Postrider's own table, by their ids as such: by a join alone the planner would read them all, and with them whatever
/// was deleted and is not vacuumed yet.
pub(super) const LISTED: &str = "e.outbox = $1 and e.entry = any($2::text[]) and e.entry = g.entry";
/// What makes such a row this claim's.
const MINE: &str = "e.owner = $4 and e.fence = $5 and e.leased_until is not null";

impl Parts<'_> {
    fn is_lease(&self) -> bool {
        self.layout.way != Way::Hold
    }

    /// Where order is kept, the lease's row is locked, so that nobody takes it over before this is written.
    pub(super) fn guard(&self, owner: &str, fence: &str) -> String {
        if !(self.is_lease() && self.keeps_order()) {
            return format!(
                "guard as materialized (select 1 where {owner}::text is not null and {fence}::bigint is not null)"
            );
        }
        format!(
            "guard as materialized (select 1 from {} where outbox = $1 and name = 'relay' and owner = {owner} \
             and fence = {fence} for share)",
            self.names.leases
        )
    }

    /// The statement around what is written beside the table (`mine`) and in it (`done`).
    fn statement(&self, given: &str, columns: &str, mine: &str, done: Option<String>) -> String {
        // For a hold, what is listed is locked by this very transaction.
        let (mut guard, mut guarded) = (String::new(), String::new());
        if self.is_lease() {
            guard = format!("{}, ", self.guard("$4", "$6"));
            guarded = " where exists (select 1 from guard)".into();
        }
        if self.is_lease() && !self.keeps_order() {
            // The table's rows are locked before Postrider's own, as whoever claims does it: else the two could wait for
            // each other.
            guard.push_str(&format!(
                "locked as materialized (select 1 from {} as t where t.{} = any($2::text[]::{}[]) for update), ",
                self.names.table, self.id, self.id_type
            ));
            guarded.push_str(" and (select count(*) from locked) >= 0");
        }
        let (done, swallowed) = match done {
            Some(done) => {
                let from = if self.is_lease() { "mine" } else { "given" };
                (
                    format!(", done as ({done})"),
                    format!("array(select entry from {from} except select entry from done)"),
                )
            }
            None => (String::new(), "'{}'::text[]".into()),
        };
        let lost = if self.is_lease() {
            "array(select entry from unnest($2::text[]) as a(entry) except select entry from mine)"
        } else {
            "'{}'::text[]"
        };
        format!(
            "with {guard}given as materialized (select * from {given}{guarded}), \
             mine as ({mine}){done} select {lost}, {swallowed}",
            given = listed(given, columns),
        )
    }

    fn listed(&self) -> &'static str {
        if self.is_lease() { "mine" } else { "given" }
    }

    /// A row whose version moved on is somebody else's: what is kept beside it stays (A7).
    fn unmoved(&self) -> String {
        if self.layout.columns.version.is_none() {
            return String::new();
        }
        format!(
            " and exists (select 1 from {} as t where {}{})",
            self.names.table,
            self.is_listed(),
            self.same_version()
        )
    }

    fn published(&self) -> String {
        let entries = &self.names.entries;
        let mine = if self.is_lease() {
            format!(
                "delete from {entries} as e using given as g where {LISTED} and {MINE}{} returning g.entry, g.version",
                self.unmoved()
            )
        } else {
            format!("delete from {entries} as e using given as g where {LISTED} returning g.entry")
        };
        let (table, deletes) = (&self.names.table, self.layout.published == Published::Delete);
        let (from, among, entry) = self.among(if deletes { "using" } else { "from" }, self.listed());
        let own = format!("t.{}::text as entry", self.id);
        let entry = if entry.is_empty() { own.as_str() } else { entry };
        let done = if deletes {
            format!("delete from {table} as t{from} where {among} returning {entry}")
        } else {
            let word = self.words().and_then(|words| words.published.as_deref()).unwrap_or_default();
            let mut set = Vec::new();
            set.extend(self.status().map(|status| format!("{status} = {}", literal(word))));
            set.extend(self.mark.as_ref().map(Mark::set));
            set.extend(self.published_at.as_ref().map(|at| format!("{} = {}", at.name.quoted(), at.at(NOW))));
            set.extend(self.unheld());
            format!("update {table} as t set {}{from} where {among} returning {entry}", set.join(", "))
        };
        self.statement(GIVEN, "entry, version", &mine, Some(done))
    }

    fn returned(&self) -> String {
        let columns = &self.layout.columns;
        let due = after("g.after_us");
        let mut beside = vec![("holds_key", "g.holds_key".to_owned())];
        if columns.retries.is_none() {
            beside.push(("retries", "coalesce(g.retries, e.retries)".into()));
        }
        if columns.not_before.is_none() {
            beside.push(("not_before", format!("coalesce({due}, e.not_before)")));
        }
        if columns.error.is_none() {
            beside.push(("error", "coalesce(g.error, e.error)".into()));
        }
        if !self.layout.shows_dead() {
            beside.push(("dead", "g.dead".into()));
        }
        let mine = if self.is_lease() { self.keep(&beside) } else { self.keep_new(&beside) };
        let mut set = Vec::new();
        set.extend(self.status().map(|status| format!("{status} = {}", self.word("g.word"))));
        for (mapped, value) in [(columns.retries.as_ref(), "g.retries"), (columns.error.as_ref(), "g.error")]
        {
            set.extend(self.bare(mapped).map(|name| format!("{name} = coalesce({value}, t.{name})")));
        }
        set.extend(self.not_before.as_ref().map(|column| {
            let name = column.name.quoted();
            format!("{name} = coalesce({}, t.{name})", column.at(&due))
        }));
        set.extend(self.unheld());
        let done = (!set.is_empty()).then(|| {
            format!(
                "update {} as t set {} from {} as g where {}{} returning g.entry",
                self.names.table,
                set.join(", "),
                self.listed(),
                self.is_listed(),
                self.same_version()
            )
        });
        let given = "entry, version, word, retries, after_us, error, holds_key, dead";
        self.statement(RETURNED, given, &mine, done)
    }

    /// In the row that the claim made.
    fn keep(&self, beside: &[(&str, String)]) -> String {
        let set: Vec<_> = beside.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        format!(
            "update {} as e set {}, owner = null, leased_until = null, fence = null from given as g \
             where {LISTED} and {MINE}{} returning g.*",
            self.names.entries,
            set.join(", "),
            self.unmoved()
        )
    }

    /// In a row of its own: a hold makes none before. Nothing is kept of what has a column in the table.
    fn keep_new(&self, beside: &[(&str, String)]) -> String {
        if beside.len() == 1 {
            return "select entry from given".into();
        }
        let names: Vec<_> = beside.iter().map(|(name, _)| *name).collect();
        let values: Vec<_> = beside
            .iter()
            .map(|(name, value)| match *name {
                "retries" => "g.retries".to_owned(),
                "not_before" => after("g.after_us"),
                "error" => "g.error".into(),
                _ => value.clone(),
            })
            .collect();
        let set: Vec<_> = names
            .iter()
            .map(|name| match *name {
                "holds_key" | "dead" => format!("{name} = excluded.{name}"),
                _ => format!("{name} = coalesce(excluded.{name}, e.{name})"),
            })
            .collect();
        format!(
            "insert into {} as e (outbox, entry, {}) select $1, g.entry, {} from given as g \
             on conflict (outbox, entry) do update set {} returning entry",
            self.names.entries,
            names.join(", "),
            values.join(", "),
            set.join(", ")
        )
    }

    fn set_aside(&self) -> String {
        format!(
            "insert into {entries} as e (outbox, entry, not_before, error, dead, holds_key) \
             select $1, g.entry, case when not g.dead then {due} end, $4, g.dead, g.holds_key from {given} \
             where exists (select 1 from {table} as t where {listed} and {open}) \
             on conflict (outbox, entry) do update set not_before = excluded.not_before, error = excluded.error, \
             dead = excluded.dead, holds_key = excluded.holds_key, owner = null, leased_until = null, fence = null \
             where e.leased_until is null or (e.owner = $5 and e.fence = $6)",
            entries = self.names.entries,
            due = after("$3::bigint"),
            given = listed("$2::text[], $7::bool[], $8::bool[]", "entry, dead, holds_key"),
            table = self.names.table,
            listed = self.is_listed(),
            open = self.is_open(),
        )
    }

    fn was_published(&self) -> String {
        format!(
            "select count(*) from {} where $1::text is not null \
             and not exists (select 1 from {} as t where {} and {})",
            listed("$2::text[]", "entry"),
            self.names.table,
            self.is_listed(),
            self.is_open()
        )
    }

    fn was_returned(&self) -> String {
        format!(
            "select count(*) from {} join {} as e on {LISTED} where e.leased_until is null",
            listed("$2::text[]", "entry"),
            self.names.entries
        )
    }
}
