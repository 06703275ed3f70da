//! What PostgreSQL's errors mean to the relay and to people.

use std::time::Duration;

use postrider_core::Fault;
use postrider_core::source::SourceError;
use tokio_postgres::error::SqlState;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{}", told(.0))]
    Server(#[from] tokio_postgres::Error),
    #[error("no answer for {} seconds", .0.as_secs())]
    Silent(Duration),
}

impl Error {
    /// The server's code, where it gave one.
    pub(crate) fn code(&self) -> Option<&SqlState> {
        match self {
            Self::Server(error) => error.code(),
            Self::Silent(_) => None,
        }
    }

    /// Whether the server refuses what it was given, and would again: a constraint, a type, a right.
    pub(crate) fn is_refusal(&self) -> bool {
        self.code().is_some_and(|code| !passes(code))
    }

    /// Whether the server has refused to encrypt, as one does that has no certificate.
    fn offers_no_tls(&self) -> bool {
        matches!(self, Self::Server(error) if told(error).contains("server does not support TLS"))
    }

    /// The constraint that something ran against.
    pub(crate) fn constraint(&self) -> Option<&str> {
        match self {
            Self::Server(error) => error.as_db_error()?.constraint(),
            Self::Silent(_) => None,
        }
    }
}

/// What the server said: its message and code, without the detail, which may quote a row.
fn told(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(said) => format!("{} [{}]", said.message(), said.code().code()),
        None => {
            let mut text = error.to_string();
            let mut cause = std::error::Error::source(error);
            while let Some(error) = cause {
                text.push_str(&format!(": {error}"));
                cause = error.source();
            }
            text
        }
    }
}

/// Classifies an error where the knowledge is: what passes by itself, and what a person has to mend.
pub(crate) fn source_error(place: &str, error: Error) -> SourceError {
    let fault = fault(place, error);
    classed(fault)
}

/// The same, where it was told already.
pub(crate) fn classed(fault: Fault) -> SourceError {
    if is_unreachable(&fault) { SourceError::Unreachable(fault) } else { SourceError::Unfit(fault) }
}

/// Whether the database itself cannot be used now: away, starting, out of connections, a login that it refuses.
#[must_use]
pub fn is_unreachable(fault: &Fault) -> bool {
    let error = std::error::Error::source(fault).and_then(|source| source.downcast_ref::<Error>());
    error.is_some_and(|error| error.code().is_none_or(passes))
}

/// What an operator is told of an error.
pub(crate) fn fault(place: &str, error: Error) -> Fault {
    let (problem, remedy) = match error.code() {
        None if error.offers_no_tls() => (
            "the server offers no TLS, and sslmode asks for it",
            "Turn it on at the server (ssl = on, with a certificate); or, only where the network is your own, write sslmode=disable in [outbox] url.",
        ),
        None => (
            "the database does not answer",
            "Check that the server runs, that host and port are right, and that it speaks TLS if sslmode asks for it.",
        ),
        Some(code) => said(code),
    };
    Fault::new(place, problem, remedy).caused_by(error)
}

fn said(code: &SqlState) -> (&'static str, &'static str) {
    match code {
        &SqlState::INVALID_PASSWORD | &SqlState::INVALID_AUTHORIZATION_SPECIFICATION => (
            "the login was refused",
            "Check user and password in [outbox] url, and the server's pg_hba.conf.",
        ),
        &SqlState::INVALID_CATALOG_NAME => {
            ("there is no such database", "Check the name at the end of [outbox] url.")
        }
        &SqlState::INSUFFICIENT_PRIVILEGE => (
            "a right is missing",
            "Run `postrider check`: it names each right that is missing with the GRANT to run; docs/postgres.md lists them under \"Rights\".",
        ),
        &SqlState::READ_ONLY_SQL_TRANSACTION => (
            "the database is read-only",
            "Connect to the primary: a relay writes how far it has come. target_session_attrs=read-write in the URL finds it.",
        ),
        &SqlState::UNDEFINED_TABLE | &SqlState::UNDEFINED_COLUMN | &SqlState::UNDEFINED_FUNCTION => (
            "the table is not as it was when the relay started, or Postrider's own tables are missing",
            "Run `postrider check`: it compares the table with its layout. `postrider migrate` creates what is missing.",
        ),
        &SqlState::INVALID_SQL_STATEMENT_NAME | &SqlState::DUPLICATE_PSTATEMENT => (
            "a prepared statement is gone between two calls: a transaction pooler stands between",
            "Add pooler=transaction to [outbox] url, or connect to the server itself.",
        ),
        &SqlState::T_R_DEADLOCK_DETECTED => (
            "the server has ended a deadlock with another transaction",
            "If it happens often, look in the server's log for who locks rows of the outbox in another order.",
        ),
        &SqlState::T_R_SERIALIZATION_FAILURE => (
            "another transaction came first, and the server asks for another try",
            "If it lasts, look at default_transaction_isolation of this user: read committed is enough.",
        ),
        &SqlState::LOCK_NOT_AVAILABLE => (
            "somebody holds a lock for longer than lock_timeout",
            "Look in pg_locks and pg_stat_activity for a transaction that has locked the table: a migration, a VACUUM FULL, a session that was left open.",
        ),
        &SqlState::QUERY_CANCELED => (
            "a statement took longer than statement_timeout, or somebody cancelled it",
            "If it lasts, run `postrider check`: it names the index that is missing. Look also for locks, and for a server that is overloaded.",
        ),
        &SqlState::TOO_MANY_CONNECTIONS => (
            "the server has no connection left",
            "Raise max_connections or the user's connection limit, or let fewer applications connect.",
        ),
        &SqlState::DISK_FULL => ("the server's disk is full", "Make room at the server."),
        &SqlState::ADMIN_SHUTDOWN | &SqlState::CRASH_SHUTDOWN => (
            "the server is shutting down, or somebody has ended the connection",
            "If it lasts, look at the server's log.",
        ),
        &SqlState::CANNOT_CONNECT_NOW => (
            "the server is starting up, shutting down or recovering",
            "If it lasts, look at the server's log.",
        ),
        code if passes(code) => (
            "the database cannot serve now",
            "If it lasts, look at the server's log, its connections and its disk.",
        ),
        _ => (
            "a statement failed",
            "Run `postrider check`: it compares the table with its layout. `postrider migrate` creates what is missing.",
        ),
    }
}

/// What passes by itself, or when somebody mends the server, without a change here.
fn passes(code: &SqlState) -> bool {
    let class = &code.code()[..2];
    // Connection, resources, operator's intervention, system, transaction rollback (deadlock, serialisation), locks.
    matches!(class, "08" | "53" | "57" | "58" | "40" | "55" | "28")
        || matches!(
            code,
            &SqlState::READ_ONLY_SQL_TRANSACTION
                | &SqlState::INVALID_CATALOG_NAME
                | &SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT
                // A statement was prepared for a table that has changed: the next connection prepares it anew.
                | &SqlState::FEATURE_NOT_SUPPORTED
        )
}
