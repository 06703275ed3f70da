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
