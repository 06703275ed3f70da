//! The outbox that the configuration names. A new database is a file here and an arm in each function.

mod mysql;
pub(crate) mod postgres;
mod source;
pub(crate) mod sqlite;

use std::path::Path;
use std::sync::{Arc, LazyLock};

use postrider_core::clock::Clock;
use postrider_core::finding::Finding;
use postrider_core::layout::Layout;
use postrider_core::store::Store;
use postrider_core::{Fault, Start};

use crate::config::{Config, file};
use crate::exit::{Code, Failure};

pub(crate) use source::Source;

/// The database behind the URL, with its adapter's settings.
pub(crate) enum Database {
    Sqlite(Box<postrider_sqlite::Config>),
    Postgres(Box<postrider_postgres::Config>),
    Mysql(Box<postrider_mysql::Config>),
}

/// Which database the configuration names.
pub(crate) fn database(config: &Config) -> Result<Database, Failure> {
    let url = config.outbox.url.reveal();
    match url.split_once("://") {
        Some(("sqlite", path)) if !path.is_empty() => {
            sqlite::config(config).map(Box::new).map(Database::Sqlite)
        }
        Some(("postgres" | "postgresql", _)) => {
            postgres::config(config).map(Box::new).map(Database::Postgres)
        }
        Some(("mysql" | "mariadb", _)) => mysql::config(config).map(Box::new).map(Database::Mysql),
        _ => Err(Failure::usage(
            &config.outbox.place,
            format!("[outbox] url \"{}\" names no database", config.outbox.url),
            "Write postgres://user@host/database, mysql://user@host/database, sqlite://relative.db or sqlite:///absolute/path.db",
        )),
    }
}

/// Opens the outbox for a relay.
pub(crate) async fn source(config: &Config, clock: &Arc<dyn Clock>) -> Result<Source, Failure> {
    match database(config)? {
        Database::Sqlite(settings) => {
            sqlite::existing(&settings)?;
            postrider_sqlite::open_source(&settings, clock.clone()).map(Source::sqlite).map_err(failure)
        }
        Database::Postgres(settings) => {
            postrider_postgres::open_source(&settings).await.map(Source::postgres).map_err(failure)
        }
        Database::Mysql(settings) => {
            postrider_mysql::open_source(&settings).await.map(Source::mysql).map_err(failure)
        }
    }
}

/// Opens the outbox for chores and operators.
pub(crate) async fn store(config: &Config, clock: &Arc<dyn Clock>) -> Result<Arc<dyn Store>, Failure> {
    match database(config)? {
        Database::Sqlite(settings) => {
            sqlite::existing(&settings)?;
            let store = postrider_sqlite::open_store(&settings, clock.clone()).map_err(failure)?;
            Ok(Arc::new(store))
        }
        Database::Postgres(settings) => {
            Ok(Arc::new(postrider_postgres::open_store(&settings).await.map_err(failure)?))
        }
        Database::Mysql(settings) => {
            Ok(Arc::new(postrider_mysql::open_store(&settings).await.map_err(failure)?))
        }
    }
}

/// Compares the layout with the live table.
pub(crate) async fn check(config: &Config) -> Result<Vec<Finding>, Failure> {
    match database(config)? {
        Database::Sqlite(settings) => {
            sqlite::existing(&settings)?;
            Ok(postrider_sqlite::check(&settings))
        }
        Database::Postgres(settings) => Ok(postrider_postgres::check(&settings).await),
        Database::Mysql(settings) => Ok(postrider_mysql::check(&settings).await),
    }
}

/// Creates a database with a native outbox, for the demo.
pub(crate) fn fresh(path: &Path, layout: Layout, clock: &Arc<dyn Clock>) -> Result<Source, Fault> {
    let config = postrider_sqlite::Config::new(path, layout, holder());
    postrider_sqlite::migrate(&config)?;
    postrider_sqlite::open_source(&config, clock.clone()).map(Source::sqlite)
}

/// Creates or upgrades the tables; says what was done.
pub(crate) async fn migrate(config: &Config) -> Result<Vec<String>, Failure> {
    match database(config)? {
        Database::Sqlite(settings) => postrider_sqlite::migrate(&settings),
        Database::Postgres(settings) => postrider_postgres::migrate(&settings).await,
        Database::Mysql(settings) => postrider_mysql::migrate(&settings).await,
    }
    .map_err(failure)
}

/// What [`migrate`] would run on an empty database.
pub(crate) fn migration_sql(config: &Config) -> Result<String, Failure> {
    Ok(match database(config)? {
        Database::Sqlite(settings) => postrider_sqlite::migration_sql(&settings),
        Database::Postgres(settings) => postrider_postgres::migration_sql(&settings),
        Database::Mysql(settings) => postrider_mysql::migration_sql(&settings),
    })
}

/// What is wrong with a database that answers is how it, or the configuration, is set up.
pub(crate) fn failure(fault: Fault) -> Failure {
    Failure::new(if is_unreachable(&fault) { Code::Database } else { Code::Usage }, fault)
}

/// Whether the database itself cannot be used: not there, not ours to open, locked, damaged, no database at all.
pub(crate) fn is_unreachable(fault: &Fault) -> bool {
    sqlite::is_unreachable(fault)
        || postrider_postgres::is_unreachable(fault)
        || postrider_mysql::is_unreachable(fault)
}

/// Where a cursor begins.
fn start(config: &Config) -> Option<Start> {
    config.outbox.start.as_ref().map(|start| match start {
        file::Start::Beginning => Start::Beginning,
        file::Start::Now => Start::Now,
        file::Start::After(id) => Start::After(*id),
    })
}

/// Names this process among all on the database: people read it in `status`, and no two are the same.
pub(crate) fn holder() -> &'static str {
    static HOLDER: LazyLock<String> = LazyLock::new(|| {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        format!("{host}:{}:{:06x}", std::process::id(), fastrand::u32(..1 << 24))
    });
    &HOLDER
}
