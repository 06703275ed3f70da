//! Arguments: flags, options with a number, and what is left.

use std::str::FromStr;

/// What the user typed and nobody has taken yet.
pub(crate) struct Args(Vec<String>);

impl Args {
    pub(crate) fn new(words: impl Iterator<Item = String>) -> Self {
        Self(words.collect())
    }

    /// The first word.
    pub(crate) fn command(&mut self) -> Option<String> {
        (!self.0.is_empty()).then(|| self.0.remove(0))
    }

    /// Whether the flag was given.
    pub(crate) fn flag(&mut self, name: &str) -> bool {
        let before = self.0.len();
        self.0.retain(|word| word != name);
        self.0.len() < before
    }

    /// The value behind `name`, or the default.
    pub(crate) fn option<T: FromStr>(&mut self, name: &str, default: T) -> Result<T, String> {
        let Some(at) = self.0.iter().position(|word| word == name) else { return Ok(default) };
        self.0.remove(at);
        if at == self.0.len() {
            return Err(format!("{name} needs a number"));
        }
        let value = self.0.remove(at);
        value.parse().map_err(|_| format!("{name} needs a number, not `{value}`"))
    }

    /// The only word left, if any; an unknown option or a second word is bad usage.
    pub(crate) fn last(self) -> Result<Option<String>, String> {
        if let Some(unknown) = self.0.iter().find(|word| word.starts_with('-')) {
            return Err(format!("there is no option `{unknown}` here"));
        }
        match self.0.as_slice() {
            [] => Ok(None),
            [one] => Ok(Some(one.clone())),
            [_, second, ..] => Err(format!("`{second}` is one argument too many")),
        }
    }

    /// Every word left; an unknown option is bad usage.
    pub(crate) fn words(self) -> Result<Vec<String>, String> {
        match self.0.iter().find(|word| word.starts_with('-')) {
            Some(unknown) => Err(format!("there is no option `{unknown}` here")),
            None => Ok(self.0),
        }
    }

    /// No word may be left.
    pub(crate) fn none(self) -> Result<(), String> {
        match self.last()? {
            None => Ok(()),
            Some(word) => Err(format!("`{word}` is one argument too many")),
        }
    }

    /// Everything left, for another program.
    pub(crate) fn rest(self) -> Vec<String> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &str) -> Args {
        Args::new(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn options_are_taken_wherever_they_stand() {
        let mut args = args("soak --minutes 3 --seeds 7");
        assert_eq!(args.command().as_deref(), Some("soak"));
        assert_eq!(args.option("--seeds", 1), Ok(7));
        assert_eq!(args.option("--minutes", 1), Ok(3));
        assert_eq!(args.option("--other", 9), Ok(9));
        assert_eq!(args.none(), Ok(()));
    }

    #[test]
    fn a_missing_or_odd_number_is_bad_usage() {
        assert!(args("--seeds").option("--seeds", 1).is_err());
        assert!(args("--seeds many").option("--seeds", 1).is_err());
    }

    #[test]
    fn what_nobody_takes_is_bad_usage() {
        assert!(args("one two").last().is_err());
        assert!(args("--odd").last().is_err());
        assert!(args("one").none().is_err());
        assert_eq!(args("one two").words().unwrap().len(), 2);
        assert!(args("one --odd").words().is_err());
    }
}
