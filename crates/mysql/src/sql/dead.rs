//! Writing dead entries down in a team's own table (A10).

use postrider_core::layout::{Column, Identifier};

use super::fields::column;
use super::{Names, name, place};
use crate::config::Config;

/// Writes down the rows of a list, with the reason in `reason`, cut to what the table takes; none where the team has no such
/// table. It belongs into the transaction that makes them dead.
pub(crate) fn write_down(config: &Config, listed: &str, reason: &str, only: &str) -> Option<String> {
    let (layout, dead) = (&config.layout, config.layout.sides.dead.as_ref()?);
    let (from, to) = (&layout.columns, &dead.columns);
    let own = |mapped: &Option<Column>| match mapped {
        Some(Column::Named(name, _)) => column(name),
        _ => "null".into(),
    };
    let parts: [(Option<&Identifier>, String); 6] = [
        (Some(&to.entry), own(&from.id)),
        (to.event_id.as_ref(), own(if from.event_id.is_some() { &from.event_id } else { &from.id })),
        (to.event_type.as_ref(), own(&from.event_type)),
        (to.payload.as_ref(), own(&from.payload)),
        (to.error.as_ref(), reason.to_owned()),
        (to.time.as_ref(), Names::new(config).now),
    ];
    let parts = parts.into_iter().filter_map(|(to, value)| Some((name(to?), value)));
    let (columns, values): (Vec<String>, Vec<String>) = parts.unzip();
    Some(format!(
        "insert into {}{} ({}) select {} from {listed} where {only}",
        place(layout),
        name(&dead.name),
        columns.join(", "),
        values.join(", ")
    ))
}
