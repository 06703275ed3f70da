//! Lines to stdout: flushed is received.

use std::io::{self, ErrorKind, Write};

use postrider_core::{Fault, Refusal, point};

use crate::refusal;
use crate::writer::Place;

/// Anything that takes lines and keeps no file; stdout, in practice.
pub(crate) struct Stream<W> {
    out: W,
    /// A write broke off in the middle of a line, which must not swallow the next one.
    torn: bool,
}

impl<W: Write + Send + 'static> Stream<W> {
    pub(crate) fn new(out: W) -> Self {
        Self { out, torn: false }
    }
}

impl<W: Write + Send + 'static> Place for Stream<W> {
    fn append(&mut self, lines: &[u8], go: &mut dyn FnMut() -> bool) -> Result<(), Refusal> {
        if !go() {
            return Err(Refusal::Withheld);
        }
        let mut written = 0;
        let done = self.mend().and_then(|()| write(&mut self.out, lines, &mut written));
        if let Err(error) = done {
            self.torn |= written > 0;
            return Err(if written == 0 {
                refusal::busy("stdout", "it takes nothing", &error)
            } else {
                refusal::unknown("stdout", "a write broke off", &error)
            });
        }
        point::pass("file.written");
        Ok(())
    }

    fn probe(&mut self) -> Result<(), Fault> {
        self.out.flush().map_err(|error| {
            Fault::new("stdout", "it takes nothing", "Start its reader, or send it to a file.")
                .caused_by(error)
        })
    }

    fn close(&mut self) {}
}

impl<W: Write> Stream<W> {
    fn mend(&mut self) -> io::Result<()> {
        if self.torn {
            self.out.write_all(b"\n")?;
            self.torn = false;
        }
        Ok(())
    }
}

/// `write_all`, but it says how far it came.
fn write(out: &mut impl Write, lines: &[u8], written: &mut usize) -> io::Result<()> {
    while *written < lines.len() {
        match out.write(&lines[*written..]) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(bytes) => *written += bytes,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;

    use super::*;

    fn append<W: Write + Send + 'static>(stream: &mut Stream<W>, lines: &str) -> Result<(), Refusal> {
        stream.append(lines.as_bytes(), &mut || true)
    }

    /// A closed pipe takes nothing, and a new reader does.
    #[test]
    fn a_closed_pipe_is_busy() {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let refused = append(&mut Stream::new(writer), "a\n");
        assert!(matches!(refused, Err(Refusal::Busy { .. })), "{refused:?}");
    }

    #[test]
    fn a_full_device_is_busy() {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let refused = append(&mut Stream::new(full), "a\n");
        assert!(refused.unwrap_err().reason().to_string().contains("Make room"));
    }

    /// Takes three bytes at a time, until it takes no more; then all again.
    struct Moody {
        left: usize,
        written: Vec<u8>,
    }

    impl Write for Moody {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.left == 0 {
                self.left = usize::MAX;
                return Err(ErrorKind::BrokenPipe.into());
            }
            let taken = bytes.len().min(3).min(self.left);
            self.left -= taken;
            self.written.extend_from_slice(&bytes[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// SNK-03: what may have been read is in doubt, and a torn line does not swallow the next one.
    #[test]
    fn a_write_that_broke_off_is_unknown_and_its_torn_line_is_ended() {
        let mut stream = Stream::new(Moody { left: 8, written: Vec::new() });
        assert!(matches!(append(&mut stream, "first\nsecond\n"), Err(Refusal::Unknown(_))));
        append(&mut stream, "third\n").unwrap();
        assert_eq!(std::str::from_utf8(&stream.out.written).unwrap(), "first\nse\nthird\n");
    }
}
