//! Whether a file is one of events, and what a writer that died in mid-write left at its end.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// How every line of ours begins.
pub(crate) const BEGINNING: &[u8] = br#"{"specversion":"1.0","#;

/// How a file of events begins, whoever wrote it.
const FIRST: &[u8] = br#"{"specversion""#;

/// What to do about a file that is not ours.
pub(crate) const REMEDY: &str = "Name another file: this one is left as it is";

const CHUNK_BYTES: usize = 64 * 1024;

/// What a file turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Nothing, or whole lines.
    Whole,
    /// The last whole line ends here; behind it is the beginning of one of ours.
    Torn(u64),
    /// Somebody else's, and why it seems so: nothing may be cut from it nor appended to it.
    Foreign(&'static str),
}

/// Looks at a file, `len` bytes long.
pub(crate) fn look(file: &File, len: u64) -> io::Result<Found> {
    if len == 0 {
        return Ok(Found::Whole);
    }
    if !agree(&head(file, 0, len)?, FIRST) {
        return Ok(Found::Foreign("it is not a file of events: it begins with something that is none"));
    }
    let whole = last_line_end(file, len)?;
    let tail = head(file, whole, len)?;
    // A machine that lost its power may leave a length without the bytes.
    let is_hollow = whole > 0 && tail.iter().all(|byte| *byte == 0);
    Ok(if whole == len {
        Found::Whole
    } else if agree(&tail, BEGINNING) || is_hollow {
        Found::Torn(whole)
    } else {
        Found::Foreign(
            "it is not a file of events: it ends without a newline in something that Postrider did not write",
        )
    })
}

/// Whether one is the beginning of the other.
fn agree(bytes: &[u8], expected: &[u8]) -> bool {
    let shorter = bytes.len().min(expected.len());
    bytes[..shorter] == expected[..shorter]
}

/// As many bytes from here as tell our lines from others, if there are so many.
fn head(file: &File, start: u64, len: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; (len - start).min(BEGINNING.len() as u64) as usize];
    file.read_exact_at(&mut bytes, start)?;
    Ok(bytes)
}

fn last_line_end(file: &File, len: u64) -> io::Result<u64> {
    if head(file, len - 1, len)? == b"\n" {
        return Ok(len);
    }
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut end = len;
    while end > 0 {
        let start = end.saturating_sub(CHUNK_BYTES as u64);
        let bytes = &mut chunk[..(end - start) as usize];
        file.read_exact_at(bytes, start)?;
        if let Some(newline) = bytes.iter().rposition(|byte| *byte == b'\n') {
            return Ok(start + newline as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use postrider_conformance::sink::envelope;
    use postrider_core::cloudevents::structured;

    use super::*;

    fn look_at(content: &[u8]) -> Found {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        look(&file, content.len() as u64).unwrap()
    }

    #[test]
    fn what_we_write_begins_as_expected() {
        let mut line = Vec::new();
        structured::encode(&envelope("1", "a"), &mut line).unwrap();
        assert!(line.starts_with(BEGINNING), "{}", String::from_utf8_lossy(&line));
    }

    #[test]
    fn the_last_whole_line_is_found_however_long_the_torn_one_is() {
        let ours = String::from_utf8(BEGINNING.to_vec()).unwrap();
        let long = ours.clone() + &"x".repeat(3 * CHUNK_BYTES + 7);
        let two = ours.len() as u64 + 2;
        for (content, expected) in [
            (String::new(), Found::Whole),
            (format!("{ours}a\n"), Found::Whole),
            (format!("{ours}a\n{ours}b"), Found::Torn(two)),
            (format!("{ours}a\n{{"), Found::Torn(two)),
            (format!("{ours}a\n{{\"spec"), Found::Torn(two)),
            ("{\"specv".into(), Found::Torn(0)),
            (format!("{ours}a\n{long}"), Found::Torn(two)),
            (long.clone(), Found::Torn(0)),
            (format!("{long}\n\0\0"), Found::Torn(long.len() as u64 + 1)),
        ] {
            assert_eq!(look_at(content.as_bytes()), expected, "{} bytes", content.len());
        }
    }

    #[test]
    fn what_others_wrote_is_foreign() {
        let ours = String::from_utf8(BEGINNING.to_vec()).unwrap();
        for content in [
            "buy milk".to_owned(),
            "buy milk\n".to_owned(),
            "SQLite format 3\0".to_owned(),
            "\0\0".to_owned(),
            "{\"total\":1}\n".to_owned(),
            format!("buy milk\n{ours}"),
            format!("{ours}a\nbuy milk"),
            format!("{ours}a\n{{\"total\":1}}"),
            format!("{ours}a\n\n\n "),
        ] {
            assert!(matches!(look_at(content.as_bytes()), Found::Foreign(_)), "{content}");
        }
    }
}
