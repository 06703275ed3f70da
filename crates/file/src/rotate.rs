//! `events.jsonl` becomes `events.jsonl.1`, the next time `.2`, and so on: numbers only grow, nothing is overwritten.

use std::io;
use std::path::{Path, PathBuf};

/// The name that the file gets next. The caller holds the lock, so nobody else takes it meanwhile.
pub(crate) fn next_name(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().unwrap_or_default();
    let mut highest = 0;
    for entry in directory(path).read_dir()? {
        highest = highest.max(number(name.as_encoded_bytes(), entry?.file_name().as_encoded_bytes()));
    }
    let number_next = highest
        .checked_add(1)
        .ok_or_else(|| io::Error::other("the numbers are used up; move old files away"))?;
    let mut next = path.as_os_str().to_owned();
    next.push(format!(".{number_next}"));
    Ok(next.into())
}

/// The directory that holds a file.
pub(crate) fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// The number behind a rotated file's name, compressed or not; 0 when it is another file.
fn number(name: &[u8], rotated: &[u8]) -> u32 {
    let rest = rotated.strip_prefix(name).and_then(|rest| rest.strip_prefix(b"."));
    let digits = rest.and_then(|rest| rest.split(|byte| *byte == b'.').next());
    digits.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_only_grow_and_other_files_do_not_count() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events.jsonl");
        let next = || next_name(&path).unwrap().file_name().unwrap().to_str().unwrap().to_owned();
        assert_eq!(next(), "events.jsonl.1");
        for name in
            ["events.jsonl.2", "events.jsonl.10", "events.jsonl.x", "events.jsonl.11.gz", "other.jsonl.99"]
        {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        assert_eq!(next(), "events.jsonl.12", "the eleventh was compressed");
    }
}
