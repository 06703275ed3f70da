//! Whether a file could be appended to, found out without leaving anything behind.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;

use postrider_core::Fault;

use crate::tail::Found;
use crate::{refusal, rotate, tail};

/// Opens and locks the file if it is there; writes beside it, because rotation will.
pub(crate) fn probe(path: &Path) -> Result<(), Fault> {
    let dir = rotate::directory(path);
    match OpenOptions::new().read(true).append(true).open(path) {
        Ok(file) => look_at(path, &file)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(fault(refusal::file(path), "it cannot be opened", error)),
    }
    let scratch = dir.join(format!(".postrider-probe-{}", std::process::id()));
    let created = OpenOptions::new().write(true).create_new(true).open(&scratch);
    let place = || format!("directory {}", dir.display());
    created.map_err(|error| fault(place(), "no file can be created in it", error))?;
    fs::remove_file(&scratch).map_err(|error| fault(place(), "a file in it cannot be removed", error))
}

fn look_at(path: &Path, file: &File) -> Result<(), Fault> {
    let metadata =
        file.metadata().map_err(|error| fault(refusal::file(path), "it cannot be looked at", error))?;
    if !metadata.is_file() {
        return Err(Fault::new(refusal::file(path), "it is not a regular file", "Name one that is."));
    }
    match file.try_lock() {
        Ok(()) => {}
        // Another relay is writing: so it can be locked, and its end may be anything at the moment.
        Err(TryLockError::WouldBlock) => return Ok(()),
        Err(TryLockError::Error(error)) => {
            return Err(fault(refusal::file(path), "it cannot be locked", error));
        }
    }
    // Under the lock nobody writes, so the length is still right once it is asked anew.
    let found = file.metadata().and_then(|metadata| tail::look(file, metadata.len()));
    match found.map_err(|error| fault(refusal::file(path), "it cannot be read", error))? {
        Found::Whole | Found::Torn(_) => Ok(()),
        Found::Foreign(why) => Err(Fault::new(refusal::file(path), why, tail::REMEDY)),
    }
}

fn fault(place: String, problem: &str, error: io::Error) -> Fault {
    let remedy = refusal::remedy(&error);
    let remedy = if remedy.is_empty() { "Look at the disk and the path." } else { remedy };
    Fault::new(place, problem, remedy).caused_by(error)
}
