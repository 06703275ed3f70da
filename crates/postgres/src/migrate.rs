//! Creating and upgrading tables: a small runner of numbered files.

use postrider_core::{Fault, Layout};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use crate::absent::{no_table, require_schema};
use crate::check::user;
use crate::config::Config;
use crate::fault::{Error, fault};
use crate::session::{Durable, Session};
use crate::sql::{Names, function_sql, in_schema, literal, quoted};
use crate::table::Table;

/// What Postrider's own tables became, version by version. A published file never changes.
const SIDE: [(i32, &str); 3] = [
    (1, include_str!("../migrations/001_side.sql")),
    (2, include_str!("../migrations/002_closed.sql")),
    (3, include_str!("../migrations/003_locks.sql")),
];
const NATIVE: &str = include_str!("../migrations/native.sql");

/// Creates or upgrades the tables, in one transaction; answers what was done, in words.
///
/// # Errors
/// When the database cannot be reached or written, or the layout is not native and its table is not there.
pub async fn migrate(config: &Config) -> Result<Vec<String>, Fault> {
    config.validate()?;
    let session = Session::open(config, Durable::Now).await?;
    require_schema(&session, config).await?;
    // Asked first: after a statement that failed the session answers nothing more.
    let user = user(&session).await.map_err(|error| fault(&config.place(), error))?;
    match run(&session, config).await {
        Ok(done) => Ok(done),
        Err(Stop::Told(fault)) => Err(fault),
        Err(Stop::Failed(error)) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {
            Err(may_not(&user, config, error))
        }
        Err(Stop::Failed(error)) => Err(fault(&config.place(), error)),
    }
}

/// Why it was not done.
enum Stop {
    Told(Fault),
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// `check` cannot name this right: it is asked of whoever migrates, not of the relay.
fn may_not(user: &str, config: &Config, error: Error) -> Fault {
    let schema = config.layout.schema.as_ref().map_or("public".into(), |schema| schema.quoted());
    Fault::new(
        config.place(),
        format!("user {user} may not create or change tables and functions there"),
        format!(
            "grant usage, create on schema {schema} to {user}; or let a user who owns the tables run it, or what `postrider migrate --print` shows."
        ),
    )
    .caused_by(error)
}

async fn run(session: &Session, config: &Config) -> Result<Vec<String>, Stop> {
    let transaction = session.begin(Durable::Now).await?;
    // Two that migrate at once would both create.
    let lock = "select pg_advisory_xact_lock(hashtextextended($1, 7))";
    transaction.query(lock, &[(&Names::new(&config.layout).schema, Type::TEXT)]).await?;
    let mut done = upgrade_side(&transaction, &config.layout).await?;
    let table = Table::read(&transaction, &config.layout).await?;
    let missing = table.as_ref().map_or(Vec::new(), |table| table.missing(&config.layout));
    if table.is_none() {
        if !is_native(&config.layout) {
            return Err(Stop::Told(no_table(session, config).await));
        }
        transaction.run(&native_sql(&config.layout)).await?;
        done.push(format!("created table {}", Names::new(&config.layout).table));
    }
    match missing.first() {
        // The layout or the table may have changed since: always the one that fits now.
        None => {
            let function = function_sql(&config.layout, config.payload_bytes_max);
            transaction.run(&function).await?;
        }
        Some((_, column)) => done.push(format!(
            "left out the function that appends: the layout maps column \"{column}\", and the table has none"
        )),
    }
    transaction.commit().await?;
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
    sql.push('\n');
    sql.push_str(&function_sql(layout, config.payload_bytes_max));
    sql
}

/// The version of Postrider's own tables; zero where there are none.
pub(crate) async fn side_version(session: &Session, layout: &Layout) -> Result<i32, Error> {
    let table = Names::new(layout).schema;
    let known = session.first("select to_regclass($1) is not null", &[(&table, Type::TEXT)]).await?;
    if !known.is_some_and(|row| row.get(0)) {
        return Ok(0);
    }
    let version = session.first(&format!("select coalesce(max(version), 0) from {table}"), &[]).await?;
    Ok(version.map_or(0, |row| row.get(0)))
}

/// The version that this build needs.
pub(crate) const SIDE_VERSION: i32 = SIDE[SIDE.len() - 1].0;

/// Refuses to go on without Postrider's own tables.
pub(crate) async fn require_side(session: &Session, config: &Config) -> Result<(), Fault> {
    let version =
        side_version(session, &config.layout).await.map_err(|error| fault(&config.place(), error))?;
    if version >= SIDE_VERSION { Ok(()) } else { Err(no_side(config)) }
}

pub(crate) fn no_side(config: &Config) -> Fault {
    Fault::new(
        config.place(),
        "Postrider's own tables are missing or older than this version",
        "Run `postrider migrate`.",
    )
}

async fn upgrade_side(session: &Session, layout: &Layout) -> Result<Vec<String>, Error> {
    let before = side_version(session, layout).await?;
    let mut done = Vec::new();
    if before == 0 {
        session.run(&schema_sql(layout)).await?;
    }
    for (version, text) in SIDE.into_iter().filter(|(version, _)| *version > before) {
        session.run(&side_sql(layout, version, text)).await?;
        done.push(format!("brought Postrider's own tables to version {version}"));
    }
    Ok(done)
}

pub(crate) fn is_native(layout: &Layout) -> bool {
    layout.name == "native"
}

fn schema_sql(layout: &Layout) -> String {
    format!(
        "create table {} (version int not null primary key, applied_at timestamptz not null default now());\n\n",
        Names::new(layout).schema
    )
}

fn side_sql(layout: &Layout, version: i32, text: &str) -> String {
    let prefix = layout.side.as_str().replace('"', "\"\"");
    let place = layout.schema.as_ref().map_or(String::new(), |schema| format!("{}.", schema.quoted()));
    format!(
        "{}\ninsert into {} (version) values ({version});\n\n",
        text.replace("{in}", &place).replace("{side}", &prefix),
        Names::new(layout).schema
    )
}

/// The table with its first partitions, and the position before its first row: what Postrider creates needs no `start`.
fn native_sql(layout: &Layout) -> String {
    let names = Names::new(layout);
    let part = |suffix: &str| in_schema(layout, &quoted(&format!("{}{suffix}", layout.table)));
    let sequence = part("_id_seq");
    let table = NATIVE
        .replace("'/{source}'", &literal(&format!("/{}", layout.table)))
        .replace("'{sequence}'", &literal(&sequence))
        .replace("{sequence}", &sequence)
        .replace("{first}", &part("_p0"))
        .replace("{rest}", &part("_default"))
        .replace("{table}", &names.table);
    format!(
        "{table}\ninsert into {} (outbox, position, start) values ({}, 0, 'beginning') on conflict do nothing;\n",
        names.position,
        literal(layout.table.as_str())
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// F1: a database of any encoding takes what is sent, whatever stands in the comments.
    #[test]
    fn what_migrate_runs_is_ascii() {
        for name in Layout::built_in_names() {
            let layout = Layout::built_in(name).unwrap();
            let sql = migration_sql(&Config::new("postgres://localhost/shop", layout, "x").unwrap());
            let odd = sql.lines().find(|line| !line.is_ascii());
            assert_eq!(odd, None, "{name}");
        }
    }
}
