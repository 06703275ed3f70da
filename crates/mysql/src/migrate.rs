//! Creating and upgrading tables: a small runner of numbered files.

use mysql_async::{Params, params};
use postrider_core::{Fault, Layout};

use crate::config::Config;
use crate::fault::{Error, fault};
use crate::install::install;
use crate::rows::{holds, number};
use crate::session::Session;
use crate::sql::{Names, literal, place};
use crate::table::Table;

/// What Postrider's own tables became, version by version. A published file never changes.
const SIDE: [(i64, &str); 1] = [(1, include_str!("../migrations/001_side.sql"))];
const NATIVE: &str = include_str!("../migrations/native.sql");
/// The version that this build needs.
const SIDE_VERSION: i64 = SIDE[SIDE.len() - 1].0;
/// How long somebody else who migrates is waited for.
const OTHERS_S: u32 = 60;

/// Creates or upgrades Postrider's own tables, and creates the native one; answers what was done, in words. A change of tables
/// cannot be rolled back here: each statement can be repeated, and a version counts once all of its statements were run.
///
/// # Errors
/// When the database cannot be reached or written, or the layout is not native and its table is not there.
pub async fn migrate(config: &Config) -> Result<Vec<String>, Fault> {
    config.validate()?;
    let mut session = Session::open(config).await?;
    let failed = |error| fault(&config.place(), error);
    let is_there = Table::read(&mut session, &config.layout).await.map_err(failed)?.is_some();
    if !is_there && !is_native(&config.layout) {
        return Err(no_table(config));
    }
    // Two that migrate at once would both create.
    let lock = params! { "name" => "postrider.migrate", "seconds" => OTHERS_S };
    let taken = session.first("select get_lock(:name, :seconds)", lock).await.map_err(failed)?;
    if !taken.is_some_and(|row| holds(&row, 0)) {
        return Err(Fault::new(
            config.place(),
            "somebody else migrates, and does not end",
            "Try again later.",
        ));
    }
    let mut done = upgrade(&mut session, config).await.map_err(failed)?;
    // Somebody else may have created it meanwhile.
    let is_there = Table::read(&mut session, &config.layout).await.map_err(failed)?.is_some();
    if !is_there && is_native(&config.layout) {
        for statement in native_sql(config) {
            session.run(&statement).await.map_err(failed)?;
        }
        done.push(format!("created table {}", Names::new(config).table));
    }
    done.extend(install(&mut session, config).await?);
    session.run("do release_lock('postrider.migrate')").await.map_err(failed)?;
    Ok(done)
}

/// Everything that [`migrate`] would run on an empty database.
#[must_use]
pub fn migration_sql(config: &Config) -> String {
    let mut sql = format!("{};\n\n", schema_sql(config));
    for (version, text) in SIDE {
        sql.push_str(&side_sql(config, text));
        sql.push_str(&format!("{};\n\n", version_sql(config, version)));
    }
    if is_native(&config.layout) {
        sql.push_str(&format!("{};\n", native_sql(config).join(";\n\n")));
    }
    sql
}

pub(crate) fn is_native(layout: &Layout) -> bool {
    layout.name == "native"
}

/// The position before the first row, because what Postrider creates needs no `start`; and the table.
fn native_sql(config: &Config) -> [String; 2] {
    let (names, outbox) = (Names::new(config), config.layout.table.as_str());
    let table = NATIVE.trim_end().trim_end_matches(';');
    [
        format!(
            "insert into {} (outbox, position, start) values ({}, 0, 'beginning') \
             on duplicate key update start = coalesce(start, 'beginning'), position = coalesce(position, 0)",
            names.position,
            literal(outbox)
        ),
        table.replace("{source}", &literal(&format!("/{outbox}"))).replace("{table}", &names.table),
    ]
}

/// The table of an adopted layout belongs to the application.
pub(crate) fn no_table(config: &Config) -> Fault {
    if is_native(&config.layout) {
        return Fault::new(config.place(), "there is no such table", "Run `postrider migrate`.");
    }
    Fault::new(
        config.place(),
        "there is no such table",
        "Create it with the application's own migrations, or name the right one with table = \"…\" and schema = \"…\".",
    )
}

/// Refuses to go on without Postrider's own tables.
pub(crate) async fn require_side(session: &mut Session, config: &Config) -> Result<(), Fault> {
    let version = side_version(session, config).await.map_err(|error| fault(&config.place(), error))?;
    if version >= SIDE_VERSION { Ok(()) } else { Err(no_side(config)) }
}

pub(crate) fn no_side(config: &Config) -> Fault {
    Fault::new(
        config.place(),
        "Postrider's own tables are missing or older than this version",
        "Run `postrider migrate`.",
    )
}

/// The version of Postrider's own tables; zero where there are none.
async fn side_version(session: &mut Session, config: &Config) -> Result<i64, Error> {
    let known = "select 1 from information_schema.tables \
        where table_schema = coalesce(:schema, database()) and table_name = :table";
    let schema = config.layout.schema.as_ref().map(|schema| schema.as_str());
    let table = format!("{}schema", config.layout.side);
    if session.first(known, params! { "schema" => schema, "table" => table }).await?.is_none() {
        return Ok(0);
    }
    let sql = format!("select coalesce(max(version), 0) from {}", Names::new(config).schema);
    let row = session.first(&sql, Params::Empty).await?;
    Ok(row.and_then(|row| number(&row, 0)).unwrap_or(0))
}

async fn upgrade(session: &mut Session, config: &Config) -> Result<Vec<String>, Error> {
    let before = side_version(session, config).await?;
    let mut done = Vec::new();
    session.run(&schema_sql(config)).await?;
    for (version, text) in SIDE.into_iter().filter(|(version, _)| *version > before) {
        for statement in statements(&side_sql(config, text)) {
            session.run(&statement).await?;
        }
        session.run(&version_sql(config, version)).await?;
        done.push(format!("brought Postrider's own tables to version {version}"));
    }
    Ok(done)
}

/// The statements of a file, without its comments: a semicolon ends one.
fn statements(text: &str) -> Vec<String> {
    let code = text.lines().map(|line| line.split_once("--").map_or(line, |(code, _)| code));
    let code = code.collect::<Vec<_>>().join("\n");
    code.split(';').map(str::trim).filter(|sql| !sql.is_empty()).map(str::to_owned).collect()
}

fn schema_sql(config: &Config) -> String {
    format!(
        "create table if not exists {} (version int not null primary key, \
         applied_at timestamp not null default current_timestamp) engine = InnoDB",
        Names::new(config).schema
    )
}

fn version_sql(config: &Config, version: i64) -> String {
    format!("insert ignore into {} (version) values ({version})", Names::new(config).schema)
}

fn side_sql(config: &Config, text: &str) -> String {
    let place = place(&config.layout);
    let prefix = config.layout.side.as_str().replace('`', "``");
    format!("{}\n", text.replace("{in}", &place).replace("{side}", &prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_run_statement_by_statement() {
        let all =
            statements("-- first; not one\ncreate table a (x int); -- why\n\ncreate table b (y int);\n");
        assert_eq!(all, ["create table a (x int)", "create table b (y int)"]);
    }
}
