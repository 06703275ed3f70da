//! What SQLite's errors mean to the relay and to people.

use std::path::Path;

use postrider_core::Fault;
use postrider_core::source::SourceError;
use rusqlite::ErrorCode;

/// Classifies an error where the knowledge is: what passes by itself, and what a person has to mend.
pub(crate) fn source_error(place: &str, error: rusqlite::Error) -> SourceError {
    let code = error.sqlite_error_code();
    if code.is_some_and(passes) {
        return SourceError::Unreachable(
            Fault::new(
                place,
                "the database is locked or cannot be read or written",
                "Look for a process that keeps a transaction open, and for a full disk.",
            )
            .caused_by(error),
        );
    }
    match code {
        // A table or a column that is not there (any more).
        Some(ErrorCode::Unknown) => SourceError::Unfit(fault(place, error)),
        _ => SourceError::Broken(fault(place, error)),
    }
}

/// What an operator is told of an error that does not pass.
pub(crate) fn fault(place: &str, error: rusqlite::Error) -> Fault {
    let (problem, remedy) = match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => {
            ("the file is not a SQLite database", "Give the path of the application's own database file.")
        }
        Some(ErrorCode::DatabaseCorrupt) => (
            "the database is damaged",
            "Restore it from a backup, or recover it with `sqlite3 <file> .recover`.",
        ),
        Some(ErrorCode::ReadOnly) => (
            "the database is read-only",
            "Let the relay's user write the file and its folder: SQLite keeps its log beside the file.",
        ),
        Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => (
            "the file cannot be opened",
            "Check the path, and that the relay's user may read and write the file and its folder.",
        ),
        Some(code) if passes(code) => (
            "the database is locked or cannot be read or written",
            "Look for a process that keeps a transaction open, and for a full disk.",
        ),
        _ => (
            "a statement failed",
            "Run `postrider check`: it compares the table with its layout. `postrider migrate` creates what is missing.",
        ),
    };
    Fault::new(place, problem, remedy).caused_by(error)
}

/// A file that is not there is never created by accident.
pub(crate) fn missing(path: &Path) -> Fault {
    Fault::new(
        path.display().to_string(),
        "there is no such database file",
        "Check the url in the configuration; `postrider migrate` creates the file and its tables.",
    )
}

fn passes(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::SystemIoFailure
            | ErrorCode::DiskFull
            | ErrorCode::OutOfMemory
            | ErrorCode::FileLockingProtocolFailed
            | ErrorCode::OperationInterrupted
            | ErrorCode::SchemaChanged
    )
}
