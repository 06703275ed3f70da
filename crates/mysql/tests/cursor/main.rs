//! The cursor way on a real MariaDB, and on MySQL 8.0 where there is one.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod adoption;
#[path = "../common/mod.rs"]
mod common;
mod conformance;
mod late;
mod operator;
mod refusals;
mod restart;
mod rules;
mod scene;
mod wait;
mod writers;
mod xa;
