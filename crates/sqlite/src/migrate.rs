//! Creating and upgrading tables: a small runner of numbered files.

use postrider_core::{Fault, Layout};
use rusqlite::{Connection, TransactionBehavior};

use crate::config::Config;
use crate::connection::{create, log_ahead};
use crate::fault::fault;
use crate::sql::{Names, literal, quoted};

/// What Postrider's own tables became, version by version. A published file never changes.
const SIDE: [(i64, &str); 2] =
    [(1, include_str!("../migrations/001_side.sql")), (2, include_str!("../migrations/002_locks.sql"))];
const NATIVE: &str = include_str!("../migrations/native.sql");

/// Creates or upgrades the tables, in one transaction; answers what was done, in words. Also creates the file.
///
/// # Errors
/// When the file cannot be written, or the layout is not native and its table is not there.
pub fn migrate(config: &Config) -> Result<Vec<String>, Fault> {
    config.validate()?;
    let mut connection = create(config)?;
    let place = config.place();
    log_ahead(&connection).map_err(|error| fault(&place, error))?;
    let transaction = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(|error| fault(&place, error))?;
    let mut done = upgrade_side(&transaction, &config.layout).map_err(|error| fault(&place, error))?;
    if !exists(&transaction, &config.layout).map_err(|error| fault(&place, error))? {
        if !is_native(&config.layout) {
            return Err(no_table(config));
        }
        transaction.execute_batch(&native_sql(&config.layout)).map_err(|error| fault(&place, error))?;
        done.push(format!("created table \"{}\"", config.layout.table));
    }
    transaction.commit().map_err(|error| fault(&place, error))?;
    Ok(done)
}

/// Everything that [`migrate`] would run on an empty database.
#[must_use]
pub fn migration_sql(config: &Config) -> String {
    let layout = &config.layout;
    let mut sql = schema_sql(layout);
    for (version, text) in SIDE {
        sql.push_str(&side_sql(layout, version, text));
    }
    if is_native(layout) {
        sql.push_str(&native_sql(layout));
    }
    sql
}

/// The table of an adopted layout belongs to the application.
pub(crate) fn no_table(config: &Config) -> Fault {
    let remedy = if is_native(&config.layout) {
        "Run `postrider migrate`, which creates it."
    } else {
        "Create it with the application's own migrations, or name the right one with table = \"…\"."
    };
    Fault::new(
        config.path.display().to_string(),
        format!("table \"{}\" is missing", config.layout.table),
        remedy,
    )
}

/// Whether the outbox is there.
pub(crate) fn exists(connection: &Connection, layout: &Layout) -> rusqlite::Result<bool> {
    let schema = layout.schema.as_ref().map_or("main", |schema| schema.as_str());
    let sql = format!(
        "select count(*) from {}.sqlite_schema where type in ('table', 'view') and name = ?1",
        quoted(schema)
    );
    connection.query_row(&sql, [layout.table.as_str()], |row| row.get::<_, i64>(0)).map(|count| count > 0)
}

/// The version of Postrider's own tables; zero where there are none.
pub(crate) fn side_version(connection: &Connection, layout: &Layout) -> rusqlite::Result<i64> {
    let names = Names::new(layout);
    let known = "select count(*) from sqlite_schema where type = 'table' and name = ?1";
    let table = format!("{}schema", layout.side);
    if connection.query_row(known, [table], |row| row.get::<_, i64>(0))? == 0 {
        return Ok(0);
    }
    connection
        .query_row(&format!("select coalesce(max(version), 0) from {}", names.schema), [], |row| row.get(0))
}

/// The version that this build needs.
pub(crate) const SIDE_VERSION: i64 = SIDE[SIDE.len() - 1].0;

fn upgrade_side(connection: &Connection, layout: &Layout) -> rusqlite::Result<Vec<String>> {
    let before = side_version(connection, layout)?;
    let mut done = Vec::new();
    if before == 0 {
        connection.execute_batch(&schema_sql(layout))?;
    }
    for (version, text) in SIDE.into_iter().filter(|(version, _)| *version > before) {
        connection.execute_batch(&side_sql(layout, version, text))?;
        done.push(format!("brought Postrider's own tables to version {version}"));
    }
    Ok(done)
}

fn is_native(layout: &Layout) -> bool {
    layout.name == "native"
}

fn schema_sql(layout: &Layout) -> String {
    format!(
        "create table {} (version integer not null primary key, applied_at text not null default current_timestamp);\n\n",
        Names::new(layout).schema
    )
}

fn side_sql(layout: &Layout, version: i64, text: &str) -> String {
    let prefix = layout.side.as_str().replace('"', "\"\"");
    format!(
        "{}\ninsert into {} (version) values ({version});\n\n",
        text.replace("{side}", &prefix),
        Names::new(layout).schema
    )
}

/// The table, and the position before its first row: what Postrider creates needs no `start`.
fn native_sql(layout: &Layout) -> String {
    let names = Names::new(layout);
    let source = literal(&format!("/{}", layout.table));
    let table = NATIVE.replace("'/{source}'", &source).replace("{table}", &names.table);
    format!(
        "{table}\ninsert into {} (outbox, position, start) values ({}, 0, 'beginning') on conflict do nothing;\n",
        names.position,
        literal(layout.table.as_str())
    )
}
