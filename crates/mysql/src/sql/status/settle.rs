//! Writing what became of a batch.

use postrider_core::layout::Published;

use super::Parts;
use crate::config::Config;
use crate::sql::{literal, write_down};

/// `:outbox` everywhere; `:list` is a list of entries.
#[derive(Debug)]
pub(crate) struct SettleSql {
    /// Locks the rows of the list, as whoever claims does before anything else, and answers their places and versions.
    pub(crate) lock: String,
    /// Which entries of the list are the claim's: their places. `:owner`, `:claim`.
    pub(crate) mine: String,
    /// The rows of the list are published.
    pub(crate) published: String,
    /// Nothing is kept beside them any more.
    pub(crate) forget: String,
    /// The rows of the list go back, or are given up; with what is in [`RETURNED`].
    pub(crate) returned: Option<String>,
    /// Those of them that are dead are written down, with the same.
    pub(crate) dead: Option<String>,
    /// What is kept beside them, with the same.
    pub(crate) kept: String,
    /// Keeps rows of the list beside the table, whatever it says, with the same: `:owner`, `:claim`, `:wait_us`, `:why`.
    pub(crate) set_aside: String,
    /// How many of the list are published already.
    pub(crate) was_published: String,
    /// How many of the list are back and in nobody's hands.
    pub(crate) was_returned: String,
}

/// What a list has beside the ids of rows that go back.
pub(super) const RETURNED: &str = ", word varchar(255) character set utf8mb4 path '$.w', retries int path '$.r', \
    after_us bigint path '$.a', error text character set utf8mb4 path '$.x', holds_key tinyint path '$.h', \
    dead tinyint path '$.d'";

impl SettleSql {
    pub(crate) fn new(config: &Config, parts: &Parts<'_>) -> Self {
        let (list, given) = (parts.id.list(":list", ""), parts.id.list(":list", RETURNED));
        let rows = parts.id.rows_of(&list, &parts.names.table);
        let beside = parts.id.beside(&list, &parts.names.entries);
        Self {
            lock: format!("select g.n, {} from {rows} {}", parts.version(), parts.live.server.lock("t")),
            mine: format!(
                "select g.n from {beside} where e.owner = :owner and e.fence = :claim and e.leased_until is not null {}",
                parts.live.server.lock("e")
            ),
            published: parts.published(&list),
            forget: format!("delete e from {beside}"),
            returned: parts.returned(&given),
            dead: write_down(config, &parts.id.rows_of(&given, &parts.names.table), "g.error", "g.dead"),
            kept: parts.kept(&given),
            set_aside: parts.set_aside(&given),
            was_published: format!(
                "select count(*) from {list} where not exists (select 1 from {} as t where {} = g.id and {})",
                parts.names.table,
                parts.id.column,
                parts.is_open()
            ),
            was_returned: format!("select count(*) from {beside} where e.leased_until is null"),
        }
    }
}

impl Parts<'_> {
    fn published(&self, list: &str) -> String {
        let rows = self.id.rows_of(list, &self.names.table);
        if self.layout.published == Published::Delete {
            return format!("delete t from {rows}");
        }
        let word = self.words().and_then(|words| words.published.as_deref()).unwrap_or_default();
        let mut set = Vec::new();
        set.extend(self.status().map(|status| format!("t.{status} = {}", literal(word))));
        let at = self.published_at.as_ref();
        set.extend(at.map(|at| format!("{} = {}", at.column(), at.at(&self.names.now))));
        set.extend(self.unheld());
        self.update(list, &set, "true")
    }

    fn returned(&self, given: &str) -> Option<String> {
        let columns = &self.layout.columns;
        let mut set = Vec::new();
        set.extend(self.status().map(|status| format!("t.{status} = g.word")));
        for (mapped, value) in [(columns.retries.as_ref(), "g.retries"), (columns.error.as_ref(), "g.error")]
        {
            set.extend(self.bare(mapped).map(|name| format!("t.{name} = coalesce({value}, t.{name})")));
        }
        set.extend(self.not_before.as_ref().map(|due| {
            let column = due.column();
            format!("{column} = coalesce({}, {column})", due.at(&self.names.after("g.after_us")))
        }));
        set.extend(self.unheld());
        (!set.is_empty()).then(|| self.update(given, &set, "true"))
    }

    /// What has a column in the table is not kept twice.
    fn kept(&self, given: &str) -> String {
        let columns = &self.layout.columns;
        let due = self.names.after("g.after_us");
        let mut set = vec!["e.holds_key = g.holds_key".to_owned()];
        if columns.retries.is_none() {
            set.push("e.retries = coalesce(g.retries, e.retries)".into());
        }
        if columns.not_before.is_none() {
            set.push(format!("e.not_before = coalesce({due}, e.not_before)"));
        }
        if columns.error.is_none() {
            set.push("e.error = coalesce(g.error, e.error)".into());
        }
        if !self.layout.shows_dead() {
            set.push("e.dead = g.dead".into());
        }
        set.push("e.owner = null, e.leased_until = null, e.fence = null".into());
        format!("update {} set {}", self.id.beside(given, &self.names.entries), set.join(", "))
    }

    fn set_aside(&self, given: &str) -> String {
        format!(
            "update {beside} set e.not_before = if(g.dead, null, {due}), e.error = :why, e.dead = g.dead, \
             e.holds_key = g.holds_key, e.owner = null, e.leased_until = null, e.fence = null \
             where e.owner = :owner and e.fence = :claim",
            beside = self.id.beside(given, &self.names.entries),
            due = self.names.after(":wait_us"),
        )
    }
}
