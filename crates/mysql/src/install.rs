//! Installing the procedure that appends from any language.

use mysql_async::params;
use postrider_core::Fault;

use crate::append::Shape;
use crate::append::shape::named;
use crate::config::Config;
use crate::fault::{Error, fault};
use crate::rows::text;
use crate::session::Session;
use crate::sql::append::COLUMNS;
use crate::sql::procedure::{bare_name, procedure_name, procedure_sql};

/// A right to create or change routines is missing, or to write into the table of rights, which the server does for their creator.
const NO_RIGHT: [u16; 3] = [1044, 1227, 1370];

/// Creates the procedure that fits the layout and the table now, unless that one is there; answers what is to be told.
///
/// # Errors
/// When the database fails.
pub(crate) async fn install(session: &mut Session, config: &Config) -> Result<Vec<String>, Fault> {
    let layout = &config.layout;
    let failed = |error| fault(&config.place(), error);
    let rows = session.query(COLUMNS, named(layout)).await.map_err(failed)?;
    let compiled = Shape::read(layout, rows.iter().filter_map(|row| text(row, 0)))
        .and_then(|shape| procedure_sql(layout, &shape, config.payload_bytes_max));
    let (sql, mark) = match compiled {
        Ok(compiled) => compiled,
        // A relay can work on a table that nobody could append to by a layout.
        Err(why) => return Ok(vec![format!("left out the procedure that appends: {}", why.problem)]),
    };
    let known = "select routine_comment from information_schema.routines \
        where routine_schema = coalesce(:schema, database()) and routine_name = :name and routine_type = 'PROCEDURE'";
    let schema = layout.schema.as_ref().map(|schema| schema.as_str());
    let params = params! { "schema" => schema, "name" => bare_name(layout) };
    let found = session.first(known, params).await.map_err(failed)?;
    if found.is_some_and(|row| text(&row, 0).as_deref() == Some(mark.as_str())) {
        return Ok(Vec::new());
    }
    match create(session, config, &sql).await {
        Ok(()) => Ok(vec![format!("installed procedure {}", procedure_name(layout))]),
        Err(error) if error.code().is_some_and(|code| NO_RIGHT.contains(&code)) => Ok(vec![format!(
            "left out the procedure that appends, because this user may not create routines: \
             grant create routine, alter routine on the database, and migrate again, if idempotency keys or other languages need it"
        )]),
        Err(error) => Err(failed(error)),
    }
}

async fn create(session: &mut Session, config: &Config, sql: &str) -> Result<(), Error> {
    if !sql.contains("create or replace") {
        session.run(&format!("drop procedure if exists {}", procedure_name(&config.layout))).await?;
    }
    session.run(sql).await
}
