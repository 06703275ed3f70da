//! A column that shows that a row is published: empty until then.

use postrider_core::Layout;
use postrider_core::layout::{Column, Identifier};

use super::time::{NOW, TimeColumn};
use crate::table::{Kind, Table};

/// The column of `published = { column = … }`.
#[derive(Debug)]
pub(crate) struct Mark<'a> {
    pub(crate) mapped: &'a Column,
    name: &'a Identifier,
    /// A boolean is set by being true, anything else by not being NULL.
    is_flag: bool,
    not_null: bool,
    time: TimeColumn,
}

impl<'a> Mark<'a> {
    /// None where published shows in another way.
    pub(crate) fn new(layout: &'a Layout, table: &Table) -> Option<Self> {
        let mapped = layout.columns.published.as_ref()?;
        let name = mapped.name()?;
        Some(Self {
            mapped,
            name,
            is_flag: table.kind(name) == Kind::Boolean,
            not_null: table.column(name.as_str()).is_some_and(|live| live.not_null),
            time: TimeColumn::new(Some(mapped), table, layout.zone)?,
        })
    }

    /// That a row of `t` is published.
    pub(crate) fn is_set(&self) -> String {
        let column = self.time.column();
        if self.is_flag { format!("{column} is true") } else { format!("{column} is not null") }
    }

    /// That it is still to be. A flag that is never NULL is compared as people's partial indexes do it.
    pub(crate) fn is_unset(&self) -> String {
        let column = self.time.column();
        match (self.is_flag, self.not_null) {
            (true, true) => format!("{column} = false"),
            (true, false) => format!("{column} is not true"),
            (false, _) => format!("{column} is null"),
        }
    }

    /// The condition of an index that holds open rows only.
    pub(crate) fn condition(&self) -> String {
        let name = self.name.quoted();
        match (self.is_flag, self.not_null) {
            (true, true) => format!("{name} = false"),
            (true, false) => format!("{name} is not true"),
            (false, _) => format!("{name} is null"),
        }
    }

    /// What an update sets.
    pub(crate) fn set(&self) -> String {
        let value = if self.is_flag { "true".to_owned() } else { self.time.at(NOW) };
        format!("{} = {value}", self.name.quoted())
    }

    /// When a row was published, where the mark is a time.
    pub(crate) fn published_at(&self) -> Option<&'a Column> {
        (!self.is_flag).then_some(self.mapped)
    }
}
