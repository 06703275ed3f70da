//! Names of tables and columns.

use std::fmt;

use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize};

/// A table's or column's name as the database has it: validated here, quoted wherever it enters SQL.
///
/// ```
/// use postrider_core::layout::Identifier;
/// let table = Identifier::new("order \"x\"").unwrap();
/// assert_eq!(table.quoted(), "\"order \"\"x\"\"\"");
/// assert!(Identifier::new("").is_err());
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Identifier(String);

/// Bytes of a name: PostgreSQL's limit, the shortest of the three databases'.
const IDENTIFIER_BYTES_MAX: usize = 63;

impl Identifier {
    /// A name that a database takes.
    ///
    /// # Errors
    /// A sentence that says why it is none.
    pub fn new(name: impl Into<String>) -> Result<Self, String> {
        let name = name.into();
        if name.is_empty() {
            return Err("a table or column needs a name".into());
        }
        if name.chars().any(char::is_control) {
            return Err("a table's or column's name holds a control character".into());
        }
        if name.len() > IDENTIFIER_BYTES_MAX {
            return Err(format!(
                "\"{name}\" is longer than {IDENTIFIER_BYTES_MAX} bytes, more than a database takes"
            ));
        }
        Ok(Self(name))
    }

    /// The bare name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name as standard SQL quotes it.
    #[must_use]
    pub fn quoted(&self) -> String {
        format!("\"{}\"", self.0.replace('"', "\"\""))
    }
}

impl fmt::Display for Identifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Identifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl<'de> Deserialize<'de> for Identifier {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}
