//! Lines of styled text that know their width.

use std::fmt::Write;

/// How a piece of a line looks.
#[derive(Clone, Copy)]
pub(crate) enum Style {
    Plain,
    Strong,
    Faint,
    Good,
    Bad,
    Accent,
}

impl Style {
    fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Strong => "\x1b[1m",
            Self::Faint => "\x1b[2m",
            Self::Good => "\x1b[32m",
            Self::Bad => "\x1b[31m",
            Self::Accent => "\x1b[36m",
        }
    }
}

/// One line in the making.
#[derive(Default)]
pub(crate) struct Line {
    pieces: Vec<(Style, String)>,
}

impl Line {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn add(mut self, style: Style, text: impl Into<String>) -> Self {
        self.pieces.push((style, text.into()));
        self
    }

    /// Adds text and blanks behind it up to a column.
    pub(crate) fn column(self, style: Style, text: &str, end: usize) -> Self {
        let blanks = end.saturating_sub(self.width() + text.chars().count()).max(1);
        self.add(style, text).add(Style::Plain, " ".repeat(blanks))
    }

    pub(crate) fn width(&self) -> usize {
        self.pieces.iter().map(|(_, text)| text.chars().count()).sum()
    }

    /// The line as a terminal takes it, cut at a width.
    pub(crate) fn paint(&self, colours: bool, width: usize) -> String {
        let mut painted = String::new();
        let mut left = width;
        for (style, text) in &self.pieces {
            let cut: String = text.chars().take(left).collect();
            left -= cut.chars().count();
            let code = style.code();
            if colours && !code.is_empty() && !cut.is_empty() {
                let _ = write!(painted, "{code}{cut}\x1b[0m");
            } else {
                painted.push_str(&cut);
            }
        }
        painted.truncate(painted.trim_end().len());
        painted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_at_its_width_and_plain_without_colours() {
        let line = Line::new().column(Style::Good, "ärger", 8).add(Style::Faint, "later");
        assert_eq!(line.paint(false, 80), "ärger   later");
        assert_eq!(line.paint(false, 10), "ärger   la");
        assert_eq!(line.paint(true, 3), "\x1b[32märg\x1b[0m");
        assert_eq!(line.width(), 13);
    }
}
