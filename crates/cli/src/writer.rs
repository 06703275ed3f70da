//! Appends events to the configured outbox, in transactions of its own.

use std::ops::Deref;
use std::path::PathBuf;
use std::time::Duration;

use postrider_core::{Envelope, Fault, Names};
use postrider_sqlite::{AppendError, Appended, Outbox};
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use crate::config::Config;
use crate::exit::{Code, Failure};
use crate::{layout, outbox};

/// How long another writer is waited for.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection and what it may write.
pub(crate) struct Writer {
    connection: Connection,
    rules: Rules,
}

/// What the outbox takes.
pub(crate) struct Rules {
    outbox: Outbox,
    names: Names,
    path: PathBuf,
    pub(crate) payload_bytes_max: usize,
}

/// Events that are written together or not at all.
pub(crate) struct Transaction<'w> {
    transaction: rusqlite::Transaction<'w>,
    rules: &'w Rules,
}

impl Writer {
    /// Opens a database that is there.
    pub(crate) fn open(config: &Config) -> Result<Self, Failure> {
        let layout = layout::load(config)?;
        let path = outbox::existing(config)?;
        let payload_bytes_max = config.outbox.payload_bytes_max;
        let outbox = Outbox::new(&layout)
            .map_err(|fault| Failure::new(Code::Usage, fault))?
            .payload_bytes_max(payload_bytes_max);
        let rules = Rules { outbox, names: layout.names, path, payload_bytes_max };
        let connection = Connection::open_with_flags(&rules.path, OpenFlags::SQLITE_OPEN_READ_WRITE)
            .and_then(|connection| connection.busy_timeout(BUSY_TIMEOUT).map(|()| connection))
            .map_err(|error| rules.failure(error))?;
        Ok(Self { connection, rules })
    }

    pub(crate) fn begin(&mut self) -> Result<Transaction<'_>, Failure> {
        let Self { connection, rules } = self;
        let transaction = connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(|error| rules.failure(error))?;
        Ok(Transaction { transaction, rules })
    }
}

impl Transaction<'_> {
    pub(crate) fn append_all(&self, envelopes: &[Envelope]) -> Result<Vec<Appended>, Failure> {
        self.rules.outbox.append_all(&self.transaction, envelopes).map_err(|error| self.rules.refused(error))
    }

    pub(crate) fn append_once(&self, envelope: &Envelope, key: &str) -> Result<Appended, Failure> {
        self.rules
            .outbox
            .append_once(&self.transaction, envelope, key)
            .map_err(|error| self.rules.refused(error))
    }

    pub(crate) fn commit(self) -> Result<(), Failure> {
        self.transaction.commit().map_err(|error| self.rules.failure(error))
    }
}

impl Rules {
    /// What would be refused, before anything is written.
    pub(crate) fn accept(&self, envelope: &Envelope) -> Result<(), Fault> {
        envelope.validate(self.names, self.payload_bytes_max)
    }

    fn refused(&self, error: AppendError<rusqlite::Error>) -> Failure {
        match error {
            AppendError::Refused(fault) => Failure::new(Code::Usage, fault),
            AppendError::Database(error) => self.failure(error),
        }
    }

    fn failure(&self, error: rusqlite::Error) -> Failure {
        let place = self.path.display().to_string();
        let fault = Fault::new(place, "the event cannot be appended", remedy(&error));
        outbox::failure(fault.caused_by(error))
    }
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

impl Deref for Writer {
    type Target = Rules;

    fn deref(&self) -> &Rules {
        &self.rules
    }
}

impl Deref for Transaction<'_> {
    type Target = Rules;

    fn deref(&self) -> &Rules {
        self.rules
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
