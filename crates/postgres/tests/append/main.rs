//! Appending inside the caller's own transaction, on a real server, with every driver and from any language.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod any_language;
mod drivers;
mod function;
mod odd_columns;
mod once;
mod refusals;
mod tables;
mod world;
