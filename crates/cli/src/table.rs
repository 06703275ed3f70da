//! Columns that line up, of text that may come from anywhere.

use crate::shown::{CELL_CHARS_MAX, VALUE_CHARS_MAX, shown};

/// Lays rows out under their headings.
pub(crate) fn table<const N: usize>(headings: [&str; N], rows: &[[String; N]]) -> String {
    let rows: Vec<[String; N]> =
        rows.iter().map(|row| row.each_ref().map(|cell| shown(cell, CELL_CHARS_MAX))).collect();
    let mut widths = headings.map(|heading| heading.chars().count());
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = line(&headings.map(str::to_owned), &widths);
    for row in &rows {
        text.push_str(&line(row, &widths));
    }
    text
}

/// Name and value, one pair a line.
pub(crate) fn pairs(pairs: &[(&str, String)]) -> String {
    let width = pairs.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    pairs.iter().map(|(name, value)| format!("{name:width$}  {}\n", shown(value, VALUE_CHARS_MAX))).collect()
}

fn line<const N: usize>(cells: &[String; N], widths: &[usize; N]) -> String {
    let mut line = String::new();
    for (cell, width) in cells.iter().zip(widths) {
        line.push_str(&format!("{cell:width$}  "));
    }
    line.truncate(line.trim_end().len());
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_no_line_ends_in_blanks() {
        let rows = [["1".to_owned(), "größer".to_owned()], ["1000".to_owned(), String::new()]];
        assert_eq!(table(["ID", "TYPE"], &rows), "ID    TYPE\n1     größer\n1000\n");
        assert_eq!(pairs(&[("a", "1".into()), ("bcd", "2".into())]), "a    1\nbcd  2\n");
    }

    /// One entry is one line, whatever its type says.
    #[test]
    fn a_cell_neither_paints_nor_breaks_the_line() {
        let rows = [["\u{1b}[31mred\nfake".to_owned(), "x".repeat(3_000)]];
        let text = table(["TYPE", "KEY"], &rows);
        assert_eq!(text.lines().count(), 2);
        assert!(!text.contains('\u{1b}') && text.contains("\\u{1b}[31mred\\nfake"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() < 200), "{text}");
        let text = pairs(&[("type", "\u{1b}[31m\nfake".into())]);
        assert_eq!(text, "type  \\u{1b}[31m\\nfake\n");
    }
}
