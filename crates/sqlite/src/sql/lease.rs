//! Claiming rows of a status table, and writing back what became of them.

mod left;

use postrider_core::Layout;
use postrider_core::layout::{Column, Published, TimeForm, Words};

use super::fields::{STATE, column, fields};
use super::{Names, literal};
use postrider_core::rows::Field;

/// The columns behind the envelope in [`LeaseSql::scan`].
pub(crate) mod state {
    use super::STATE;

    pub(crate) const RETRIES: usize = STATE;
    pub(crate) const RETRIES_MAX: usize = STATE + 1;
    pub(crate) const NOT_BEFORE: usize = STATE + 2;
    pub(crate) const LEASED_UNTIL: usize = STATE + 3;
    pub(crate) const LEASED: usize = STATE + 4;
    pub(crate) const LEASED_AT: usize = STATE + 5;
    pub(crate) const VERSION: usize = STATE + 6;
    /// Whether the version is a whole number, or NULL.
    pub(crate) const VERSION_SOUND: usize = STATE + 7;
}

/// ?1 is the outbox everywhere; what the other parameters are is said at each statement.
#[derive(Debug)]
pub(crate) struct LeaseSql {
    /// Every row that is not published or dead, in order: ?1.
    pub(crate) scan: String,
    /// The same behind a row: ?2 what it is ordered by before its id (or null), ?3 its id.
    pub(crate) scan_on: String,
    /// Marks rows as held: ?2 ids, ?3 owner, ?4 until, ?5 claim.
    pub(crate) mark: String,
    /// The same in the table itself, where it has columns for it: ?2 ids, ?3 owner, ?4 now.
    pub(crate) mark_table: Option<String>,
    /// Keeps rows held: ?2 ids, ?3 owner, ?4 until, ?5 claim.
    pub(crate) extend: String,
    /// The same in the table itself: ?2 ids, ?4 now.
    pub(crate) extend_table: Option<String>,
    /// Forgets what was kept beside published rows: ?2 ids, ?3 owner, ?4 claim.
    pub(crate) published: String,
    /// Marks rows as published, or deletes them: ?2 rows `[id, version]`, ?3 now.
    pub(crate) published_table: String,
    /// Keeps what became of unpublished rows: ?2 rows `[id, status, retries, due, due here, error, holds key, version]`, ?3 owner, ?4 claim.
    pub(crate) returned: String,
    /// The same in the table itself: ?2 rows.
    pub(crate) returned_table: String,
    /// Rows whose holder is gone: ?2 now. Answers their ids.
    pub(crate) expired: String,
    /// Rows that are in somebody's hands by their word, and not in Postrider's: ids and since when.
    pub(crate) foreign: Option<String>,
    /// Rows that a predecessor held: their ids.
    pub(crate) orphans: String,
    /// Gives rows back: ?2 ids.
    pub(crate) reap: String,
    /// The same in the table itself: ?2 ids.
    pub(crate) reap_table: Option<String>,
    /// Dead rows that hold their key: their envelopes.
    pub(crate) holders: String,
    /// Keeps rows of the table up to date with a form of its own.
    pub(crate) not_before_form: TimeForm,
    pub(crate) has_version: bool,
}

impl LeaseSql {
    pub(crate) fn new(layout: &Layout, names: &Names, words: &Words, id_counts: bool) -> Self {
        let parts = Parts::new(layout, names, words, id_counts);
        let not_before = layout.columns.not_before.as_ref();
        Self {
            scan: parts.scan(false),
            scan_on: parts.scan(true),
            mark: parts.mark(),
            mark_table: parts.mark_table(),
            extend: parts.extend(),
            extend_table: parts.extend_table(),
            published: parts.published(),
            published_table: parts.published_table(),
            returned: parts.returned(),
            returned_table: parts.returned_table(),
            expired: parts.expired(),
            foreign: parts.foreign(),
            orphans: parts.orphans(),
            reap: parts.reap(),
            reap_table: parts.reap_table(),
            holders: parts.holders(),
            not_before_form: not_before.map_or(TimeForm::UnixUs, form),
            has_version: layout.columns.version.is_some(),
        }
    }
}

pub(crate) fn form(column: &Column) -> TimeForm {
    match column {
        Column::Named(_, form) => *form,
        Column::Constant(_) | Column::Json(_) | Column::Absent => TimeForm::Text,
    }
}

/// The mapped column on `t`, or the one beside it on `s`.
pub(super) fn kept(mapped: Option<&Column>, beside: &str) -> String {
    mapped.and_then(Column::name).map_or_else(|| beside.to_owned(), column)
}

/// A version as a number, whatever the column holds.
pub(super) fn version_number(version: &str) -> String {
    format!("cast(coalesce({version}, 0) as integer)")
}

/// The one that a change gives it; the largest is followed by one, because a fraction would never be found again.
pub(super) fn next_version(version: &str) -> String {
    format!("{} % {} + 1", version_number(version), i64::MAX)
}

fn is_version(version: &str) -> String {
    format!("{version} is null or cast({version} as text) = cast(cast({version} as integer) as text)")
}

struct Parts<'a> {
    layout: &'a Layout,
    words: &'a Words,
    table: &'a str,
    entries: &'a str,
    id: String,
    /// The bare id, for statements that take no alias.
    id_bare: String,
    id_counts: bool,
}

impl<'a> Parts<'a> {
    fn new(layout: &'a Layout, names: &'a Names, words: &'a Words, id_counts: bool) -> Self {
        let id = layout.columns.id.as_ref().and_then(Column::name).expect("a valid layout names its id");
        Self {
            layout,
            words,
            table: &names.table,
            entries: &names.entries,
            id: column(id),
            id_bare: id.quoted(),
            id_counts,
        }
    }

    /// What rows are ordered by before their id: nothing where ids count, else the time.
    fn lead(&self) -> Option<String> {
        let time = self.layout.columns.time.as_ref().and_then(Column::name);
        time.filter(|_| !self.id_counts).map(column)
    }

    fn scan(&self, on: bool) -> String {
        let columns = &self.layout.columns;
        let leased_at = columns.leased_at.as_ref().and_then(Column::name).map_or("null".into(), column);
        let retries_max = columns.retries_max.as_ref().and_then(Column::name).map_or("null".into(), column);
        let behind = match (on, self.lead()) {
            (false, _) => String::new(),
            (true, None) => format!(" and ?2 is null and {} > ?3", self.id),
            // NULL sorts first in SQLite, and compares with nothing.
            (true, Some(lead)) => format!(
                " and (({lead} > ?2) or ({lead} = ?2 and {id} > ?3) or (?2 is null and ({lead} is not null or {id} > ?3)))",
                id = self.id
            ),
        };
        let version = columns.version.as_ref().and_then(Column::name).map(column);
        // The plus takes the id's affinity away: with it the index on the entry, which has none, would not be used.
        // One branch per word, merged in order: each can walk an index on the status, an `in` would sort all of them.
        let leased = self.words.leased.as_deref();
        let branches = self.words.open().chain(leased).map(|word| {
            format!(
                "select {fields}, {retries} as retries, {retries_max} as retries_max, {not_before} as not_before, \
                 s.leased_until, {is_leased}, {leased_at} as leased_at, {version} as version, {sound} as version_sound \
                 from {table} as t left join {entries} as s on s.outbox = ?1 and s.entry = +{id} \
                 where {status} = {word} and typeof({id}) in ('integer', 'text'){behind}",
                fields = fields(self.layout),
                retries = kept(columns.retries.as_ref(), "s.retries"),
                not_before = kept(columns.not_before.as_ref(), "s.not_before"),
                is_leased = u8::from(leased == Some(word)),
                version = version.as_deref().map_or("0".into(), version_number),
                sound = version.as_deref().map_or("1".into(), is_version),
                table = self.table,
                entries = self.entries,
                id = self.id,
                status = self.status(),
                word = literal(word),
            )
        });
        let order = match self.lead() {
            Some(_) => format!("{}, {}", Field::Time as usize + 1, Field::Id as usize + 1),
            None => (Field::Id as usize + 1).to_string(),
        };
        format!("{} order by {order}", branches.collect::<Vec<_>>().join(" union all "))
    }

    fn status(&self) -> String {
        kept(self.layout.columns.status.as_ref(), "null")
    }

    fn mark(&self) -> String {
        format!(
            "insert into {} (outbox, entry, owner, leased_until, fence) \
             select ?1, value, ?3, ?4, ?5 from json_each(?2) where true \
             on conflict (outbox, entry) do update \
             set owner = excluded.owner, leased_until = excluded.leased_until, fence = excluded.fence",
            self.entries
        )
    }

    fn mark_table(&self) -> Option<String> {
        let columns = &self.layout.columns;
        let mut set = Vec::new();
        if let Some(word) = &self.words.leased {
            set.push(format!("{} = {}", self.bare(columns.status.as_ref())?, literal(word)));
        }
        set.extend(self.bare(columns.lease_owner.as_ref()).map(|owner| format!("{owner} = ?3")));
        set.extend(self.bare(columns.leased_at.as_ref()).map(|at| format!("{at} = ?4")));
        set.extend(self.bump());
        self.update_listed(&set)
    }

    fn extend(&self) -> String {
        format!(
            "update {} set leased_until = ?4 where outbox = ?1 and entry in (select value from json_each(?2)) \
             and owner = ?3 and fence = ?5 and leased_until is not null",
            self.entries
        )
    }

    fn extend_table(&self) -> Option<String> {
        let at = self.bare(self.layout.columns.leased_at.as_ref())?;
        self.update_listed(&[format!("{at} = ?4")])
    }

    fn published(&self) -> String {
        format!(
            "delete from {} where outbox = ?1 and entry in (select value ->> 0 from json_each(?2)) \
             and owner = ?3 and fence = ?4 and leased_until is not null",
            self.entries
        )
    }

    fn published_table(&self) -> String {
        let columns = &self.layout.columns;
        if self.layout.published == Published::Delete {
            return format!(
                "delete from {} as t where {} in ({})",
                self.table,
                self.id,
                self.listed_unchanged()
            );
        }
        let word = self.words.published.as_deref().unwrap_or_default();
        let mut set =
            vec![format!("{} = {}", self.bare(columns.status.as_ref()).unwrap_or_default(), literal(word))];
        set.extend(self.bare(columns.published_at.as_ref()).map(|at| format!("{at} = ?3")));
        set.extend(self.unheld());
        format!(
            "update {} as t set {} where {} in ({})",
            self.table,
            set.join(", "),
            self.id,
            self.listed_unchanged()
        )
    }

    /// Where rows have a version, only those count that still have the one of the claim (A7).
    fn listed_unchanged(&self) -> String {
        match self.bare(self.layout.columns.version.as_ref()) {
            None => "select value ->> 0 from json_each(?2)".into(),
            Some(version) => format!(
                "select r.{id} from json_each(?2) as j join {table} as r \
                 on r.{id} = j.value ->> 0 and {number} = j.value ->> 1",
                number = version_number(&format!("r.{version}")),
                id = self.id_bare,
                table = self.table,
            ),
        }
    }

    fn returned(&self) -> String {
        let columns = &self.layout.columns;
        let mut set: Vec<String> = Vec::new();
        if columns.retries.is_none() {
            set.push("retries = coalesce(j.value ->> 2, retries)".into());
        }
        if columns.not_before.is_none() {
            set.push("not_before = coalesce(j.value ->> 3, not_before)".into());
        }
        if columns.error.is_none() {
            set.push("error = coalesce(j.value ->> 5, error)".into());
        }
        set.push("holds_key = j.value ->> 6, owner = null, leased_until = null, fence = null".into());
        format!(
            "update {entries} set {set} from json_each(?2) as j \
             where {entries}.outbox = ?1 and {entries}.entry = j.value ->> 0 \
             and {entries}.owner = ?3 and {entries}.fence = ?4 and {entries}.leased_until is not null",
            entries = self.entries,
            set = set.join(", ")
        )
    }

    fn returned_table(&self) -> String {
        let columns = &self.layout.columns;
        let mut set =
            vec![format!("{} = j.value ->> 1", self.bare(columns.status.as_ref()).unwrap_or_default())];
        let mut coalesced = |mapped: Option<&Column>, at: usize| {
            set.extend(
                self.bare(mapped).map(|name| format!("{name} = coalesce(j.value ->> {at}, t.{name})")),
            );
        };
        coalesced(columns.retries.as_ref(), 2);
        coalesced(columns.not_before.as_ref(), 4);
        coalesced(columns.error.as_ref(), 5);
        set.extend(self.unheld());
        let version = columns.version.as_ref().and_then(Column::name).map(column);
        let version =
            version.map_or(String::new(), |name| format!(" and j.value ->> 7 = {}", version_number(&name)));
        format!(
            "update {} as t set {} from json_each(?2) as j where {} = j.value ->> 0{version}",
            self.table,
            set.join(", "),
            self.id
        )
    }

    /// What a row looks like that nobody holds.
    fn unheld(&self) -> Vec<String> {
        let columns = &self.layout.columns;
        let mut set = Vec::new();
        set.extend(self.bare(columns.lease_owner.as_ref()).map(|owner| format!("{owner} = null")));
        set.extend(self.bare(columns.leased_at.as_ref()).map(|at| format!("{at} = null")));
        set.extend(self.bump());
        set
    }

    fn bump(&self) -> Option<String> {
        let version = self.bare(self.layout.columns.version.as_ref())?;
        Some(format!("{version} = {}", next_version(&format!("t.{version}"))))
    }

    fn bare(&self, mapped: Option<&Column>) -> Option<String> {
        mapped.and_then(Column::name).map(|name| name.quoted())
    }

    fn update_listed(&self, set: &[String]) -> Option<String> {
        (!set.is_empty()).then(|| {
            format!(
                "update {} as t set {} where {} in (select value from json_each(?2))",
                self.table,
                set.join(", "),
                self.id
            )
        })
    }
}
