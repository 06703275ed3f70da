//! The two teams' own tables, as their requirements have them.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../common/mod.rs"]
mod common;
mod donation;
mod ledger;
mod locks;
mod refusals;
