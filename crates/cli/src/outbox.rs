//! The outbox that the configuration names. A new database is one arm here.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use postrider_core::Fault;
use postrider_core::clock::Clock;
use postrider_core::finding::Finding;
use postrider_core::layout::Layout;
use postrider_core::store::Store;
use rusqlite::ErrorCode;

use crate::config::{Config, file};
use crate::exit::{Code, Failure};
use crate::layout;

/// Schemes that the design knows and this build does not have.
const LATER: &[&str] = &["postgres", "postgresql", "mysql", "mariadb"];

/// The database's settings, for the adapter.
pub(crate) fn sqlite(config: &Config) -> Result<postrider_sqlite::Config, Failure> {
    let mut sqlite = postrider_sqlite::Config::new(path(config)?, layout::load(config)?, holder());
    sqlite.lease_ttl = config.outbox.lease_ttl;
    sqlite.payload_bytes_max = config.outbox.payload_bytes_max;
    sqlite.start = config.outbox.start.as_ref().map(|start| match start {
        file::Start::Beginning => postrider_core::Start::Beginning,
        file::Start::Now => postrider_core::Start::Now,
        file::Start::After(id) => postrider_core::Start::After(*id),
    });
    Ok(sqlite)
}

/// What the relay takes entries from.
pub(crate) type Source = postrider_sqlite::SqliteSource;

/// Opens the outbox for a relay.
pub(crate) fn source(config: &Config, clock: &Arc<dyn Clock>) -> Result<Source, Failure> {
    existing(config)?;
    postrider_sqlite::open_source(&sqlite(config)?, clock.clone()).map_err(failure)
}

/// Opens the outbox for chores and operators.
pub(crate) fn store(config: &Config, clock: &Arc<dyn Clock>) -> Result<Arc<dyn Store>, Failure> {
    existing(config)?;
    let store = postrider_sqlite::open_store(&sqlite(config)?, clock.clone()).map_err(failure)?;
    Ok(Arc::new(store))
}

/// Compares the layout with the live table.
pub(crate) fn check(config: &Config) -> Result<Vec<Finding>, Failure> {
    existing(config)?;
    Ok(postrider_sqlite::check(&sqlite(config)?))
}

/// Creates a database with a native outbox, for the demo.
pub(crate) fn fresh(path: &Path, layout: Layout, clock: &Arc<dyn Clock>) -> Result<Source, Fault> {
    let config = postrider_sqlite::Config::new(path, layout, holder());
    postrider_sqlite::migrate(&config)?;
    postrider_sqlite::open_source(&config, clock.clone())
}

/// Creates or upgrades the tables; says what was done.
pub(crate) fn migrate(config: &Config) -> Result<Vec<String>, Failure> {
    postrider_sqlite::migrate(&sqlite(config)?).map_err(failure)
}

/// What [`migrate`] would run on an empty database.
pub(crate) fn migration_sql(config: &Config) -> Result<String, Failure> {
    Ok(postrider_sqlite::migration_sql(&sqlite(config)?))
}

/// The database's file, if it is there.
pub(crate) fn existing(config: &Config) -> Result<PathBuf, Failure> {
    let path = path(config)?;
    if path.exists() {
        return Ok(path);
    }
    Err(Failure::new(
        Code::Database,
        Fault::new(
            path.display().to_string(),
            "there is no such database file",
            "Look at [outbox] url; `postrider migrate` creates the file and its tables",
        ),
    ))
}

/// What is wrong with a database that answers is how it, or the configuration, is set up.
pub(crate) fn failure(fault: Fault) -> Failure {
    Failure::new(if is_unreachable(&fault) { Code::Database } else { Code::Usage }, fault)
}

/// Whether the database itself cannot be used: not there, not ours to open, locked, damaged, no database at all.
pub(crate) fn is_unreachable(fault: &Fault) -> bool {
    let error = fault.source().and_then(|source| source.downcast_ref::<rusqlite::Error>());
    error.and_then(rusqlite::Error::sqlite_error_code).is_some_and(|code| {
        !matches!(code, ErrorCode::Unknown | ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch)
    })
}

/// Where the database's file is, or will be.
pub(crate) fn path(config: &Config) -> Result<PathBuf, Failure> {
    let url = config.outbox.url.reveal();
    match url.split_once("://") {
        Some(("sqlite", path)) if !path.is_empty() => Ok(PathBuf::from(path)),
        Some((scheme, _)) if LATER.contains(&scheme) => Err(Failure::usage(
            &config.outbox.place,
            format!("[outbox] url: {scheme}:// is not in this build yet"),
            "Use sqlite://",
        )),
        _ => Err(Failure::usage(
            &config.outbox.place,
            format!("[outbox] url \"{}\" names no database", config.outbox.url),
            "Write sqlite://relative.db or sqlite:///absolute/path.db",
        )),
    }
}

/// Names this process among all on the database: people read it in `status`, and no two are the same.
pub(crate) fn holder() -> &'static str {
    static HOLDER: LazyLock<String> = LazyLock::new(|| {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        format!("{host}:{}:{:06x}", std::process::id(), fastrand::u32(..1 << 24))
    });
    &HOLDER
}
