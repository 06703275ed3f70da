//! The outbox as chores and operators see it: which rows there are, and what state a source would treat each as.

use postrider_core::layout::{Column, Words};
use postrider_core::{Layout, State};

use super::fields::column;
use super::status::{Lead, lead};
use super::time::TimeColumn;
use super::{Id, Names, literal, name};
use crate::config::Config;
use crate::table::Table;

/// What the store's statements are made of.
pub(super) struct Seen<'a> {
    pub(super) layout: &'a Layout,
    pub(super) table: &'a Table,
    pub(super) names: Names,
    pub(super) id: Id,
    /// What rows are ordered by before their id.
    pub(super) lead: Option<Lead>,
    /// How long what another program took is left to it.
    stalled_us: i64,
}

impl<'a> Seen<'a> {
    pub(super) fn new(config: &'a Config, table: &'a Table) -> Self {
        let layout = &config.layout;
        Self {
            layout,
            table,
            names: Names::new(config),
            id: Id::new(layout, table),
            lead: lead(layout, table),
            stalled_us: config.stalled_us(),
        }
    }

    /// What rows are ordered by. NULL sorts first here, and is to be last.
    pub(super) fn order(&self) -> String {
        let id = &self.id.column;
        self.lead.as_ref().map_or(id.clone(), |lead| format!("{0} is null, {0}, {id}", lead.column))
    }

    /// That a row stands behind the one that `:lead` and `:id` tell, or that there is none.
    pub(super) fn behind(&self) -> String {
        let id = &self.id.column;
        match &self.lead {
            None => format!("(:id is null or {id} > :id)"),
            Some(Lead { column, .. }) => format!(
                "(:id is null or {column} > :lead or (:lead is not null and {column} is null) \
                 or ({column} <=> :lead and {id} > :id))"
            ),
        }
    }

    /// The table as `t`, with what is kept beside it as `s`; beside a cursor's, as `x` and `c`.
    pub(super) fn from(&self) -> String {
        if self.is_cursor() {
            return self.cursor_from();
        }
        format!(
            "{} as t left join {} as s on s.outbox = :outbox and s.entry = {}",
            self.names.table,
            self.names.entries,
            self.id.text()
        )
    }

    /// The status column of `t` and the layout's words; none where the table has no status: a row is to be published unless
    /// something else is kept beside it.
    pub(super) fn status(&self) -> Option<Status<'a>> {
        let name = self.layout.columns.status.as_ref().and_then(Column::name)?;
        Some(Status { column: column(name), words: self.layout.status.as_ref()? })
    }

    /// The state's word.
    pub(super) fn state(&self) -> String {
        if self.is_cursor() {
            return self.cursor_state();
        }
        let Some(status) = self.status() else {
            return format!(
                "case when coalesce(s.dead, false) then 'dead' when {} then 'leased' else 'pending' end",
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

    /// Whether a row that is not published or dead is in somebody's hands.
    pub(super) fn held(&self) -> String {
        let leased = format!("coalesce(s.leased_until > {}, false)", self.names.now);
        self.foreign().map_or(leased.clone(), |foreign| format!("({leased} or {foreign})"))
    }

    /// Whether another program than Postrider took a row, and not too long ago.
    fn foreign(&self) -> Option<String> {
        let is_leased = self.status()?.is_leased()?;
        let at = TimeColumn::readable(self.layout.columns.leased_at.as_ref(), self.table, self.layout.zone)?;
        let until = format!("{} + interval {} microsecond", at.moment(), self.stalled_us);
        let now = &self.names.now;
        Some(format!("({is_leased} and s.leased_until is null and coalesce({until} > {now}, false))"))
    }

    /// Whether another program took a row, and too long ago, or nobody knows when.
    pub(super) fn stalled(&self) -> Option<String> {
        let is_leased = self.status()?.is_leased()?;
        let at = TimeColumn::readable(self.layout.columns.leased_at.as_ref(), self.table, self.layout.zone);
        let late = at.map_or("true".into(), |at| {
            let until = format!("{} + interval {} microsecond", at.moment(), self.stalled_us);
            format!("coalesce({until} <= {}, true)", self.names.now)
        });
        Some(format!("{is_leased} and s.leased_until is null and {late}"))
    }

    /// When a row that is kept waiting is due: what is kept beside the table counts too.
    pub(super) fn not_before(&self) -> String {
        let mapped = self.layout.columns.not_before.as_ref();
        match TimeColumn::readable(mapped, self.table, self.layout.zone) {
            Some(own) => {
                let own = own.moment();
                format!("coalesce(greatest({own}, s.not_before), {own}, s.not_before)")
            }
            None => "s.not_before".into(),
        }
    }

    /// Rows of a state, by what an index knows before the state itself is worked out.
    pub(super) fn narrow(&self, state: State) -> String {
        if self.is_cursor() {
            return self.narrow_cursor(state);
        }
        let first = match (self.status(), state) {
            (Some(status), State::Dead) => format!("({} or s.dead)", status.is_dead()),
            (Some(status), State::Published) => status.is_published(),
            (Some(status), State::Pending | State::Leased) => status.is_open(),
            (Some(status), State::Unknown) => status.is_unknown(),
            (None, State::Dead) => "s.dead".into(),
            (None, State::Unknown) => "false".into(),
            (None, _) => "true".into(),
        };
        format!("{first} and ({}) = {}", self.state(), literal(state.word()))
    }

    /// What a mapped column of `t` becomes; the value is told whether the column takes no NULL.
    pub(super) fn to(&self, mapped: &Option<Column>, value: impl FnOnce(bool) -> String) -> Option<String> {
        let column = mapped.as_ref().and_then(Column::name)?;
        let not_null = self.table.mapped(mapped.as_ref()).is_some_and(|live| live.not_null);
        Some(format!("t.{} = {}", name(column), value(not_null)))
    }

    pub(super) fn next_version(&self) -> Option<String> {
        let most = super::status::version_max(self.layout, self.table);
        let version = self.layout.columns.version.as_ref().and_then(Column::name).map(column)?;
        Some(format!("{version} = coalesce({version}, 0) % {most} + 1"))
    }
}

/// The status column of the table `t`, compared with the layout's words.
pub(super) struct Status<'a> {
    pub(super) column: String,
    words: &'a Words,
}

impl Status<'_> {
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
        let each: Vec<String> = words.map(literal).collect();
        format!("{} in ({})", self.column, each.join(", "))
    }

    /// None of the layout's words, or none at all.
    pub(super) fn is_unknown(&self) -> String {
        format!("({} or {} or {}) is not true", self.is_published(), self.is_dead(), self.is_open())
    }

    fn is(&self, word: &str) -> String {
        format!("{} = {}", self.column, literal(word))
    }
}
