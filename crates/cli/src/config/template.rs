//! The file that `postrider init` writes: every key, its default, and why one would change it.

/// What is left commented out is the default.
pub(crate) const TEMPLATE: &str = include_str!("template.toml");
