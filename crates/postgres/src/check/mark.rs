//! The column that shows that a row is published: whether it can be empty until then, and is.

use postrider_core::layout::{Column, TimeForm};

use super::Found;
use crate::config::Config;
use crate::sql::Names;
use crate::table::{Kind, LiveColumn, Table};

/// What is wrong with the column of `published = { column = … }`, and the remedy.
pub(crate) fn unfit_mark(config: &Config, table: &Table) -> Option<(String, String)> {
    let Some(Column::Named(name, form)) = config.layout.columns.published.as_ref() else { return None };
    let live = table.column(name.as_str())?;
    let place = Names::new(&config.layout).table;
    let column = format!("published.column is {} of type {}", name.quoted(), live.shown());
    let alter = |change: &str| format!("alter table {place} alter column {} {change};", name.quoted());
    if !holds_a_mark(live, *form) {
        let remedy = match live.kind {
            Kind::Integer | Kind::Real => format!(
                "Write published = {{ column = \"{}\", as = \"unix_ms\" }} (or unix_s, unix_us) if the number is a time; a number \
                 that is a status is mapped as columns.status, with its words in [status].",
                live.name
            ),
            _ => "Name a column of timestamptz, timestamp or boolean; a column of words is mapped as columns.status, with its words in [status]."
                .to_owned(),
        };
        return Some((format!("{column}, which is neither a time nor a flag"), remedy));
    }
    if live.kind != Kind::Boolean && live.not_null {
        return Some((
            format!("{column}, which takes no NULL: every row would count as published"),
            format!(
                "Name the column that is NULL until an event is published, or: {}",
                alter("drop not null")
            ),
        ));
    }
    match live.default.as_deref() {
        Some(default) if !is_empty(default) => Some((
            format!("{column}, and its default is {default}: a new row would count as published"),
            alter("drop default"),
        )),
        _ => None,
    }
}

fn holds_a_mark(live: &LiveColumn, form: TimeForm) -> bool {
    match live.kind {
        Kind::Moment | Kind::Local | Kind::Date | Kind::Boolean => true,
        Kind::Integer => form == TimeForm::UnixS || (form != TimeForm::Text && live.declared == "bigint"),
        Kind::Real => form != TimeForm::Text,
        _ => false,
    }
}

/// A default that leaves a row unpublished.
fn is_empty(default: &str) -> bool {
    default == "false" || default.to_lowercase().starts_with("null")
}

impl Found<'_> {
    pub(super) fn mark(&mut self, table: &Table) {
        if let Some((problem, remedy)) = unfit_mark(self.config, table) {
            self.fault(problem, remedy);
        }
    }
}
