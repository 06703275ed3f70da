//! What stays in order together.

use std::fmt;

use crate::Text;
use crate::text::owned;

/// Events of one key are published in order. By default it is the aggregate: its type scopes its id.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Tells apart equal ids of different things (the aggregate type); empty when the id stands alone.
    pub scope: Text,
    /// The text that a broker partitions by.
    pub id: Text,
}

impl Key {
    /// A key within a scope.
    pub fn new(scope: impl Into<Text>, id: impl Into<Text>) -> Self {
        Self { scope: scope.into(), id: id.into() }
    }

    /// A copy that keeps no batch alive.
    #[must_use]
    pub fn owned(&self) -> Self {
        Self { scope: owned(&self.scope), id: owned(&self.id) }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.scope.is_empty() { f.write_str(&self.id) } else { write!(f, "{}/{}", self.scope, self.id) }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
