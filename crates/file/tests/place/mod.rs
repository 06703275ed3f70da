//! A disk in trouble, and what is on it.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};

use postrider_conformance::sink::Trouble;
use postrider_file::disk::Disk;

/// Small enough for a few batches to rotate the file.
pub(crate) const ROTATE_BYTES: u64 = 4_000;

/// The real disk, in the trouble that is set at the moment; clones share it.
#[derive(Clone, Default)]
pub(crate) struct Disks(Arc<(Mutex<State>, Condvar)>);

#[derive(Default)]
struct State {
    trouble: Option<Trouble>,
    stalled: bool,
}

impl Disks {
    pub(crate) fn set(&self, trouble: Option<Trouble>) {
        let mut state = self.0.0.lock().unwrap();
        *state = State { trouble, stalled: false };
        self.0.1.notify_all();
    }

    pub(crate) fn is_stalled(&self) -> bool {
        self.0.0.lock().unwrap().stalled
    }

    fn in_trouble(&self, trouble: Trouble) -> bool {
        self.0.0.lock().unwrap().trouble == Some(trouble)
    }
}

impl Disk for Disks {
    fn lock(&self, file: &File) -> io::Result<()> {
        if self.in_trouble(Trouble::Unreachable) {
            return Err(ErrorKind::PermissionDenied.into());
        }
        file.lock()
    }

    fn append(&self, mut file: &File, bytes: &[u8]) -> io::Result<()> {
        if self.in_trouble(Trouble::ReplyLostBeforeWrite) {
            return Err(io::Error::other("input/output error"));
        }
        file.write_all(bytes)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        let mut state = self.0.0.lock().unwrap();
        while state.trouble == Some(Trouble::Silence) {
            state.stalled = true;
            state = self.0.1.wait(state).unwrap();
        }
        if state.trouble == Some(Trouble::ReplyLostAfterWrite) {
            return Err(io::Error::other("input/output error"));
        }
        file.sync_data()
    }

    fn truncate(&self, file: &File, len: u64) -> io::Result<()> {
        // What was written stays, as after a crash between the write and its answer.
        if self.in_trouble(Trouble::ReplyLostAfterWrite) {
            return Err(io::Error::other("input/output error"));
        }
        file.set_len(len)
    }
}

/// Every line of every file, oldest file first.
pub(crate) fn lines(dir: &Path) -> Vec<Vec<u8>> {
    let mut files: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort_by_key(|path| {
        let number = path.extension().and_then(|number| number.to_str()?.parse::<u64>().ok());
        number.unwrap_or(u64::MAX)
    });
    let mut lines = Vec::new();
    for path in files {
        let content = fs::read(&path).unwrap();
        assert!(content.is_empty() || content.ends_with(b"\n"), "{} has a torn tail", path.display());
        lines
            .extend(content.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(<[u8]>::to_vec));
    }
    lines
}
