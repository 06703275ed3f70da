//! What the suites do not ask: appends, other people's tables, what is refused, crashes and speed.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod append;
#[path = "../common/mod.rs"]
mod common;
mod ids;
mod layouts;
mod opening;
mod poison;
mod replaced;
mod several;
