//! Payloads from stdin, never more of one than an event may have.

use std::io::{self, BufRead, Read};

use postrider_core::Fault;

/// All of stdin is one payload; a newline at its end is the shell's.
pub(crate) fn whole(stdin: &mut impl BufRead, bytes_max: usize) -> Result<Vec<u8>, Fault> {
    let mut payload = Vec::new();
    // One newline more than the limit is still within it.
    let most = bytes_max as u64 + 2;
    stdin.take(most + 1).read_to_end(&mut payload).map_err(unreadable)?;
    let rest =
        if payload.len() as u64 > most { io::copy(stdin, &mut io::sink()).map_err(unreadable)? } else { 0 };
    if rest == 0 {
        trim(&mut payload);
    }
    if payload.is_empty() {
        return Err(Fault::new(
            "payload",
            "it is empty",
            "Pipe one in: echo '{\"total\": 42}' | postrider append …",
        ));
    }
    within(payload, rest, bytes_max)
}

/// The next line is a payload; none at the end of stdin.
pub(crate) fn line(stdin: &mut impl BufRead, bytes_max: usize) -> Result<Option<Vec<u8>>, Fault> {
    let mut payload = Vec::new();
    let most = bytes_max as u64 + 2;
    if stdin.take(most + 1).read_until(b'\n', &mut payload).map_err(unreadable)? == 0 {
        return Ok(None);
    }
    let ended = payload.ends_with(b"\n");
    let rest = if !ended && payload.len() as u64 > most { skip_line(stdin).map_err(unreadable)? } else { 0 };
    if rest == 0 {
        trim(&mut payload);
    }
    within(payload, rest, bytes_max).map(Some)
}

fn within(payload: Vec<u8>, rest: u64, bytes_max: usize) -> Result<Vec<u8>, Fault> {
    let bytes = payload.len() as u64 + rest;
    if bytes <= bytes_max as u64 {
        return Ok(payload);
    }
    Err(Fault::new(
        "payload",
        format!("it has {bytes} bytes, the limit is {bytes_max}"),
        "Make it smaller (refer to large content instead of carrying it), or raise payload_bytes_max in [outbox] and the \
         broker's own limit",
    ))
}

/// Reads over the rest of a line; answers how long it was, without its newline.
fn skip_line(stdin: &mut impl BufRead) -> io::Result<u64> {
    let mut skipped = 0;
    loop {
        let buffer = stdin.fill_buf()?;
        if let Some(at) = buffer.iter().position(|byte| *byte == b'\n') {
            stdin.consume(at + 1);
            return Ok(skipped + at as u64);
        }
        let bytes = buffer.len();
        if bytes == 0 {
            return Ok(skipped);
        }
        stdin.consume(bytes);
        skipped += bytes as u64;
    }
}

fn trim(payload: &mut Vec<u8>) {
    for end in [b'\n', b'\r'] {
        if payload.last() == Some(&end) {
            payload.pop();
        }
    }
}

fn unreadable(error: io::Error) -> Fault {
    Fault::new("payload", format!("it cannot be read: {error}"), "Look at where stdin comes from")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_whole(text: &str, bytes_max: usize) -> Result<String, String> {
        whole(&mut text.as_bytes(), bytes_max)
            .map(|payload| String::from_utf8(payload).unwrap())
            .map_err(|fault| fault.to_string())
    }

    #[test]
    fn all_of_stdin_is_one_payload_without_the_shells_newline() {
        assert_eq!(read_whole("{}\n", 2).unwrap(), "{}");
        assert_eq!(read_whole("{}\r\n", 2).unwrap(), "{}");
        assert_eq!(read_whole("1\n2", 3).unwrap(), "1\n2");
        assert!(read_whole("\n", 2).unwrap_err().contains("empty"));
        for (text, bytes) in [("123", "3"), ("12345", "5"), ("123456", "6"), (&"x".repeat(70_000), "70000")] {
            let message = read_whole(text, 2).unwrap_err();
            assert!(message.contains(&format!("has {bytes} bytes")), "{text}: {message}");
        }
    }

    #[test]
    fn each_line_is_a_payload_and_a_long_one_is_measured_and_passed_by() {
        let text = format!("{{}}\r\n\n{}\n34\n{}", "x".repeat(70_000), "y".repeat(6));
        let mut stdin = text.as_bytes();
        let mut next = || line(&mut stdin, 2).map_err(|fault| fault.to_string());
        assert_eq!(next().unwrap().unwrap(), b"{}");
        assert_eq!(next().unwrap().unwrap(), b"");
        assert!(next().unwrap_err().contains("has 70000 bytes"));
        assert_eq!(next().unwrap().unwrap(), b"34");
        assert!(next().unwrap_err().contains("has 6 bytes"));
        assert_eq!(next().unwrap(), None);
    }
}
