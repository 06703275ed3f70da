//! `KEY=value` lines: what tests need to know of a server.

use std::path::Path;

/// Addresses and folders by the names of their variables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Env(Vec<(String, String)>);

impl Env {
    pub(crate) fn set(&mut self, key: &str, value: impl Into<String>) {
        self.0.retain(|(known, _)| known != key);
        self.0.push((key.to_owned(), value.into()));
    }

    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }

    pub(crate) fn extend(&mut self, other: &Self) {
        other.iter().for_each(|(key, value)| self.set(key, value));
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Empty lines and comments are passed over.
    pub(crate) fn parse(text: &str) -> Self {
        let mut env = Self::default();
        let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
        lines
            .filter_map(|line| line.split_once('='))
            .for_each(|(key, value)| env.set(key.trim(), value.trim()));
        env
    }

    /// What a file says, if it is there.
    pub(crate) fn read(path: &Path) -> Option<Self> {
        std::fs::read_to_string(path).ok().map(|text| Self::parse(&text))
    }

    /// At once, so that nobody reads half of it.
    pub(crate) fn write(&self, path: &Path) -> Result<(), String> {
        let lines: String = self.iter().map(|(key, value)| format!("{key}={value}\n")).collect();
        let draft = path.with_extension("draft");
        std::fs::write(&draft, lines)
            .and_then(|()| std::fs::rename(&draft, path))
            .map_err(|error| format!("cannot write {}: {error}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_with_comments_and_equal_signs_in_values() {
        let env = Env::parse("# data elsewhere\n\nA=1\n B = postgres://x/y?z=1 \nnothing\nA=2\n");
        assert_eq!(env.iter().collect::<Vec<_>>(), [("B", "postgres://x/y?z=1"), ("A", "2")]);
        assert_eq!(env.get("C"), None);
    }

    #[test]
    fn what_is_written_is_read_again() {
        let folder = std::env::temp_dir().join(format!("postrider-env-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut env = Env::default();
        env.set("A", "1");
        let mut more = Env::default();
        more.set("A", "2");
        more.set("B", "3");
        env.extend(&more);
        env.write(&folder.join("env")).unwrap();
        assert_eq!(Env::read(&folder.join("env")), Some(Env::parse("A=2\nB=3")));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
