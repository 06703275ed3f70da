//! Paths into a payload.

use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize, Serializer};

/// A path into a JSON payload: `$.account.id`, `$.lines[0].sku`.
///
/// ```
/// use postrider_core::layout::JsonPath;
/// let path = JsonPath::parse("$.account.id").unwrap();
/// assert_eq!(path.quoted(), "$.\"account\".\"id\"");
/// assert!(JsonPath::parse("account.id").is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct JsonPath(Vec<Step>);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Step {
    Field(String),
    Index(u32),
}

impl JsonPath {
    /// Reads a path.
    ///
    /// # Errors
    /// A sentence that says what a path looks like.
    pub fn parse(text: &str) -> Result<Self, String> {
        let shown: String = text.chars().filter(|c| !c.is_control()).take(80).collect();
        let wrong = || {
            format!("\"{shown}\" is no path into the payload: write it like $.account.id or $.lines[0].sku")
        };
        let mut rest = text.strip_prefix('$').ok_or_else(wrong)?;
        let mut steps = Vec::new();
        while !rest.is_empty() {
            let (step, after) = first_step(rest).ok_or_else(wrong)?;
            steps.push(step);
            rest = after;
        }
        if steps.is_empty() { Err(wrong()) } else { Ok(Self(steps)) }
    }

    /// The path with every field quoted, as SQLite and MySQL read it.
    #[must_use]
    pub fn quoted(&self) -> String {
        let mut path = String::from("$");
        for step in &self.0 {
            match step {
                Step::Field(name) => path.push_str(&format!(".\"{name}\"")),
                Step::Index(index) => path.push_str(&format!("[{index}]")),
            }
        }
        path
    }

    /// The path's steps as text, as PostgreSQL's `#>>` takes them.
    #[must_use]
    pub fn steps(&self) -> Vec<String> {
        self.0
            .iter()
            .map(|step| match step {
                Step::Field(name) => name.clone(),
                Step::Index(index) => index.to_string(),
            })
            .collect()
    }
}

fn first_step(rest: &str) -> Option<(Step, &str)> {
    if let Some(rest) = rest.strip_prefix('[') {
        let (index, after) = rest.split_once(']')?;
        return Some((Step::Index(index.parse().ok()?), after));
    }
    let rest = rest.strip_prefix('.')?;
    let end = rest.find(['.', '[']).unwrap_or(rest.len());
    let (name, after) = rest.split_at(end);
    let plain =
        !name.is_empty() && !name.contains(|c: char| c.is_control() || matches!(c, '"' | '\\' | ']' | '\''));
    plain.then(|| (Step::Field(name.to_owned()), after))
}

impl Serialize for JsonPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.quoted().replace('"', ""))
    }
}

impl<'de> Deserialize<'de> for JsonPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn paths_are_quoted_step_by_step() {
        assert_eq!(JsonPath::parse("$.a[3].b c").unwrap().quoted(), "$.\"a\"[3].\"b c\"");
        assert_eq!(JsonPath::parse("$.a[3]").unwrap().steps(), ["a", "3"]);
    }

    /// F5: nothing that could end the quotes gets into a path.
    #[test]
    fn what_is_no_path_is_refused() {
        for text in
            ["", "$", "a", "$a", "$.", "$..a", "$.a\"b", "$.a'b", "$[x]", "$[", "$.a[1", "$.a\\b", "$[-1]"]
        {
            assert!(JsonPath::parse(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".*") {
            let _ = JsonPath::parse(&text);
        }
    }
}
