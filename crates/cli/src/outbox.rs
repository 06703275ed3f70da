//! The outbox that the configuration names. A new database is one arm here.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use postrider_core::Fault;
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
        file::Start::Beginning => postrider_sqlite::Start::Beginning,
        file::Start::Now => postrider_sqlite::Start::Now,
        file::Start::After(id) => postrider_sqlite::Start::After(*id),
    });
    Ok(sqlite)
}

/// STUB
pub(crate) struct Source;
pub(crate) async fn check(config: &Config) -> Vec<Failure> {
    existing(config).err().into_iter().collect()
}
pub(crate) async fn store(config: &Config) -> Result<Arc<dyn Store>, Failure> {
    todo!()
}
pub(crate) async fn source(config: &Config) -> Result<(Source, Arc<dyn Store>), Failure> {
    todo!()
}
pub(crate) async fn fresh(path: &Path, layout: Layout) -> Result<Source, Failure> {
    todo!()
}
use postrider_core::source::*;
impl postrider_core::source::Source for Source {
    type Hold = ();
    fn features(&self) -> SourceFeatures {
        todo!()
    }
    async fn claim(&self, ask: &Ask) -> Result<Claimed<()>, SourceError> {
        todo!()
    }
    async fn extend(&self, hold: &mut ()) -> Result<(), SourceError> {
        todo!()
    }
    async fn settle(
        &self,
        hold: &mut (),
        s: &[(usize, postrider_core::Settlement)],
    ) -> Result<(), SourceError> {
        todo!()
    }
    async fn release(&self, hold: ()) -> Result<(), SourceError> {
        todo!()
    }
    async fn retire(&self) -> Result<(), SourceError> {
        todo!()
    }
}
/// STUB

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

/// A database that cannot be used at all is unreachable; whatever else is wrong with it is wrongly set up.
pub(crate) fn failure(fault: Fault) -> Failure {
    let code = fault.source().and_then(|source| source.downcast_ref::<rusqlite::Error>());
    let unreachable = code.and_then(rusqlite::Error::sqlite_error_code).is_some_and(|code| {
        !matches!(code, ErrorCode::Unknown | ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch)
    });
    Failure::new(if unreachable { Code::Database } else { Code::Usage }, fault)
}

fn path(config: &Config) -> Result<PathBuf, Failure> {
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
fn holder() -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("{host}:{}:{:06x}", std::process::id(), fastrand::u32(..1 << 24))
}
