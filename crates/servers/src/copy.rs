//! Copies the data of a running PostgreSQL, between the start and the stop of a backup.

use std::io;
use std::os::unix::fs::chown;
use std::path::Path;

use crate::user;

/// What belongs to the running server, or comes by streaming: the folders are copied, their content is not.
const LEFT_OUT: &[&str] = &["pg_dynshmem", "pg_notify", "pg_replslot", "pg_stat_tmp", "pg_wal"];
const FILES_LEFT_OUT: &[&str] = &["postmaster.pid", "postmaster.opts"];

/// Panics when it cannot.
pub(crate) fn data(from: &Path, to: &Path) {
    folder(from, to).unwrap_or_else(|error| panic!("cannot copy {}: {error}", from.display()));
}

fn folder(from: &Path, to: &Path) -> io::Result<()> {
    let permissions = std::fs::metadata(from)?.permissions();
    std::fs::create_dir(to)?;
    std::fs::set_permissions(to, permissions)?;
    own(to)?;
    if from.file_name().is_some_and(|name| LEFT_OUT.iter().any(|left_out| name == *left_out)) {
        return Ok(());
    }
    for found in std::fs::read_dir(from)? {
        let found = found?;
        let there = to.join(found.file_name());
        if FILES_LEFT_OUT.iter().any(|left_out| found.file_name() == *left_out) {
            continue;
        }
        let copied = match found.file_type() {
            Ok(kind) if kind.is_dir() => folder(&found.path(), &there),
            Ok(_) => std::fs::copy(found.path(), &there).and_then(|_| own(&there)),
            Err(error) => Err(error),
        };
        // The server goes on, and removes files: what is gone is not needed, and what is torn, the log mends.
        match copied {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => other?,
        }
    }
    Ok(())
}

fn own(path: &Path) -> io::Result<()> {
    user::other().map_or(Ok(()), |(user, group)| chown(path, Some(user), Some(group)))
}
