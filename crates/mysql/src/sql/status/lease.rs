//! Taking rows under a lease.

use super::Parts;
use crate::sql::fields::{STATE, fields};
use crate::sql::literal;

/// The columns behind the envelope in [`LeaseSql::lock`].
pub(crate) mod taken {
    use super::STATE;

    pub(crate) const RETRIES: usize = STATE;
    pub(crate) const RETRIES_MAX: usize = STATE + 1;
    pub(crate) const VERSION: usize = STATE + 2;
    /// Its place in the list.
    pub(crate) const PLACE: usize = STATE + 3;
}

/// `:outbox` everywhere; `:list` is a list of entries, `:owner` and `:claim` whose they are.
#[derive(Debug)]
pub(crate) struct LeaseSql {
    /// Whether the outbox's lease is held, which nobody takes before this transaction has ended: `:owner`, `:fence`.
    pub(crate) guard: String,
    /// Locks rows of the list that are still available, and answers them whole: `:rows` at most. Those that somebody else
    /// has locked are passed by.
    pub(crate) lock: String,
    /// Which rows of the list are still available, locked or not: their places.
    pub(crate) available: String,
    /// Marks entries of the list as held, unless somebody else holds them.
    pub(crate) hold: String,
    /// Which entries of the list are held by the claim: their places and retries.
    pub(crate) held: String,
    /// Says so in the table, where that has columns for it.
    pub(crate) mark: Option<String>,
    /// Keeps entries of the list held.
    pub(crate) extend: String,
    /// Says so in the table, where that has a column for it.
    pub(crate) mark_extended: Option<String>,
    /// What is held by anybody.
    pub(crate) all_held: String,
    /// What is held by `:owner`.
    pub(crate) own_held: String,
    /// Locks the rows of the list, and waits for them.
    pub(crate) wait_for: String,
    /// Gives back the rows of the list.
    pub(crate) give_back: Option<String>,
    /// Forgets who holds the entries of the list.
    pub(crate) let_go: String,
}

impl LeaseSql {
    pub(crate) fn new(parts: &Parts<'_>) -> Self {
        let list = parts.id.list(":list", "");
        let (rows, beside) =
            (parts.id.rows_of(&list, &parts.names.table), parts.id.beside(&list, &parts.names.entries));
        let mine = "e.owner = :owner and e.fence = :claim and e.leased_until is not null";
        let held = format!(
            "select entry from {} where outbox = :outbox and leased_until is not null",
            parts.names.entries
        );
        Self {
            guard: format!(
                "select 1 from {} where outbox = :outbox and name = 'relay' and owner = :owner and fence = :fence \
                 lock in share mode",
                parts.names.leases
            ),
            lock: parts.lock(&rows),
            available: format!("select g.n from {rows} where {}", parts.is_available()),
            hold: parts.hold(&list),
            held: format!("select g.n, e.retries from {beside} where {mine}"),
            mark: parts.mark(&list),
            extend: format!("update {beside} set e.leased_until = {} where {mine}", parts.until()),
            mark_extended: parts.mark_extended(),
            own_held: format!("{held} and owner = :owner"),
            all_held: held,
            wait_for: format!("select g.n from {rows} {}", parts.live.server.lock("t")),
            give_back: parts.give_back(&list),
            let_go: format!(
                "update {beside} set e.owner = null, e.leased_until = null, e.fence = null where e.leased_until is not null"
            ),
        }
    }
}

impl Parts<'_> {
    fn until(&self) -> String {
        self.names.after(&self.ttl_us.to_string())
    }

    pub(super) fn lock(&self, rows: &str) -> String {
        let columns = &self.layout.columns;
        let own = |name: Option<String>| name.map_or("null".into(), |name| format!("t.{name}"));
        format!(
            "select {fields}, {retries}, {retries_max}, {version}, g.n from {rows} where {available} \
             limit :rows {lock} skip locked",
            fields = fields(self.layout, self.live),
            retries = own(self.bare(columns.retries.as_ref())),
            retries_max = own(self.bare(columns.retries_max.as_ref())),
            version = self.version(),
            available = self.is_available(),
            lock = self.live.server.lock("t"),
        )
    }

    /// Open, due, and in no other program's hands.
    pub(super) fn is_available(&self) -> String {
        let now = &self.names.now;
        let mut open: Vec<String> = Vec::new();
        for (word, is_leased) in self.open_words() {
            let mut one = word.map_or("true".into(), |word| self.has_word(word));
            if let Some(at) = self.leased_at.as_ref().filter(|at| is_leased && at.is_comparable()) {
                let (at, own) = (at.moment(), self.is_own());
                let late =
                    format!("coalesce({at} + interval {} microsecond <= {now}, true)", self.stalled_us);
                one = format!("({one} and ({own} or {late}))");
            }
            open.push(one);
        }
        let due =
            self.not_before.as_ref().map(|due| format!(" and coalesce({} <= {now}, true)", due.moment()));
        format!("({}){}", open.join(" or "), due.unwrap_or_default())
    }

    /// Whether Postrider itself has taken a row before: then its own table says for how long.
    fn is_own(&self) -> String {
        format!(
            "exists (select 1 from {} as s where s.outbox = :outbox and s.entry = g.entry and s.leased_until is not null)",
            self.names.entries
        )
    }

    /// Assignments are made one after the other, and each sees what the ones before it have written.
    fn hold(&self, list: &str) -> String {
        let now = &self.names.now;
        format!(
            "insert into {entries} (outbox, entry, owner, leased_until, fence) \
             select :outbox, g.entry, :owner, {until}, :claim from {list} \
             on duplicate key update fence = if((leased_until is null or leased_until <= {now}) and not dead \
             and (not_before is null or not_before <= {now}), values(fence), fence), \
             owner = if(fence = values(fence), values(owner), owner), \
             leased_until = if(fence = values(fence), values(leased_until), leased_until)",
            entries = self.names.entries,
            until = self.until(),
        )
    }

    /// What the table itself has for a row that is held.
    fn mark(&self, list: &str) -> Option<String> {
        let columns = &self.layout.columns;
        let mut set = Vec::new();
        if let (Some(word), Some(status)) =
            (self.words().and_then(|words| words.leased.as_deref()), self.status())
        {
            set.push(format!("t.{status} = {}", literal(word)));
        }
        if let Some(owner) = self.bare(columns.lease_owner.as_ref()) {
            let most = self.live.mapped(columns.lease_owner.as_ref()).and_then(|live| live.characters_max);
            let text = most.map_or(":owner".into(), |most| format!("left(:owner, {most})"));
            set.push(format!("t.{owner} = {text}"));
        }
        set.extend(self.leased_at.as_ref().map(|at| format!("{} = {}", at.column(), at.at(&self.names.now))));
        set.extend(self.bump());
        (!set.is_empty()).then(|| self.update(list, &set, "true"))
    }

    /// Whoever has locked a row keeps no lease from being extended. A row whose version moved on is somebody else's (A7).
    fn mark_extended(&self) -> Option<String> {
        let at = self.leased_at.as_ref()?;
        let set = [format!("{} = {}", at.column(), at.at(&self.names.now))];
        let same = match self.layout.columns.version {
            Some(_) => format!(" and {} = g.version", self.version()),
            None => String::new(),
        };
        let list = self.id.list(":list", ", version bigint path '$.v'");
        Some(self.update(&list, &set, &format!("{}{same}", self.is_open())))
    }

    fn give_back(&self, list: &str) -> Option<String> {
        let mut set = Vec::new();
        if let (Some(words), Some(status)) = (self.words(), self.status())
            && let Some(leased) = &words.leased
        {
            let (leased, pending) = (literal(leased), literal(&words.pending));
            set.push(format!(
                "t.{status} = case t.{status} when {leased} then {pending} else t.{status} end"
            ));
        }
        set.extend(self.unheld());
        (!set.is_empty()).then(|| self.update(list, &set, &self.is_open()))
    }
}
