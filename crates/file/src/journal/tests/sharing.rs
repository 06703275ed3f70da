//! Several writers on one file, some of which die in mid-write.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::config::FileConfig;
use crate::disk::Disk;
use crate::journal::Journal;
use crate::writer::Place;

const WRITERS: usize = 3;
const BATCHES: usize = 1_500;
const LINES: usize = 4;

/// Two relays may share the file (F8): nothing that has a receipt is lost, torn, doubled or out of order.
#[test]
fn writers_that_share_a_file_and_rotate_it_lose_and_tear_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("events");
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let path = &path;
            scope.spawn(move || write(path, writer));
        }
    });
    let mut journal = Journal::new(FileConfig::new(&path), Box::new(Mortal::default()));
    journal.append(super::event("end\n").as_bytes(), &mut || true).unwrap();
    let (files, lines) = read(dir.path());
    assert!(files > 50, "it rotated {files} times");
    let mut last = HashMap::new();
    let mut whole = 0;
    for line in lines.iter().filter(|line| *line != "end") {
        let words: Vec<&str> = line.split(' ').collect();
        let [writer, batch, number, "whole" | "doomed"] = words[..] else { panic!("a torn line: {line:?}") };
        let at: (usize, usize) = (batch.parse().unwrap(), number.parse().unwrap());
        let before = last.insert(writer.to_owned(), at);
        assert!(before < Some(at), "writer {writer}: {before:?}, then {at:?}");
        whole += usize::from(words[3] == "whole");
    }
    let doomed = (0..BATCHES).filter(|batch| is_doomed(*batch)).count();
    assert_eq!(whole, WRITERS * (BATCHES - doomed) * LINES);
}

fn is_doomed(batch: usize) -> bool {
    batch % 37 == 5
}

fn write(path: &Path, writer: usize) {
    let config = FileConfig { rotate_bytes: 4_000, ..FileConfig::new(path) };
    let mut journal = Journal::new(config, Box::new(Mortal::default()));
    for batch in 0..BATCHES {
        let fate = if is_doomed(batch) { "doomed" } else { "whole" };
        let line = |number| format!("{writer} {batch} {number} {fate}\n");
        let lines = super::event(&(0..LINES).map(line).collect::<String>());
        let appended = journal.append(lines.as_bytes(), &mut || true);
        assert_eq!(appended.is_ok(), !is_doomed(batch));
    }
}

/// A disk on which a doomed batch ends in mid-line, as if its writer had died there. It does not sync: what is tested here
/// is who writes where, and thousands of syncs take long.
#[derive(Default)]
struct Mortal {
    dying: Mutex<bool>,
}

impl Disk for Mortal {
    fn append(&self, mut file: &File, bytes: &[u8]) -> io::Result<()> {
        let dies = bytes.ends_with(b"doomed\n");
        *self.dying.lock().unwrap() = dies;
        let written = if dies { bytes.len() * 2 / 3 } else { bytes.len() };
        file.write_all(&bytes[..written])?;
        if dies { Err(io::Error::other("died")) } else { Ok(()) }
    }

    fn truncate(&self, file: &File, len: u64) -> io::Result<()> {
        let died = std::mem::take(&mut *self.dying.lock().unwrap());
        if died { Err(io::Error::other("died")) } else { file.set_len(len) }
    }

    fn sync(&self, _file: &File) -> io::Result<()> {
        Ok(())
    }

    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }
}

fn read(dir: &Path) -> (usize, Vec<String>) {
    let number = |path: &PathBuf| {
        path.extension().map_or(u64::MAX, |number| number.to_str().unwrap().parse().unwrap())
    };
    let mut files: Vec<PathBuf> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort_by_key(number);
    let lines = files.iter().flat_map(|path| {
        let content = fs::read_to_string(path).unwrap();
        content.replace(super::beginning(), "").lines().map(str::to_owned).collect::<Vec<_>>()
    });
    (files.len(), lines.collect())
}
