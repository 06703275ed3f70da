//! Counts tests by what the test binaries print.

/// How many tests passed and failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
}

impl Tally {
    /// Whether no test ran.
    pub(crate) fn is_empty(self) -> bool {
        self == Self::default()
    }

    /// Adds what one line of output says, if it is the closing line of a test binary.
    pub(crate) fn count(&mut self, line: &str) {
        let plain = without_colour(line);
        let Some(result) = plain.trim_start().strip_prefix("test result: ") else { return };
        self.passed += number_before(result, " passed;");
        self.failed += number_before(result, " failed;");
    }
}

fn number_before(text: &str, word: &str) -> u64 {
    text.find(word)
        .and_then(|end| text[..end].rsplit(|c: char| !c.is_ascii_digit()).next())
        .and_then(|digits| digits.parse().ok())
        .unwrap_or(0)
}

fn without_colour(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        if c == '\u{1b}' {
            chars.by_ref().find(char::is_ascii_alphabetic);
        } else {
            plain.push(c);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_over_all_test_binaries() {
        let mut tally = Tally::default();
        for line in [
            "running 12 tests",
            "test a ... ok",
            "test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s",
            "test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s",
        ] {
            tally.count(line);
        }
        assert_eq!(tally, Tally { passed: 15, failed: 2 });
    }

    #[test]
    fn colour_does_not_hide_a_result() {
        let mut tally = Tally::default();
        tally.count("test result: \u{1b}[31mFAILED\u{1b}(B\u{1b}[m. 1 passed; 4 failed; 0 ignored");
        assert_eq!(tally, Tally { passed: 1, failed: 4 });
    }
}
