//! What others wrote, as it may be shown: an event's type must not paint the terminal nor forge a line of a log.

use std::fmt::Write;

/// In a cell of a table.
pub(crate) const CELL_CHARS_MAX: usize = 120;
/// In a line of the log.
pub(crate) const LOG_CHARS_MAX: usize = 200;
/// Where one thing is shown by itself: more than a reason has.
pub(crate) const VALUE_CHARS_MAX: usize = 1_000;

/// Control signs escaped, and no more than so many characters of it.
pub(crate) fn shown(text: impl std::fmt::Display, chars_max: usize) -> String {
    let text = text.to_string();
    let mut shown = String::with_capacity(text.len().min(4 * chars_max));
    for (index, sign) in text.chars().enumerate() {
        if index == chars_max {
            shown.push('…');
            break;
        }
        if is_unseen(sign) {
            // Writing to a string does not fail.
            let _ = write!(shown, "{}", sign.escape_default());
        } else {
            shown.push(sign);
        }
    }
    shown
}

/// What a log may say of it.
pub(crate) fn logged(text: impl std::fmt::Display) -> String {
    shown(text, LOG_CHARS_MAX)
}

/// Control signs, and those that turn or hide what stands beside them.
fn is_unseen(sign: char) -> bool {
    sign.is_control()
        || matches!(sign, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_is_escaped_and_cut() {
        assert_eq!(shown("größer 注文", 20), "größer 注文");
        assert_eq!(shown("a\u{1b}[31mb\nc\r\t\0", 20), "a\\u{1b}[31mb\\nc\\r\\t\\u{0}");
        assert_eq!(shown("\u{202e}\u{9b}", 20), "\\u{202e}\\u{9b}");
        assert_eq!(shown("x".repeat(3_000), 120).chars().count(), 121);
        assert_eq!(shown("x".repeat(120), 120).chars().count(), 120);
    }
}
