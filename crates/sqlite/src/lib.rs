//! The SQLite outbox: source, store, append, migrations.
//!
//! A file in write-ahead-log mode, several processes on it, one writer at a time. Each source and each store owns one
//! connection on one thread ([`connection`]); everything they run was compiled from the layout once ([`sql`]).

mod append;
#[cfg(feature = "sqlx")]
mod append_sqlx;
mod config;
mod connection;
mod decode;
mod encode;
mod fault;
mod ids;
mod migrate;
mod run;
mod sql;

pub use append::{AppendError, Appended, Outbox};
#[cfg(feature = "sqlx")]
pub use append_sqlx::SqlxAppendError;
pub use config::{Config, Start};
pub use migrate::{migrate, migration_sql};
