//! Type names: by the convention, or free.

pub use crate::convention::{Parts, fault, parts};

/// Which names are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Names {
    /// Only those by the convention (native, Commerce).
    #[default]
    Convention,
    /// Any.
    Free,
}
