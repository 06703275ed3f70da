//! Appends to a SQLite outbox.

use std::path::{Path, PathBuf};
use std::time::Duration;

use postrider_core::{Envelope, Fault};
use postrider_sqlite::{AppendError, Appended, Outbox};
use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior};

use crate::exit::{Code, Failure};
use crate::outbox;

/// How long another writer is waited for.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection and its outbox.
pub(super) struct Writer {
    connection: Connection,
    outbox: Outbox,
    path: PathBuf,
}

impl Writer {
    /// Opens a database that is there.
    pub(super) fn open(settings: &postrider_sqlite::Config) -> Result<Self, Failure> {
        outbox::sqlite::existing(settings)?;
        let outbox = Outbox::new(&settings.layout)
            .map_err(|fault| Failure::new(Code::Usage, fault))?
            .payload_bytes_max(settings.payload_bytes_max);
        let path = settings.path.clone();
        let connection = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_WRITE)
            .and_then(|connection| connection.busy_timeout(BUSY_TIMEOUT).map(|()| connection))
            .map_err(|error| failure(&path, error))?;
        Ok(Self { connection, outbox, path })
    }

    pub(super) fn append_all(&mut self, envelopes: &[Envelope]) -> Result<Vec<Appended>, Failure> {
        self.append(|outbox, transaction| outbox.append_all(transaction, envelopes))
    }

    pub(super) fn append_once(&mut self, envelope: &Envelope, key: &str) -> Result<Appended, Failure> {
        self.append(|outbox, transaction| outbox.append_once(transaction, envelope, key))
    }

    /// In a transaction of its own.
    fn append<T>(
        &mut self,
        append: impl FnOnce(&Outbox, &Transaction<'_>) -> Result<T, AppendError<rusqlite::Error>>,
    ) -> Result<T, Failure> {
        let Self { connection, outbox, path } = self;
        let failed = |error| failure(path, error);
        let transaction =
            connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        let appended = append(outbox, &transaction).map_err(|error| match error {
            AppendError::Refused(fault) => Failure::new(Code::Usage, fault),
            AppendError::Database(error) => failed(error),
        })?;
        transaction.commit().map_err(failed)?;
        Ok(appended)
    }
}

fn failure(path: &Path, error: rusqlite::Error) -> Failure {
    let fault = Fault::new(path.display().to_string(), "the event cannot be appended", remedy(&error));
    outbox::failure(fault.caused_by(error))
}

fn remedy(error: &rusqlite::Error) -> &'static str {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "Try again: another writer keeps the database locked. Look for a transaction that is left open"
        }
        Some(ErrorCode::DiskFull) => "Make room on its disk, or raise its max_page_count, and try again",
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
            "Let this user write to the file and its directory"
        }
        _ => "`postrider migrate` creates the tables, `postrider check` says what is wrong with them",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A full or locked database is not mended by `migrate`.
    #[test]
    fn the_remedy_fits_what_the_database_says() {
        let database = Connection::open_in_memory().unwrap();
        database.execute_batch("create table t (x blob); pragma max_page_count = 3;").unwrap();
        let full = database.execute("insert into t values (zeroblob(1000000))", []).unwrap_err();
        assert!(remedy(&full).starts_with("Make room"), "{full}");
        database.execute_batch("pragma query_only = on").unwrap();
        let shut = database.execute("delete from t", []).unwrap_err();
        assert!(remedy(&shut).starts_with("Let this user write"), "{shut}");
        let missing = database.execute("insert into none values (1)", []).unwrap_err();
        assert!(remedy(&missing).contains("postrider migrate"), "{missing}");
    }
}
