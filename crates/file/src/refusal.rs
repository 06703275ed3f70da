//! From what the machine says to what the relay does about it.

use std::io::{self, ErrorKind};
use std::path::Path;

use postrider_core::Refusal;
use postrider_core::cloudevents::Malformed;
use postrider_core::verdict::{Reason, Rejection, Scope, Silence};

/// The payload is over the limit.
pub(crate) fn too_large(bytes: usize, bytes_max: usize) -> Refusal {
    rejected(format!(
        "the payload has {bytes} bytes, over payload_bytes_max = {bytes_max}: raise payload_bytes_max in [outbox] and revive the entry, \
         or send less in one event"
    ))
}

/// The message cannot become a line.
pub(crate) fn not_encodable(problem: &Malformed) -> Refusal {
    rejected(format!("it cannot be written as a CloudEvent: {problem}"))
}

/// Nothing was written, and nothing will be until somebody acts or the machine recovers.
pub(crate) fn busy(place: impl std::fmt::Display, doing: &str, error: &io::Error) -> Refusal {
    let remedy = remedy(error);
    let stop = if remedy.is_empty() { "" } else { ". " };
    away(format!("{place}: {doing}: {error}{stop}{remedy}"))
}

/// The sink takes nothing at the moment.
pub(crate) fn away(reason: String) -> Refusal {
    Refusal::Busy { scope: Scope::Sink, reason: Reason::new(reason) }
}

/// Bytes may have been written, and nobody knows whether they last.
pub(crate) fn unknown(place: impl std::fmt::Display, doing: &str, error: &io::Error) -> Refusal {
    silent(format!("{place}: {doing}: {error}"))
}

/// No answer came.
pub(crate) fn silent(reason: String) -> Refusal {
    Refusal::Unknown(Silence::Broker { scope: Scope::Sink, reason: Reason::new(reason) })
}

/// Whether a write failed because there is no room, so that nothing but room is missing.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge)
}

/// What to do when a file cannot be used.
pub(crate) fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::NotFound => "Create the directory: it is not created for you",
        ErrorKind::PermissionDenied => "Let the relay's user write to the file and its directory",
        ErrorKind::IsADirectory => "Name a file in it",
        ErrorKind::ReadOnlyFilesystem => "Name a file on a disk that can be written",
        ErrorKind::Unsupported => "Name a file on a disk that has file locks",
        ErrorKind::BrokenPipe => "Start its reader again",
        _ if is_full(error) => "Make room: nothing is lost meanwhile",
        _ => "",
    }
}

/// How people call the file.
pub(crate) fn file(path: &Path) -> String {
    format!("file {}", path.display())
}

fn rejected(reason: String) -> Refusal {
    Refusal::Rejected(Rejection { reason: Reason::new(reason), in_company: false })
}
