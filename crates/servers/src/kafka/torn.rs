//! A partition's log on disk that has lost its end, as after a crash of the machine.

use std::fs::{self, OpenOptions};
use std::path::Path;

/// What stands before the bytes that a batch's length counts: its first offset, and that length.
const FRAME_BYTES: usize = 12;

/// Cuts the last batch off a partition's log, and removes what the broker has noted of it elsewhere. The broker must not run.
pub(crate) fn lose_last_batch(partition: &Path) {
    let files: Vec<_> = fs::read_dir(partition)
        .unwrap_or_else(|error| panic!("cannot read {}: {error}", partition.display()))
        .flatten()
        .map(|entry| entry.path())
        .collect();
    let with = |extension: &str| {
        let mut found: Vec<_> =
            files.iter().filter(|path| path.extension().is_some_and(|known| known == extension)).collect();
        found.sort();
        found
    };
    let log = with("log").pop().expect("a partition has a log");
    let bytes = fs::read(log).expect("a log can be read");
    let (mut last, mut next) = (0, 0);
    while let Some(length) = bytes.get(next + 8..next + FRAME_BYTES).and_then(|part| part.try_into().ok()) {
        let length = u32::from_be_bytes(length) as usize;
        // Behind its end a log may be full of zeros.
        if length == 0 {
            break;
        }
        (last, next) = (next, next + FRAME_BYTES + length);
    }
    assert!(next > 0, "{} holds a batch", log.display());
    OpenOptions::new()
        .write(true)
        .open(log)
        .and_then(|file| file.set_len(last as u64))
        .expect("a log can be cut");
    for snapshot in with("snapshot") {
        fs::remove_file(snapshot).expect("a snapshot can be removed");
    }
}
