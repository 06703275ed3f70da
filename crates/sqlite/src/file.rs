//! The file behind a path: whether it is still the one that was opened.
//!
//! A file that is deleted or replaced lives on for whoever has it open: a relay would go on with it for ever, and never
//! see what is written to the new one.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use postrider_core::Fault;
use postrider_core::source::SourceError;

use crate::fault::missing;

/// How often the path is looked at.
const EVERY: Duration = Duration::from_secs(1);

/// A file that is open, by its path.
#[derive(Debug)]
pub(crate) struct OpenFile {
    path: PathBuf,
    /// None where it was not there, or where the system has no such thing.
    identity: Option<Identity>,
    looked: Timestamp,
    replaced: bool,
}

type Identity = (u64, u64);

impl OpenFile {
    /// Call it before the file is opened: what changes in between is then noticed by the next look.
    pub(crate) fn new(path: &Path, now: Timestamp) -> Self {
        Self { path: path.to_owned(), identity: identity(path), looked: now, replaced: false }
    }

    /// Whether another file, or none, has taken its place; looks at most once a second.
    pub(crate) fn is_replaced(&mut self, now: Timestamp) -> bool {
        let since = Duration::try_from(now.duration_since(self.looked));
        // A clock that was set back counts as time that passed.
        if !self.replaced && since.is_ok_and(|since| since < EVERY) {
            return false;
        }
        if !self.replaced {
            self.looked = now;
            self.replaced = self.identity.is_some() && identity(&self.path) != self.identity;
        }
        self.replaced
    }
}

/// Whatever hinders opening the file that took another's place may pass: it may be in the making.
pub(crate) fn not_yet(path: &Path, fault: Fault) -> SourceError {
    SourceError::Unreachable(if path.exists() { fault } else { missing(path) })
}

#[cfg(unix)]
fn identity(path: &Path) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

/// An open file can neither be deleted nor replaced there.
#[cfg(not(unix))]
fn identity(_: &Path) -> Option<Identity> {
    None
}
