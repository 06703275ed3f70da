//! What an operator is told: what is wrong, where, and what to do.

use std::error::Error;
use std::fmt;

/// An operator-facing error. It never holds a payload or a secret.
///
/// ```
/// use postrider_core::Fault;
/// let fault = Fault::new("table outbox", "column \"payload\" is missing", "add it, or map another in the layout");
/// assert!(fault.to_string().contains("map another"));
/// ```
#[derive(Debug)]
pub struct Fault {
    /// Where: a file and line, a table, a sink.
    pub place: String,
    /// What is wrong.
    pub problem: String,
    /// What to do about it.
    pub remedy: String,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl Fault {
    /// A fault with its place and remedy.
    pub fn new(place: impl Into<String>, problem: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { place: place.into(), problem: problem.into(), remedy: remedy.into(), source: None }
    }

    /// Keeps the error underneath.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.problem)?;
        if let Some(source) = &self.source {
            write!(f, " ({source})")?;
        }
        if self.remedy.is_empty() { Ok(()) } else { write!(f, ". {}", self.remedy) }
    }
}

impl Error for Fault {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|e| e as &(dyn Error + 'static))
    }
}
