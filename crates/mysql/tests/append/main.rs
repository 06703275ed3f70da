//! Appending inside the caller's own transaction, on real servers, with every driver and from any language.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod any_language;
mod drivers;
mod numbers;
mod once;
mod procedure;
mod refusals;
mod tables;
mod world;
