//! Where each part of a row stands, for what is said of a flaw.

use super::Field;
use crate::Layout;
use crate::layout::Column;

/// Where each part stands, by the table's own names.
pub(super) fn places(layout: &Layout) -> Vec<String> {
    let (table, payload) = (layout.table.quoted(), layout.columns.payload.as_ref());
    let payload =
        payload.and_then(Column::name).map_or_else(|| "payload".into(), |name| name.as_str().to_owned());
    let place = |column: Option<&Column>| match column {
        Some(Column::Named(name, _)) => format!("column {} of table {table}", name.quoted()),
        Some(Column::Json(path)) => format!("{} in column \"{payload}\" of table {table}", path.quoted()),
        Some(Column::Constant(_) | Column::Absent) | None => format!("table {table}"),
    };
    let mut places: Vec<String> = Field::columns(layout).into_iter().map(place).collect();
    places[Field::TooLarge as usize] = places[Field::Payload as usize].clone();
    places
}
