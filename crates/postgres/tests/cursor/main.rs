//! The cursor way on a real PostgreSQL.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod conformance;
mod harness;
mod store;
