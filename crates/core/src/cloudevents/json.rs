//! JSON that passes through: checked and put on one line, never parsed into values.

use memchr::memchr2;
use serde::de::IgnoredAny;

/// Says where the data stops being JSON, without quoting it.
pub(crate) fn check(data: &[u8]) -> Result<(), String> {
    let text =
        std::str::from_utf8(data).map_err(|error| format!("byte {} is not UTF-8", error.valid_up_to()))?;
    serde_json::from_str::<IgnoredAny>(text).map(drop).map_err(|error| place(&error))
}

/// Where reading failed. serde's own message may quote what it read.
pub(super) fn place(error: &serde_json::Error) -> String {
    let what = if error.is_eof() { "it ends too early, at" } else { "it breaks off at" };
    format!("{what} line {} column {}", error.line(), error.column())
}

/// Appends JSON on one line: between tokens a line break is as good as a space, and inside a string there is none.
pub(super) fn append_on_one_line(data: &[u8], out: &mut Vec<u8>) {
    let mut rest = data;
    while let Some(at) = memchr2(b'\n', b'\r', rest) {
        out.extend_from_slice(&rest[..at]);
        out.push(b' ');
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}
