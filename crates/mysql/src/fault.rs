//! What the server's errors mean to the relay and to people.

use std::time::Duration;

use mysql_async::{DriverError, IoError};
use postrider_core::Fault;
use postrider_core::source::SourceError;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{}", told(.0))]
    Server(#[from] mysql_async::Error),
    #[error("no answer for {} seconds", .0.as_secs())]
    Silent(Duration),
}

/// Two transactions waited for each other, and this one was chosen to give way.
const DEADLOCK: u16 = 1213;
/// Somebody else's lock was waited for in vain; on MariaDB also what NOWAIT is refused with.
const LOCK_TIMEOUT: u16 = 1205;
/// What NOWAIT is refused with on MySQL.
const LOCKED_NOW: u16 = 3572;
const LOGIN_REFUSED: [u16; 2] = [1045, 1698];
/// Of a user who may see no more of the server, a database that is not there gets the same answer.
const NO_RIGHT_TO_DATABASE: u16 = 1044;
const NO_DATABASE: u16 = 1049;
/// A right is missing: on a table, a column, a routine; a privilege of the server.
const NO_RIGHT: [u16; 4] = [1142, 1143, 1370, 1227];
const READ_ONLY: [u16; 2] = [1290, 1836];
/// No such table or column.
const NOT_AS_IT_WAS: [u16; 4] = [1146, 1054, 1051, 1109];
/// Connections, resources, a server that shuts down, a statement that somebody ended.
const PASSING: [u16; 14] =
    [1040, 1041, 1053, 1129, 1152, 1184, 1203, 1226, 1317, 1021, 1114, 1180, 1969, 3024];
/// Data, a constraint, a trigger: the table refuses a row.
const REFUSED: [u16; 16] =
    [1048, 1062, 1264, 1265, 1292, 1364, 1366, 1406, 1411, 1441, 1451, 1452, 1644, 3140, 3819, 4025];

impl Error {
    /// The server's code, where it gave one.
    pub(crate) fn code(&self) -> Option<u16> {
        match self {
            Self::Server(mysql_async::Error::Server(error)) => Some(error.code),
            _ => None,
        }
    }

    /// Whether the whole transaction is to be made again: somebody was in the way.
    pub(crate) fn is_in_the_way(&self) -> bool {
        self.code().is_some_and(|code| matches!(code, DEADLOCK | LOCK_TIMEOUT | LOCKED_NOW))
    }

    /// Whether the table refuses a row, and would again.
    pub(crate) fn is_refused(&self) -> bool {
        self.code().is_some_and(|code| REFUSED.contains(&code))
    }

    /// Whether the server has no TLS to offer.
    pub(crate) fn offers_no_tls(&self) -> bool {
        matches!(self, Self::Server(mysql_async::Error::Driver(DriverError::NoClientSslFlagFromServer)))
    }

    /// Whether the server's certificate is not one to trust.
    fn is_distrusted(&self) -> bool {
        match self {
            Self::Server(mysql_async::Error::Io(IoError::Tls(_))) => true,
            Self::Server(mysql_async::Error::Io(IoError::Io(error))) => {
                error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>())
            }
            _ => false,
        }
    }

    /// Whether the user is to prove who it is in a way that is not known here.
    fn asks_for_another_login(&self) -> bool {
        use DriverError::{CleartextPluginDisabled, MysqlOldPasswordDisabled, UnknownAuthPlugin};
        let Self::Server(mysql_async::Error::Driver(error)) = self else { return false };
        matches!(error, UnknownAuthPlugin { .. } | MysqlOldPasswordDisabled | CleartextPluginDisabled)
    }
}

/// What the server said: its message and code. Messages about a row's data may quote it, and are not repeated.
fn told(error: &mysql_async::Error) -> String {
    match error {
        mysql_async::Error::Server(said) if REFUSED.contains(&said.code) => format!("error {}", said.code),
        mysql_async::Error::Server(said) => format!("{} [{}]", said.message, said.code),
        mysql_async::Error::Io(IoError::Io(error)) => error.to_string(),
        other => other.to_string(),
    }
}

/// Classifies an error where the knowledge is: what passes by itself, and what a person has to mend.
pub(crate) fn source_error(place: &str, error: Error) -> SourceError {
    classed(fault(place, error))
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
            "Give the server a certificate (ssl_cert, ssl_key); or, only where the network is your own, write sslmode=disable in [outbox] url.",
        ),
        None if error.is_distrusted() => (
            "the server's certificate is not trusted",
            "sslmode=verify-full takes one of the authority in sslrootcert (without it, of the system's), for exactly the host in [outbox] url: name the right authority, and the host as the certificate has it.",
        ),
        None if error.asks_for_another_login() => (
            "the user is to log in by a method that is not known here",
            "Known are caching_sha2_password, mysql_native_password and ed25519: alter user … identified with one of them.",
        ),
        None => (
            "the database does not answer",
            "Check that the server runs, that host and port are right, and that it speaks TLS if sslmode asks for it.",
        ),
        Some(code) => said(code),
    };
    Fault::new(place, problem, remedy).caused_by(error)
}

fn said(code: u16) -> (&'static str, &'static str) {
    match code {
        code if LOGIN_REFUSED.contains(&code) => (
            "the login was refused",
            "Check user and password in [outbox] url, and that the user may connect from this host.",
        ),
        NO_RIGHT_TO_DATABASE => (
            "the user may not use this database, or there is no such database",
            "Check the name at the end of [outbox] url; docs/mysql.md lists the rights to grant.",
        ),
        NO_DATABASE => ("there is no such database", "Check the name at the end of [outbox] url."),
        code if NO_RIGHT.contains(&code) => (
            "a right is missing",
            "Run `postrider check`; docs/mysql.md lists the rights with the GRANT to run.",
        ),
        code if READ_ONLY.contains(&code) => {
            ("the database is read-only", "Connect to the primary: a relay writes what became of each entry.")
        }
        code if NOT_AS_IT_WAS.contains(&code) => (
            "the table is not as it was when the relay started, or Postrider's own tables are missing",
            "Run `postrider check`: it compares the table with its layout. `postrider migrate` creates what is missing.",
        ),
        code if passes(code) => (
            "the database cannot serve now",
            "It is tried again; if it lasts, look at the server's log, its connections and who holds locks.",
        ),
        _ => (
            "a statement failed",
            "Run `postrider check`: it compares the table with its layout. `postrider migrate` creates what is missing.",
        ),
    }
}

/// What passes by itself, or when somebody mends the server, without a change here.
fn passes(code: u16) -> bool {
    matches!(code, DEADLOCK | LOCK_TIMEOUT | LOCKED_NOW | NO_DATABASE | NO_RIGHT_TO_DATABASE)
        || [&PASSING[..], &LOGIN_REFUSED, &READ_ONLY].iter().any(|codes| codes.contains(&code))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(code: u16) -> Error {
        let said = mysql_async::ServerError {
            code,
            message: "Duplicate entry 'secret'".into(),
            state: "23000".into(),
        };
        Error::Server(mysql_async::Error::Server(said))
    }

    /// F6: what the server says of a row's data is not repeated.
    #[test]
    fn a_refused_rows_data_is_not_told() {
        assert_eq!(server(1062).to_string(), "error 1062");
        assert!(server(1062).is_refused() && !server(1213).is_refused());
    }

    #[test]
    fn who_is_in_the_way_passes() {
        for code in [1213, 1205, 3572] {
            assert!(server(code).is_in_the_way());
            assert!(matches!(source_error("x", server(code)), SourceError::Unreachable(_)));
        }
        assert!(matches!(source_error("x", server(1146)), SourceError::Unfit(_)));
        assert!(matches!(
            source_error("x", Error::Silent(Duration::from_secs(1))),
            SourceError::Unreachable(_)
        ));
    }
}
