//! What operators see and do on PostgreSQL: the store without a relay beside it, and `check`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod check_columns;
mod check_domains;
mod check_opening;
mod check_rights;
mod check_server;
mod check_words;
mod chores;
mod cursor;
mod partitions;
mod status;
mod world;
