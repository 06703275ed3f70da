//! Statements over status tables.
//!
//! Rows are looked at without their payload and without locks (`scan`), then those that are wanted are locked by their ids,
//! looked at again and marked (`lease`), and what became of them is written for the whole batch (`settle`).

mod hold;
mod lease;
mod scan;
mod settle;

pub(crate) use hold::{HoldSql, beside};
pub(crate) use lease::{LeaseSql, taken};
pub(crate) use scan::{From, ScanSql, pulse, scanned};
pub(crate) use settle::SettleSql;

use postrider_core::Layout;
use postrider_core::layout::{Column, Words};

use super::time::TimeColumn;
use super::{Id, Names, literal, name};
use crate::config::Config;
use crate::table::{Kind, Table};

/// What the statements are made of.
pub(crate) struct Parts<'a> {
    pub(super) layout: &'a Layout,
    pub(super) live: &'a Table,
    pub(super) names: Names,
    pub(super) id: Id,
    /// What rows are ordered by before their id: their time, where ids do not count.
    pub(super) lead: Option<Lead>,
    pub(super) not_before: Option<TimeColumn>,
    pub(super) leased_at: Option<TimeColumn>,
    pub(super) published_at: Option<TimeColumn>,
    pub(super) ttl_us: i64,
    /// How long what another program took is left to it.
    pub(super) stalled_us: i64,
}

/// A column that rows are ordered by before their id.
pub(crate) struct Lead {
    pub(super) column: String,
    /// The column as a text that is read back without loss, and that sorts as the column does.
    pub(super) text: String,
    pub(super) nullable: bool,
}

impl<'a> Parts<'a> {
    pub(crate) fn new(config: &'a Config, live: &'a Table) -> Self {
        let layout = &config.layout;
        let time = |mapped: Option<&Column>| TimeColumn::new(mapped, live, layout.zone);
        Self {
            layout,
            live,
            names: Names::new(config),
            id: Id::new(layout, live),
            lead: lead(layout, live),
            not_before: time(layout.columns.not_before.as_ref()),
            leased_at: time(layout.columns.leased_at.as_ref()),
            published_at: time(layout.columns.published_at.as_ref()),
            ttl_us: config.ttl_us(),
            stalled_us: config.stalled_us(),
        }
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

    /// That a row of `t` has a word.
    fn has_word(&self, word: &str) -> String {
        self.status().map_or("true".into(), |status| format!("t.{status} = {}", literal(word)))
    }

    /// That a row of `t` is still to be published.
    fn is_open(&self) -> String {
        let words = self.open_words();
        let words: Vec<String> = words.iter().filter_map(|(word, _)| word.map(literal)).collect();
        match self.status() {
            Some(status) if !words.is_empty() => format!("t.{status} in ({})", words.join(", ")),
            _ => "true".into(),
        }
    }

    fn bare(&self, mapped: Option<&Column>) -> Option<String> {
        mapped.and_then(Column::name).map(name)
    }

    /// The version of a row of `t` as a number; zero where the table has none (A7).
    fn version(&self) -> String {
        let version = self.bare(self.layout.columns.version.as_ref());
        version.map_or("0".into(), |version| format!("coalesce(t.{version}, 0)"))
    }

    /// The version that a change gives a row: the largest is followed by one.
    fn bump(&self) -> Option<String> {
        let name = self.bare(self.layout.columns.version.as_ref())?;
        Some(format!("t.{name} = coalesce(t.{name}, 0) % {} + 1", version_max(self.layout, self.live)))
    }

    /// What a row looks like that nobody holds.
    fn unheld(&self) -> Vec<String> {
        let columns = &self.layout.columns;
        let mut set = Vec::new();
        for mapped in [columns.lease_owner.as_ref(), columns.leased_at.as_ref()] {
            let nullable = self.live.mapped(mapped).is_none_or(|live| !live.not_null);
            set.extend(self.bare(mapped).filter(|_| nullable).map(|name| format!("t.{name} = null")));
        }
        set.extend(self.bump());
        set
    }

    /// Writes something to the rows of a list.
    fn update(&self, list: &str, set: &[String], only: &str) -> String {
        let rows = self.id.rows_of(list, &self.names.table);
        format!("update {rows} set {} where {only}", set.join(", "))
    }

    /// The database's clock as rows are ordered by it, as a text; null where they are not, or by something else.
    fn now_lead(&self) -> String {
        let time = TimeColumn::readable(self.layout.columns.time.as_ref(), self.live, self.layout.zone);
        match (time, &self.lead) {
            (Some(time), Some(_)) if self.lead_compares() => {
                digits(self.live.kind(&time.name), &time.at(&self.names.now))
            }
            _ => "null".into(),
        }
    }

    /// Whether what rows are ordered by before their id compares on this side as in the database.
    pub(crate) fn lead_compares(&self) -> bool {
        let time = self.layout.columns.time.as_ref().and_then(Column::name).map(|time| self.live.kind(time));
        let counts = |kind| matches!(kind, Kind::Integer | Kind::Moment | Kind::Local | Kind::Date);
        self.lead.is_none() || time.is_some_and(counts)
    }

    /// In the order of the table.
    fn in_order(&self) -> String {
        let lead = self.lead.iter().map(|lead| lead.column.clone());
        lead.chain([self.id.column.clone()]).collect::<Vec<_>>().join(", ")
    }
}

/// By id where ids count, else by time.
pub(crate) fn lead(layout: &Layout, live: &Table) -> Option<Lead> {
    let time = layout.columns.time.as_ref().and_then(Column::name);
    let time = time.filter(|_| !live.id_counts(layout))?;
    let column = format!("t.{}", name(time));
    let nullable = !live.column(time.as_str()).is_some_and(|live| live.not_null);
    Some(Lead { text: digits(live.kind(time), &column), column, nullable })
}

/// A value as a text that is read back without loss, and that sorts as the value does where it is a time.
fn digits(kind: Kind, value: &str) -> String {
    match kind {
        Kind::Moment | Kind::Local | Kind::Date => format!("date_format({value}, '%Y-%m-%d %H:%i:%s.%f')"),
        _ => format!("cast({value} as char character set utf8mb4)"),
    }
}

/// The largest version that the column holds.
pub(crate) fn version_max(layout: &Layout, live: &Table) -> i64 {
    let declared = live.mapped(layout.columns.version.as_ref()).map_or("", |live| live.declared.as_str());
    match declared.split(['(', ' ']).next().unwrap_or_default() {
        "tinyint" => i64::from(i8::MAX),
        "smallint" => i64::from(i16::MAX),
        "mediumint" => (1 << 23) - 1,
        "int" => i64::from(i32::MAX),
        _ => i64::MAX,
    }
}
