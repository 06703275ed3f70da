//! The cursor way on a real PostgreSQL.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod adoption;
mod commerce;
mod conformance;
mod harness;
mod late;
mod limits;
mod refusals;
mod wait;
mod writers;
