//! A journal on a real directory, with a disk that writes down what it is asked and fails on demand.

mod sharing;

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};

use postrider_core::Refusal;
use postrider_core::verdict::{Scope, Silence};
use tempfile::TempDir;

use super::Journal;
use crate::config::FileConfig;
use crate::disk::Disk;
use crate::tail;
use crate::writer::Place;

/// What the disk was asked to do, and what shall fail.
#[derive(Clone, Default)]
struct Trace(Arc<Mutex<(Vec<String>, VecDeque<Failure>)>>);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Failure {
    Sync,
    /// Half of the bytes are written, then this.
    Append(ErrorKind),
    Truncate,
    Rename,
    SyncDir,
}

impl Trace {
    fn fail(&self, failures: impl IntoIterator<Item = Failure>) {
        self.0.lock().unwrap().1.extend(failures);
    }

    /// What happened since it was asked last.
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap().0)
    }

    /// Writes an operation down; whether it is the next one to fail.
    fn note(&self, operation: &str, fails: impl Fn(Failure) -> bool) -> Option<Failure> {
        let (operations, failures) = &mut *self.0.lock().unwrap();
        operations.push(operation.to_owned());
        if failures.front().is_some_and(|failure| fails(*failure)) { failures.pop_front() } else { None }
    }
}

fn failed() -> io::Error {
    io::Error::other("input/output error")
}

impl Disk for Trace {
    fn open(&self, path: &Path) -> io::Result<File> {
        self.note("open", |_| false);
        fs::OpenOptions::new().read(true).append(true).create(true).open(path)
    }

    fn append(&self, mut file: &File, bytes: &[u8]) -> io::Result<()> {
        match self.note("append", |failure| matches!(failure, Failure::Append(_))) {
            Some(Failure::Append(kind)) => {
                file.write_all(&bytes[..bytes.len() / 2])?;
                Err(kind.into())
            }
            _ => file.write_all(bytes),
        }
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        let failure = self.note("sync", |failure| failure == Failure::Sync);
        if failure.is_some() { Err(failed()) } else { file.sync_data() }
    }

    fn truncate(&self, file: &File, len: u64) -> io::Result<()> {
        let failure = self.note("truncate", |failure| failure == Failure::Truncate);
        if failure.is_some() { Err(failed()) } else { file.set_len(len) }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let failure = self.note("rename", |failure| failure == Failure::Rename);
        if failure.is_some() { Err(failed()) } else { fs::rename(from, to) }
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let failure = self.note("sync_dir", |failure| failure == Failure::SyncDir);
        if failure.is_some() { Err(failed()) } else { File::open(dir)?.sync_all() }
    }
}

struct Bench {
    dir: TempDir,
    trace: Trace,
    journal: Journal,
}

impl Bench {
    fn new() -> Self {
        Self::rotating_at(FileConfig::ROTATE_BYTES)
    }

    fn rotating_at(rotate_bytes: u64) -> Self {
        let (dir, trace) = (tempfile::tempdir().unwrap(), Trace::default());
        let config = FileConfig { rotate_bytes, ..FileConfig::new(dir.path().join("events")) };
        let journal = Journal::new(config, Box::new(trace.clone()));
        Self { dir, trace, journal }
    }

    fn append(&mut self, lines: &str) -> Result<(), Refusal> {
        self.journal.append(event(lines).as_bytes(), &mut || true)
    }

    fn write(&self, content: &str) {
        let path = self.dir.path().join("events");
        let mut file = fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
        file.write_all(event(content).as_bytes()).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.dir.path().join(name)).unwrap().replace(beginning(), "")
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.dir.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// Lines as they begin in a file of events; tests name what follows.
fn event(lines: &str) -> String {
    lines.split_inclusive('\n').map(|line| beginning().to_owned() + line).collect()
}

fn beginning() -> &'static str {
    std::str::from_utf8(tail::BEGINNING).unwrap()
}

fn is_unknown(result: Result<(), Refusal>) -> bool {
    matches!(result, Err(Refusal::Unknown(Silence::Broker { scope: Scope::Sink, .. })))
}

fn busy(result: Result<(), Refusal>) -> String {
    match result {
        Err(Refusal::Busy { scope: Scope::Sink, reason }) => reason.to_string(),
        other => panic!("not busy: {other:?}"),
    }
}

#[test]
fn a_torn_tail_is_cut_at_start() {
    let mut bench = Bench::new();
    bench.write("a\nhal");
    bench.append("b\n").unwrap();
    assert_eq!(bench.read("events"), "a\nb\n");
}

#[test]
fn a_torn_tail_that_another_left_is_cut_before_the_next_batch() {
    let mut bench = Bench::new();
    bench.append("a\n").unwrap();
    bench.write("other\nhal");
    bench.append("b\n").unwrap();
    assert_eq!(bench.read("events"), "a\nother\nb\n");
}

/// What Postrider did not write is neither cut nor appended to, and `check` says so before it happens.
#[test]
fn a_file_of_somebody_else_is_left_as_it_is() {
    let torn = event("a\n") + "buy milk";
    for (content, said) in [
        ("buy milk", "it begins with"),
        ("buy milk\n", "it begins with"),
        ("SQLite format 3\0\u{10}", "it begins with"),
        (&torn, "it ends without a newline in something that Postrider did not write"),
    ] {
        let mut bench = Bench::new();
        fs::write(bench.dir.path().join("events"), content).unwrap();
        let reason = busy(bench.append("b\n"));
        let fault = bench.journal.probe().unwrap_err().to_string();
        for told in [reason, fault] {
            assert!(told.contains("is not a file of events") && told.contains(said), "{told}");
            assert!(told.contains("Name another file"), "{told}");
        }
        assert_eq!(fs::read_to_string(bench.dir.path().join("events")).unwrap(), content);
    }
}

#[test]
fn a_file_as_we_left_it_is_not_looked_over_again() {
    let mut bench = Bench::new();
    bench.append("a\n").unwrap();
    bench.trace.take();
    bench.append("b\n").unwrap();
    assert_eq!(bench.trace.take(), ["append", "sync"]);
}

/// SNK-01: a failed sync proves nothing, and the next one on the same file would prove nothing either.
#[test]
fn after_a_failed_sync_the_batch_is_unknown_and_the_file_is_opened_anew() {
    let mut bench = Bench::new();
    bench.append("a\n").unwrap();
    bench.trace.take();
    bench.trace.fail([Failure::Sync]);
    assert!(is_unknown(bench.append("b\n")));
    assert_eq!(bench.trace.take(), ["append", "sync", "truncate"]);
    assert_eq!(bench.read("events"), "a\n", "what cannot be trusted does not stand before what can");
    bench.append("b\n").unwrap();
    assert_eq!(bench.trace.take(), ["open", "sync_dir", "append", "sync"]);
    assert_eq!(bench.read("events"), "a\nb\n");
}

/// F8: a full disk costs nothing but time.
#[test]
fn a_full_disk_is_busy_and_nothing_stays() {
    for full in [ErrorKind::StorageFull, ErrorKind::QuotaExceeded, ErrorKind::FileTooLarge] {
        let mut bench = Bench::new();
        bench.append("a\n").unwrap();
        bench.trace.fail([Failure::Append(full)]);
        assert!(busy(bench.append("bbbb\nbbbb\n")).contains("Make room"));
        assert_eq!(bench.read("events"), "a\n");
        bench.append("b\n").unwrap();
        assert_eq!(bench.read("events"), "a\nb\n");
    }
}

/// SNK-03: bytes that could not be taken back are in doubt, and the torn one among them is cut before the next batch.
#[test]
fn a_broken_write_that_cannot_be_taken_back_is_unknown_and_mended_later() {
    for kind in [ErrorKind::StorageFull, ErrorKind::Other] {
        let mut bench = Bench::new();
        bench.trace.fail([Failure::Append(kind), Failure::Truncate]);
        assert!(is_unknown(bench.append("one\ntwo\nthree\n")));
        assert_eq!(bench.read("events"), "one\n{\"specversion", "half of it");
        bench.append("four\n").unwrap();
        assert_eq!(bench.read("events"), "one\nfour\n");
    }
}

/// SNK-03: another error than a full disk says nothing of what is on it.
#[test]
fn a_broken_write_is_unknown_even_when_it_was_taken_back() {
    let mut bench = Bench::new();
    bench.trace.fail([Failure::Append(ErrorKind::Other)]);
    assert!(is_unknown(bench.append("one\ntwo\n")));
    assert_eq!(bench.read("events"), "");
}

/// SNK-01: the name of a new file is durable before anything in it has a receipt.
#[test]
fn a_new_file_and_a_rotation_sync_the_directory() {
    let mut bench = Bench::rotating_at(8);
    bench.append("first\n").unwrap();
    assert_eq!(bench.trace.take(), ["open", "sync_dir", "append", "sync"]);
    bench.append("second\n").unwrap();
    assert_eq!(bench.trace.take(), ["sync", "rename", "sync_dir", "open", "sync_dir", "append", "sync"]);
    bench.append("a batch longer than a file\n").unwrap();
    assert_eq!(bench.names(), ["events", "events.1", "events.2"]);
    assert_eq!((bench.read("events.1"), bench.read("events.2")), ("first\n".into(), "second\n".into()));
    assert_eq!(bench.read("events"), "a batch longer than a file\n");
}

#[test]
fn a_rotation_overwrites_nothing() {
    let mut bench = Bench::rotating_at(4);
    fs::write(bench.dir.path().join("events.7"), "old\n").unwrap();
    for line in ["aaa\n", "bbb\n", "ccc\n"] {
        bench.append(line).unwrap();
    }
    assert_eq!(bench.names(), ["events", "events.7", "events.8", "events.9"]);
    assert_eq!(bench.read("events.7"), "old\n");
}

#[test]
fn what_stands_in_the_way_of_a_file_or_a_rotation_is_busy() {
    let mut bench = Bench::rotating_at(4);
    bench.trace.fail([Failure::SyncDir]);
    assert!(busy(bench.append("aaa\n")).contains("directory"));
    bench.append("aaa\n").unwrap();
    bench.trace.fail([Failure::Rename]);
    assert!(busy(bench.append("bbb\n")).contains("cannot be rotated"));
    bench.append("bbb\n").unwrap();
    assert_eq!((bench.read("events.1"), bench.read("events")), ("aaa\n".into(), "bbb\n".into()));
}

#[test]
fn a_file_that_was_moved_away_is_opened_anew() {
    let mut bench = Bench::new();
    bench.append("a\n").unwrap();
    fs::rename(bench.dir.path().join("events"), bench.dir.path().join("moved")).unwrap();
    bench.append("b\n").unwrap();
    fs::remove_file(bench.dir.path().join("events")).unwrap();
    bench.append("c\n").unwrap();
    assert_eq!((bench.read("moved"), bench.read("events")), ("a\n".into(), "c\n".into()));
}

#[test]
fn a_link_stays_and_its_target_rotates() {
    let mut bench = Bench::rotating_at(4);
    fs::write(bench.dir.path().join("target"), event("aaa\n")).unwrap();
    std::os::unix::fs::symlink("target", bench.dir.path().join("events")).unwrap();
    bench.append("bbb\n").unwrap();
    assert_eq!(bench.names(), ["events", "target", "target.1"]);
    assert_eq!((bench.read("events"), bench.read("target.1")), ("bbb\n".into(), "aaa\n".into()));
}

#[test]
fn a_batch_that_may_not_go_leaves_no_trace_and_no_lock() {
    let mut bench = Bench::new();
    bench.append("a\n").unwrap();
    assert_eq!(bench.journal.append(b"b\n", &mut || false), Err(Refusal::Withheld));
    assert_eq!(bench.read("events"), "a\n");
    File::open(bench.dir.path().join("events")).unwrap().try_lock().expect("the lock is free");
}

/// F5: what cannot be opened names the path and what to do, and nothing is created to get around it.
#[test]
fn what_cannot_be_opened_names_the_path_and_the_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let try_at = |path: &Path| {
        let mut journal = Journal::new(FileConfig::new(path), Box::new(Trace::default()));
        let reason = busy(journal.append(b"a\n", &mut || true));
        assert!(reason.contains(&path.display().to_string()), "{reason}");
        (reason, journal.probe().unwrap_err().to_string())
    };
    let (reason, fault) = try_at(&dir.path().join("missing/events"));
    assert!(
        reason.contains("Create the directory") && fault.contains("Create the directory"),
        "{reason} {fault}"
    );
    let (reason, fault) = try_at(dir.path());
    assert!(reason.contains("Name a file in it") && fault.contains("Name a file in it"), "{reason} {fault}");
    let (reason, fault) = try_at(Path::new("/dev/null"));
    assert!(
        reason.contains("not a regular file") && fault.contains("not a regular file"),
        "{reason} {fault}"
    );
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_probe_leaves_nothing_behind() {
    let mut bench = Bench::new();
    bench.journal.probe().unwrap();
    assert_eq!(bench.names(), [""; 0]);
    bench.append("a\n").unwrap();
    bench.write("hal");
    bench.journal.probe().unwrap();
    assert_eq!((bench.names(), bench.read("events")), (vec!["events".to_owned()], "a\nhal".into()));
}
