//! `sqlite://path`: a file.

use std::error::Error;
use std::path::PathBuf;

use postrider_core::Fault;
use rusqlite::ErrorCode;

use super::{holder, start};
use crate::config::Config;
use crate::exit::{Code, Failure};
use crate::layout;

/// The adapter's settings.
pub(super) fn config(config: &Config) -> Result<postrider_sqlite::Config, Failure> {
    let mut sqlite =
        postrider_sqlite::Config::new(path(config).unwrap_or_default(), layout::load(config)?, holder());
    sqlite.lease_ttl = config.outbox.lease_ttl;
    sqlite.payload_bytes_max = config.outbox.payload_bytes_max;
    sqlite.start = start(config);
    Ok(sqlite)
}

/// Where the database's file is, or will be; none where the database is no file.
pub(crate) fn path(config: &Config) -> Option<PathBuf> {
    match config.outbox.url.reveal().split_once("://") {
        Some(("sqlite", path)) if !path.is_empty() => Some(PathBuf::from(path)),
        _ => None,
    }
}

/// Refuses a file that is not there: SQLite would create it.
pub(crate) fn existing(settings: &postrider_sqlite::Config) -> Result<(), Failure> {
    if settings.path.exists() {
        return Ok(());
    }
    Err(Failure::new(
        Code::Database,
        Fault::new(
            settings.path.display().to_string(),
            "there is no such database file yet",
            "`postrider migrate` creates it with its tables; if it should be there, look at [outbox] url",
        ),
    ))
}

/// Whether the file itself cannot be used: not ours to open, locked, damaged, no database at all.
pub(super) fn is_unreachable(fault: &Fault) -> bool {
    let error = fault.source().and_then(|source| source.downcast_ref::<rusqlite::Error>());
    error.and_then(rusqlite::Error::sqlite_error_code).is_some_and(|code| {
        !matches!(code, ErrorCode::Unknown | ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch)
    })
}
