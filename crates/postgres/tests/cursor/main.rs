//! The cursor way on a real PostgreSQL.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod adoption;
mod cleaned;
mod commerce;
mod conformance;
mod harness;
mod late;
mod limits;
mod locks;
mod refusals;
mod restart;
mod retries;
mod rules;
mod wait;
mod writers;
