//! Data on stdout, everything else on stderr.

use std::io::{self, IsTerminal, Write};

use serde::Serialize;

use crate::config::secret::scrub;
use crate::exit::{Code, Failure};
use crate::shown::shown;

/// No line that is meant for a person is longer.
const NOTE_CHARS_MAX: usize = 4_000;

/// Writes data.
pub(crate) fn data(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(unwritable)
}

/// Writes one value as JSON, on one line.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(value).map_err(|error| {
        Failure::failed("stdout", format!("the result cannot be shown as JSON: {error}"), "Leave --json away")
    })?;
    data(&(text + "\n"))
}

/// Says something to the person at the terminal. A closed stderr is nobody listening, not a failure.
pub(crate) fn note(text: &str) {
    let lines = text.lines().map(|line| shown(scrub(line), NOTE_CHARS_MAX));
    let _ = writeln!(io::stderr(), "{}", lines.collect::<Vec<_>>().join("\n"));
}

/// Tells why a command failed, in one paragraph.
pub(crate) fn tell(failure: &Failure) {
    let Some(fault) = &failure.fault else { return };
    let text = fault.to_string();
    let stop = if text.ends_with(['.', '!', '?', '`', ':', ';']) { "" } else { "." };
    note(&format!("error: {}{stop}", one_paragraph(&text)));
}

/// Whether colours are welcome on a stream.
pub(crate) fn colours(stream: &impl IsTerminal) -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    stream.is_terminal() && !refused && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Whoever reads may stop reading (`| head`): that is no failure.
fn unwritable(error: io::Error) -> Failure {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return Failure::told(Code::Done);
    }
    Failure::failed("stdout", format!("cannot be written: {error}"), "Look at where the output goes")
}

fn one_paragraph(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
