//! How a command ends: the documented exit codes, and one paragraph that says why.

use std::process::ExitCode;

use postrider_core::Fault;
use postrider_core::source::SourceError;

/// For `--help` and the README.
pub(crate) const CODES: &str = "\
Exit codes:
  0  done
  1  failed
  2  bad usage or configuration
  3  the database cannot be reached
  4  the broker cannot be reached
  5  `check` found a fault";

/// Stable: scripts act on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Code {
    Done = 0,
    Failed = 1,
    Usage = 2,
    Database = 3,
    Broker = 4,
    Found = 5,
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code as u8)
    }
}

/// Why a command did not do what was asked.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    /// None when everything has been said already.
    pub(crate) fault: Option<Fault>,
}

impl Failure {
    pub(crate) fn new(code: Code, fault: Fault) -> Self {
        Self { code, fault: Some(fault) }
    }

    /// What was typed or configured is wrong.
    pub(crate) fn usage(
        place: impl Into<String>,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self::new(Code::Usage, Fault::new(place, problem, remedy))
    }

    /// What was asked could not be done.
    pub(crate) fn failed(
        place: impl Into<String>,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self::new(Code::Failed, Fault::new(place, problem, remedy))
    }

    /// Ends with a code; the reason has been told.
    pub(crate) fn told(code: Code) -> Self {
        Self { code, fault: None }
    }
}

impl From<SourceError> for Failure {
    fn from(error: SourceError) -> Self {
        match error {
            SourceError::Unreachable(fault) => Self::new(Code::Database, fault),
            SourceError::Unfit(fault) | SourceError::Broken(fault) => Self::new(Code::Failed, fault),
            SourceError::Fenced => Self::failed(
                "outbox",
                "the lease was lost to another relay",
                "Try again: the other one goes on with what this one had",
            ),
        }
    }
}
