//! A zone with a name: whether the server knows it, and every column that is read in it can be.

use postrider_core::Fault;
use postrider_core::layout::{Column, Columns, TimeForm};
use postrider_core::nearest::nearest;
use tokio_postgres::types::Type;

use crate::config::Config;
use crate::fault::Error;
use crate::session::Session;
use crate::table::{Kind, Table};

/// The columns of a layout that hold times.
const TIMES: [&str; 5] = ["time", "not_before", "published_at", "leased_at", "published"];

/// Why times cannot be read in the layout's zone.
pub(crate) async fn refusal(
    session: &Session,
    config: &Config,
    table: &Table,
) -> Result<Option<Fault>, Error> {
    let zone = config.layout.zone;
    let Some(name) = zone.name() else { return Ok(None) };
    let refuse = |problem: String, remedy: String| Ok(Some(Fault::new(config.place(), problem, remedy)));
    // `at time zone` takes more than names: what it cannot tell, it reads as an offset of its own making.
    let known = "select name from pg_timezone_names where $1::text is null or name = $1";
    if session.first(known, &[(&Some(name), Type::TEXT)]).await?.is_none() {
        let all = session.query(known, &[(&None::<&str>, Type::TEXT)]).await?;
        let names: Vec<String> = all.iter().map(|row| row.get(0)).collect();
        let near = nearest(name, names.iter().map(String::as_str));
        let near = near.map_or(String::new(), |near| format!(" Did you mean \"{near}\"?"));
        return refuse(
            format!("zone = \"{name}\" is none that the server knows"),
            format!("Write one of pg_timezone_names, or an offset such as +09:00.{near}"),
        );
    }
    let of_text = config.layout.columns.given().find(|(key, column)| {
        let Column::Named(name, TimeForm::Text) = column else { return false };
        TIMES.contains(key) && table.kind(name) == Kind::Text
    });
    match of_text {
        None => Ok(None),
        Some((key, column)) => refuse(
            format!(
                "zone = \"{name}\" is a name, and {} is {}, a text: only the database's own times are read in a zone with a name",
                Columns::spelled(key),
                column.name().map_or(String::new(), |name| name.quoted())
            ),
            "Write the zone as an offset such as +09:00, or make the column timestamptz or timestamp.".into(),
        ),
    }
}
