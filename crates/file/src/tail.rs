//! What a writer that died in mid-write left at the end.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

const CHUNK_BYTES: usize = 64 * 1024;

/// Where the last whole line ends when the file, `len` bytes long, does not end with one.
pub(crate) fn torn_at(file: &File, len: u64) -> io::Result<Option<u64>> {
    if len == 0 || last_byte(file, len)? == b'\n' {
        return Ok(None);
    }
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut end = len;
    while end > 0 {
        let start = end.saturating_sub(CHUNK_BYTES as u64);
        let bytes = &mut chunk[..(end - start) as usize];
        file.read_exact_at(bytes, start)?;
        if let Some(newline) = bytes.iter().rposition(|byte| *byte == b'\n') {
            return Ok(Some(start + newline as u64 + 1));
        }
        end = start;
    }
    Ok(Some(0))
}

fn last_byte(file: &File, len: u64) -> io::Result<u8> {
    let mut byte = [0];
    file.read_exact_at(&mut byte, len - 1)?;
    Ok(byte[0])
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn the_last_whole_line_is_found_however_long_the_torn_one_is() {
        let long = "x".repeat(3 * CHUNK_BYTES + 7);
        for (content, expected) in [
            (String::new(), None),
            ("a\n".into(), None),
            ("a\nb".into(), Some(2)),
            ("torn".into(), Some(0)),
            (format!("a\n{long}"), Some(2)),
            (long.clone(), Some(0)),
            (format!("{long}\n\0\0"), Some(long.len() as u64 + 1)),
        ] {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(content.as_bytes()).unwrap();
            assert_eq!(torn_at(&file, content.len() as u64).unwrap(), expected, "{} bytes", content.len());
        }
    }
}
