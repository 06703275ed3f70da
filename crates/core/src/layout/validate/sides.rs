//! Side tables of a team's own.

use super::{Problem, require};
use crate::layout::{Layout, Way};
use crate::limits;

impl Layout {
    pub(super) fn sides_are_possible(&self) -> Result<(), Problem> {
        let (position, failed) = (self.sides.position.as_ref(), self.sides.failed.as_ref());
        let runs = self.retry_runs;
        let given = [
            ("[position.table]", position.is_some()),
            ("[retry.table]", failed.is_some()),
            ("retry.interval", runs.is_some()),
        ];
        if let Some((key, _)) = given.into_iter().find(|(_, given)| *given && self.way != Way::Cursor) {
            return Err((
                format!("{key} is for way = \"cursor\", and way = \"{}\" is set", self.way.word()),
                format!(
                    "Leave {key} out: a status table keeps its retries in its own columns, or beside it."
                ),
            ));
        }
        let dead = self.sides.dead.as_ref();
        require(dead.is_none() || matches!(self.way, Way::Lease | Way::Hold), || {
            (
                format!("[dead.table] is for a status table, and way = \"{}\" is set", self.way.word()),
                "Leave it out: what is dead is kept in Postrider's own table, or in [retry.table].".into(),
            )
        })?;
        require(!self.stalled.is_some_and(|stalled| stalled.is_zero()), || {
            ("stalled is zero".into(), "Write a span like 5m.".into())
        })?;
        require(runs.is_none_or(|runs| (1..=limits::BATCH_ENTRIES_MAX).contains(&runs.entries)), || {
            (
                format!("retry.batch is not from 1 to {}", limits::BATCH_ENTRIES_MAX),
                "Choose a batch within these bounds.".into(),
            )
        })?;
        let tables = [
            ("position.table", position.map(|table| (&table.name, table.given().collect::<Vec<_>>()))),
            ("retry.table", failed.map(|table| (&table.name, table.given().collect()))),
            ("dead.table", dead.map(|table| (&table.name, table.given().collect()))),
        ];
        let mut named = vec![("table", &self.table)];
        for (key, (name, columns)) in tables.into_iter().filter_map(|(key, table)| Some((key, table?))) {
            if let Some((other, _)) = named.iter().find(|(_, before)| *before == name) {
                return Err((
                    format!("{key}.name and {other} are the same table \"{name}\""),
                    "Name the table that the team has for it, or leave it out.".into(),
                ));
            }
            named.push((key, name));
            for (at, (part, column)) in columns.iter().enumerate() {
                if let Some((other, _)) = columns[..at].iter().find(|(_, before)| before == column) {
                    return Err((
                        format!("{key}: {part} and {other} are the same column \"{column}\""),
                        "Each part has a column of its own; what the table has none for is left out.".into(),
                    ));
                }
            }
        }
        Ok(())
    }
}
