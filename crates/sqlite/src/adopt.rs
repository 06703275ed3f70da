//! Adoption: where reading a table begins that had rows before Postrider came.

use postrider_core::layout::{Column, Way};
use postrider_core::{Fault, Start};
use rusqlite::{Connection, TransactionBehavior};

use crate::config::Config;
use crate::connection::{Durable, set_durable};
use crate::fault::fault;
use crate::reading::highest;
use crate::run::{execute, first};
use crate::sql::{CursorSql, Names};

/// Makes sure that the outbox has a position. A status table needs no choice: its words say what is to be published.
pub(crate) fn adopt(connection: &mut Connection, config: &Config) -> Result<(), Fault> {
    let place = config.place();
    match try_adopt(connection, config) {
        Ok(Adopted::Yes) => Ok(()),
        Ok(Adopted::NoStart) => Err(Fault::new(
            place,
            "the table has rows already, and where to begin is not said",
            "Set start = \"beginning\" to publish all of them, \"now\" to publish only what comes, or the id after which to begin.",
        )),
        Err(error) => Err(fault(&place, error)),
    }
}

enum Adopted {
    Yes,
    NoStart,
}

fn try_adopt(connection: &mut Connection, config: &Config) -> rusqlite::Result<Adopted> {
    let (layout, names) = (&config.layout, Names::new(&config.layout));
    let outbox = layout.table.as_str();
    let sql = CursorSql::new(layout, &names);
    let known = first(connection, &sql.position, &[&outbox], |row| row.get::<_, i64>(0))?;
    let is_cursor = layout.way == Way::Cursor;
    let highest = if is_cursor { highest(connection, &sql)? } else { 0 };
    // Ids that went backwards stop a source; with a start that somebody chose for it, it begins anew.
    let begins = known.is_none_or(|position| is_cursor && position > highest && config.start.is_some());
    if !begins {
        return Ok(Adopted::Yes);
    }
    let (position, word) = match config.start {
        _ if !is_cursor => (0, "status"),
        Some(Start::Beginning) => (before_all(connection, config, &names)?, "beginning"),
        Some(Start::Now) => (highest, "now"),
        Some(Start::After(id)) => (id.min(highest), "id"),
        None if is_empty(connection, config, &names)? => (highest, "beginning"),
        None => return Ok(Adopted::NoStart),
    };
    set_durable(connection, Durable::Full)?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for table in [&names.exceptions, &names.ranges, &names.claims] {
        execute(&transaction, &format!("delete from {table} where outbox = ?1"), &[&outbox])?;
    }
    let insert = format!(
        "insert into {} (outbox, position, claimed, start) values (?1, ?2, ?2, ?3) on conflict (outbox) do update \
         set position = excluded.position, claimed = excluded.claimed, start = excluded.start, epoch = epoch + 1",
        names.position
    );
    execute(&transaction, &insert, &[&outbox, &position, &word])?;
    transaction.commit()?;
    Ok(Adopted::Yes)
}

fn is_empty(connection: &Connection, config: &Config, names: &Names) -> rusqlite::Result<bool> {
    Ok(lowest(connection, config, names)?.is_none())
}

/// The position before the first row: somebody may have given rows ids below one.
fn before_all(connection: &Connection, config: &Config, names: &Names) -> rusqlite::Result<i64> {
    Ok(lowest(connection, config, names)?.map_or(0, |lowest| lowest.saturating_sub(1).min(0)))
}

fn lowest(connection: &Connection, config: &Config, names: &Names) -> rusqlite::Result<Option<i64>> {
    let id =
        config.layout.columns.id.as_ref().and_then(Column::name).map_or("rowid".into(), |id| id.quoted());
    let lowest = format!("select {id} from {} order by {id} limit 1", names.table);
    first(connection, &lowest, &[], |row| row.get(0))
}
