//! Statements over status tables, shared by `lease` and `hold`.
//!
//! Rows are looked at without their payload and without locks (`scan`), then those that are wanted are taken by their ids
//! in one statement that looks again (`lease`, `hold`), and what became of them is written for the whole batch (`settle`).

mod hold;
mod lease;
mod order;
mod scan;
mod settle;

pub(crate) use hold::{HoldSql, beside};
pub(crate) use lease::{LeaseSql, taken};
pub(crate) use order::{behind, is_indexed, order};
pub(crate) use scan::{ScanSql, late, scanned};
pub(crate) use settle::SettleSql;

use postrider_core::Layout;
use postrider_core::layout::{Column, Identifier, Order, Words};

use super::mark::Mark;
use super::time::{NOW, TimeColumn};
use super::{Names, literal};
use crate::table::{Kind, LiveColumn, Table};

/// A value as a text that is cast back without loss, and that sorts as the value does where it is a time.
fn digits(kind: Kind, value: &str) -> String {
    let written = "'YYYY-MM-DD HH24:MI:SS.US'";
    match kind {
        Kind::Moment => format!("to_char({value} at time zone 'UTC', {written}) || '+00'"),
        Kind::Local => format!("to_char({value}, {written})"),
        _ => format!("({value})::text"),
    }
}

/// A list of parameters as rows under the alias `g`. The series, which the planner takes for a thousand rows, keeps it from
/// believing that the list is short: it would compare each row with each.
fn listed(arrays: &str, columns: &str) -> String {
    format!("rows from (unnest({arrays}), generate_series(1, cardinality($2::text[]))) as g({columns}, at)")
}

/// What the statements are made of.
pub(crate) struct Parts<'a> {
    layout: &'a Layout,
    live: &'a Table,
    names: Names,
    /// The id's bare name, quoted.
    id: String,
    /// The type that an id, given as text, is cast to.
    id_type: String,
    /// What rows are ordered by before their id.
    leads: Vec<Lead>,
    not_before: Option<TimeColumn>,
    leased_at: Option<TimeColumn>,
    published_at: Option<TimeColumn>,
    /// What shows that a row is published, where the table has no status.
    mark: Option<Mark<'a>>,
    ttl_us: i64,
}

/// A column that rows are ordered by before their id.
struct Lead {
    column: String,
    /// The column as a text that is cast back without loss, and that sorts as the column does where it is a time.
    text: String,
    cast: String,
    /// The database's clock as such a text, where it is a time.
    now: Option<String>,
    kind: Kind,
    nullable: bool,
}

impl<'a> Parts<'a> {
    pub(crate) fn new(layout: &'a Layout, live: &'a Table, ttl_us: i64) -> Self {
        let id =
            layout.columns.id.as_ref().and_then(Column::name).map(Identifier::quoted).unwrap_or_default();
        let time = |mapped: Option<&Column>| TimeColumn::new(mapped, live, layout.zone);
        let mut parts = Self {
            layout,
            live,
            names: Names::new(layout),
            id,
            id_type: live.id_type(layout),
            leads: Vec::new(),
            not_before: time(layout.columns.not_before.as_ref()),
            leased_at: time(layout.columns.leased_at.as_ref()),
            published_at: time(layout.columns.published_at.as_ref()),
            mark: Mark::new(layout, live),
            ttl_us,
        };
        let mut order = order(layout, live);
        order.pop();
        parts.leads = order.into_iter().map(|name| parts.lead(name)).collect();
        parts
    }

    fn lead(&self, name: &Identifier) -> Lead {
        let column = format!("t.{}", name.quoted());
        let live = self.live.column(name.as_str());
        let declared = live.map_or("text", |live| live.declared.as_str());
        let kind = self.live.kind(name);
        // Infinity has no digits.
        let (text, cast) = match kind {
            Kind::Moment => (format!("coalesce({}, {column}::text)", digits(kind, &column)), "timestamptz"),
            Kind::Local => (format!("coalesce({}, {column}::text)", digits(kind, &column)), "timestamp"),
            _ => (digits(kind, &column), declared),
        };
        let nullable = !live.is_some_and(|live| live.not_null);
        Lead { text, cast: cast.to_owned(), now: self.now(name, kind), kind, nullable, column }
    }

    /// The database's clock as a column holds it, and as its text.
    fn now(&self, name: &Identifier, kind: Kind) -> Option<String> {
        let columns = [self.layout.columns.not_before.as_ref(), self.layout.columns.time.as_ref()];
        let mapped = columns.into_iter().flatten().find(|mapped| mapped.name() == Some(name));
        let time = TimeColumn::new(mapped, self.live, self.layout.zone)?;
        let counts = matches!(kind, Kind::Moment | Kind::Local | Kind::Date | Kind::Integer);
        (counts && time.is_comparable()).then(|| digits(kind, &time.at(NOW)))
    }

    /// Whether ranks are compared on this side as the database compares them: texts are compared by rules of their own.
    pub(crate) fn ranks_compare(&self) -> bool {
        let counts = |kind| matches!(kind, Kind::Integer | Kind::Moment | Kind::Local);
        matches!(self.live.id_kind(self.layout), Kind::Integer | Kind::Uuid)
            && self.leads.iter().all(|lead| counts(lead.kind))
    }

    pub(crate) fn keeps_order(&self) -> bool {
        self.layout.order == Order::Key
    }

    fn words(&self) -> Option<&'a Words> {
        self.layout.status.as_ref()
    }

    /// The status column's bare name, quoted.
    fn status(&self) -> Option<String> {
        self.bare(self.layout.columns.status.as_ref())
    }

    /// Words of rows that may be claimed, and whether it is that of a row in somebody's hands. One without a word where the
    /// table has no status.
    fn open_words(&self) -> Vec<(Option<&'a str>, bool)> {
        match self.words() {
            None => vec![(None, false)],
            Some(words) => words
                .open()
                .map(|word| (Some(word), false))
                .chain(words.leased.as_deref().map(|word| (Some(word), true)))
                .collect(),
        }
    }

    /// That a row of `t` has one of these words.
    fn has_word(&self, words: &[&str]) -> String {
        match self.status() {
            None => self.is_unmarked(),
            Some(status) => {
                let words = words.iter().map(|word| literal(word)).collect::<Vec<_>>();
                format!("{} in ({})", self.compared(&status), words.join(", "))
            }
        }
    }

    /// That a row of `t`, in a table without a status, is still to be published.
    fn is_unmarked(&self) -> String {
        self.mark.as_ref().map_or("true".into(), Mark::is_unset)
    }

    /// That a row of `t` is still to be published.
    fn is_open(&self) -> String {
        let words: Vec<&str> = self.open_words().into_iter().filter_map(|(word, _)| word).collect();
        self.has_word(&words)
    }

    /// The status of a row of `t` as it is compared with a word.
    fn compared(&self, status: &str) -> String {
        let column = format!("t.{status}");
        self.live_status().map_or_else(|| column.clone(), |live| live.compared(&column))
    }

    fn live_status(&self) -> Option<&LiveColumn> {
        let column = self.layout.columns.status.as_ref().and_then(Column::name)?;
        self.live.column(column.as_str())
    }

    /// A word, given as a text, as the status column takes it. A text column checks the length itself, a cast would cut it.
    fn word(&self, text: &str) -> String {
        match self.live_status() {
            Some(live) if live.kind != Kind::Text => format!("({text})::{}", live.declared),
            _ => text.to_owned(),
        }
    }

    fn bare(&self, mapped: Option<&Column>) -> Option<String> {
        mapped.and_then(Column::name).map(Identifier::quoted)
    }

    /// The version of a row of `t` as a number; zero where the table has none (A7).
    fn version(&self) -> String {
        let version = self.bare(self.layout.columns.version.as_ref());
        version.map_or("0::bigint".into(), |version| format!("coalesce(t.{version}, 0)::bigint"))
    }

    /// The version that a change gives a row: the largest is followed by one.
    fn bump(&self) -> Option<String> {
        let name = self.bare(self.layout.columns.version.as_ref())?;
        Some(format!("{name} = coalesce(t.{name}, 0) % {} + 1", self.version_max()))
    }

    fn version_max(&self) -> i64 {
        let name = self.layout.columns.version.as_ref().and_then(Column::name);
        match name.and_then(|name| self.live.column(name.as_str())).map(|live| live.declared.as_str()) {
            Some("smallint") => i64::from(i16::MAX),
            Some("integer") => i64::from(i32::MAX),
            _ => i64::MAX,
        }
    }

    /// That a row of `t` still has the version of `g` (A7).
    fn same_version(&self) -> String {
        if self.layout.columns.version.is_some() {
            format!(" and {} = g.version", self.version())
        } else {
            String::new()
        }
    }

    /// What a row looks like that nobody holds.
    fn unheld(&self) -> Vec<String> {
        let columns = &self.layout.columns;
        let mut set = Vec::new();
        set.extend(self.bare(columns.lease_owner.as_ref()).map(|owner| format!("{owner} = null")));
        set.extend(self.leased_at.as_ref().map(|at| format!("{} = null", at.name.quoted())));
        set.extend(self.bump());
        set
    }

    /// That the row of `t` is one of a list, by its index whatever the planner knows; where versions are compared, by a join
    /// with `g`. With what is to be said after the table's name.
    fn among(&self, verb: &str, list: &str) -> (String, String, &'static str) {
        if self.layout.columns.version.is_some() {
            return (
                format!(" {verb} {list} as g"),
                format!("{}{}", self.is_listed(), self.same_version()),
                "g.entry",
            );
        }
        let any = format!("t.{} = any(array(select g.entry::{} from {list} as g))", self.id, self.id_type);
        (String::new(), any, "")
    }

    /// That the row of `t` is the one of a list under the alias `g`.
    fn is_listed(&self) -> String {
        format!("t.{} = g.entry::{}", self.id, self.id_type)
    }

    /// A condition that no index answers: the few rows that are given are found by their ids. The planner, which knows little of
    /// tables that fill and drain all day, would rather go through all that are open.
    fn by_id_alone(&self, condition: &str) -> String {
        format!("coalesce({condition}, false)")
    }

    /// What is kept beside the rows of `t`, under the alias `s`. The offset keeps the planner from anything but looking each
    /// of them up: a plan that was made while there were few would compare each with each.
    fn join_beside(&self) -> String {
        format!(
            "left join lateral (select e.not_before, e.leased_until, e.dead from {entries} as e \
             where e.outbox = $1 and e.entry = t.{id}::text offset 0) as s on true",
            entries = self.names.entries,
            id = self.id
        )
    }

    /// In the order of the table.
    fn in_order(&self) -> String {
        let leads = self.leads.iter().map(|lead| lead.column.clone());
        leads.chain([format!("t.{}", self.id)]).collect::<Vec<_>>().join(", ")
    }
}
