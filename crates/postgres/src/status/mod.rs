//! What `lease` and `hold` share: looking for rows, reading those that were taken, writing what became of them. What is decided
//! over rows is in `core/src/status/`.

mod late;
mod scan;
mod settling;
mod taken;

pub(crate) use late::Drawn;
pub(crate) use scan::Scanner;
pub(crate) use settling::{Settler, error_chars_max};
pub(crate) use taken::{Taking, count};

use postrider_core::Fault;
use postrider_core::layout::{Column, Published};

use crate::config::Config;
use crate::sql::time::TimeColumn;
use crate::table::{Kind, LiveColumn, Table};

/// Refuses a status table whose columns cannot be what the layout says.
pub(crate) fn require_columns(config: &Config, table: &Table) -> Result<(), Fault> {
    let layout = &config.layout;
    let refuse = |problem: String, remedy: String| Err(Fault::new(config.place(), problem, remedy));
    let due = TimeColumn::new(layout.columns.not_before.as_ref(), table, layout.zone);
    if let Some(due) = due.filter(|due| !due.is_comparable()) {
        return refuse(
            format!("column {} is to say when a row is due, and the database cannot compare it with a time", due.name.quoted()),
            "Make it timestamptz or timestamp, say as = \"unix_ms\" in the layout if it is a number, or leave columns.not_before out: then it is kept in Postrider's own table.".into(),
        );
    }
    if let Some((problem, remedy)) = crate::check::unfit_mark(config, table) {
        return refuse(problem, remedy);
    }
    let (Some(words), Some(status)) = (&layout.status, layout.columns.status.as_ref().and_then(Column::name))
    else {
        return Ok(());
    };
    let Some(live) = table.column(status.as_str()) else { return Ok(()) };
    let published = words.published.as_deref().filter(|_| layout.published == Published::Status);
    let needed = [
        Some(words.pending.as_str()),
        words.leased.as_deref(),
        published,
        words.dead.as_deref(),
        words.retry.as_deref(),
    ];
    match needed.into_iter().flatten().find(|word| !live.takes(word)) {
        None => Ok(()),
        Some(word) => refuse(
            format!("column {} has the type {}, which has no word \"{word}\"", status.quoted(), live.shown()),
            match live.kind {
                Kind::Enum => format!(
                    "Its words are {}: correct [status] in the layout, or add the word to the type.",
                    live.words.join(", ")
                ),
                _ => format!("Correct [status] in the layout: {}.", values(live)),
            },
        ),
    }
}

/// How a layout spells the values of a status column that is no text.
pub(crate) fn values(live: &LiveColumn) -> &'static str {
    match live.kind {
        Kind::Boolean => {
            "a boolean's words are \"false\" and \"true\", and what it has none for, such as dead, is left out and kept beside the table"
        }
        Kind::Integer => "an integer's words are numbers such as \"0\" and \"1\"",
        _ => "map a column of text, an enum, a boolean or an integer",
    }
}
