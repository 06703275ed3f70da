//! The file: opened, locked, looked over, appended to, synced, rotated.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use postrider_core::{Fault, Refusal, point};

use crate::config::FileConfig;
use crate::disk::Disk;
use crate::tail::Found;
use crate::writer::Place;
use crate::{refusal, rotate, tail};

/// How often the file may be replaced under our hands before a batch is refused.
const REOPENS_MAX: usize = 100;

/// A file that several relays append to.
///
/// The lock is on the file itself, not on one beside it: then nothing is left behind, and a lock that was won on a file
/// which has been rotated or moved away meanwhile shows by its inode and is thrown away.
pub(crate) struct Journal {
    config: FileConfig,
    disk: Box<dyn Disk>,
    open: Option<Open>,
}

struct Open {
    file: File,
    path: PathBuf,
    /// The length at which we left it, whole and synced; another length means that somebody else was here.
    left_at: Option<u64>,
}

impl Journal {
    pub(crate) fn new(config: FileConfig, disk: Box<dyn Disk>) -> Self {
        Self { config, disk, open: None }
    }

    /// The file, locked, without a torn tail, with room for `bytes` more, and its length. Whatever fails on the way closes
    /// it, and with that unlocks it.
    fn locked(&mut self, bytes: u64) -> Result<(Open, u64), Refusal> {
        for _ in 0..REOPENS_MAX {
            let open = match self.open.take() {
                Some(open) => open,
                None => self.open()?,
            };
            let busy = |doing, error| refusal::busy(refusal::file(&open.path), doing, &error);
            self.disk.lock(&open.file).map_err(|error| busy("it cannot be locked", error))?;
            let found = open.file.metadata().map_err(|error| busy("it cannot be looked at", error))?;
            if !is_at(&open.path, &found).map_err(|error| busy("it cannot be looked at", error))? {
                continue;
            }
            let len = self.mend(&open, found.len())?;
            if len == 0 || len.saturating_add(bytes) <= self.config.rotate_bytes {
                return Ok((open, len));
            }
            self.rotate(&open).map_err(|error| busy("it cannot be rotated", error))?;
        }
        Err(refusal::away(format!(
            "{}: it is replaced again and again. Let nothing but relays rotate it",
            refusal::file(&self.config.path)
        )))
    }

    fn open(&self) -> Result<Open, Refusal> {
        // A link is followed, so that its target rotates and not the link.
        let path = self.config.path.canonicalize().unwrap_or_else(|_| self.config.path.clone());
        let busy = |error: io::Error| refusal::busy(refusal::file(&path), "it cannot be opened", &error);
        let file = self.disk.open(&path).map_err(busy)?;
        if !file.metadata().map_err(busy)?.is_file() {
            return Err(refusal::away(format!(
                "{}: it is not a regular file. Name one",
                refusal::file(&path)
            )));
        }
        // Whoever created it may have died before its name was durable, so each that opens it sees to that.
        let dir = rotate::directory(&path);
        self.disk.sync_dir(dir).map_err(|error| {
            refusal::busy(format_args!("directory {}", dir.display()), "it cannot be synced", &error)
        })?;
        Ok(Open { file, path, left_at: None })
    }

    /// Cuts what a writer that died left torn; the length of what is whole. A file that is not ours stays as it is.
    fn mend(&self, open: &Open, len: u64) -> Result<u64, Refusal> {
        if open.left_at == Some(len) {
            return Ok(len);
        }
        let busy = |doing, error| refusal::busy(refusal::file(&open.path), doing, &error);
        match tail::look(&open.file, len).map_err(|error| busy("it cannot be read", error))? {
            Found::Whole => Ok(len),
            Found::Torn(whole) => {
                let cut = self.disk.truncate(&open.file, whole);
                cut.map(|()| whole).map_err(|error| busy("its torn tail cannot be cut", error))
            }
            Found::Foreign(why) => {
                let place = refusal::file(&open.path);
                Err(refusal::away(format!("{place}: {why}. {}", tail::REMEDY)))
            }
        }
    }

    fn rotate(&self, open: &Open) -> io::Result<()> {
        // A tail cut just now must not come back in a file that nobody looks at again.
        self.disk.sync(&open.file)?;
        self.disk.rename(&open.path, &rotate::next_name(&open.path)?)?;
        self.disk.sync_dir(rotate::directory(&open.path))
    }

    /// One append and one sync. After a failure the bytes are taken back where that is possible: pages that could not be
    /// synced are not to be trusted, and must not stand before lines that are.
    fn write(&self, open: &Open, len: u64, lines: &[u8]) -> Result<(), Refusal> {
        let place = refusal::file(&open.path);
        if let Err(error) = self.append_once(&open.file, lines) {
            let taken_back = self.disk.truncate(&open.file, len).is_ok();
            return Err(if taken_back && refusal::is_full(&error) {
                refusal::busy(place, "it cannot be appended to", &error)
            } else {
                refusal::unknown(place, "an append failed", &error)
            });
        }
        point::pass("file.written");
        if let Err(error) = self.disk.sync(&open.file) {
            let _ = self.disk.truncate(&open.file, len);
            return Err(refusal::unknown(place, "a sync failed", &error));
        }
        point::pass("file.synced");
        Ok(())
    }

    fn append_once(&self, file: &File, lines: &[u8]) -> io::Result<()> {
        if !point::armed() {
            return self.disk.append(file, lines);
        }
        let (first, second) = lines.split_at(lines.len() / 2);
        self.disk.append(file, first)?;
        point::pass("file.half-written");
        self.disk.append(file, second)
    }

    /// Gives the lock back and keeps the file open for the next batch.
    fn leave(&mut self, open: Open, len: u64) {
        if open.file.unlock().is_ok() {
            self.open = Some(Open { left_at: Some(len), ..open });
        }
    }
}

impl Place for Journal {
    fn append(&mut self, lines: &[u8], go: &mut dyn FnMut() -> bool) -> Result<(), Refusal> {
        let (open, len) = self.locked(lines.len() as u64)?;
        point::pass("file.locked");
        if !go() {
            self.leave(open, len);
            return Err(Refusal::Withheld);
        }
        // On failure the file is closed: its next sync would say that all is well.
        self.write(&open, len, lines)?;
        self.leave(open, len + lines.len() as u64);
        Ok(())
    }

    fn probe(&mut self) -> Result<(), Fault> {
        crate::probe::probe(&self.config.path)
    }

    fn close(&mut self) {
        self.open = None;
    }
}

/// Whether the path still names the file that we hold.
fn is_at(path: &Path, held: &std::fs::Metadata) -> io::Result<bool> {
    match path.metadata() {
        Ok(named) => Ok((named.dev(), named.ino()) == (held.dev(), held.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
