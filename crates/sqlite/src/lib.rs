//! The SQLite outbox: source, store, append, migrations.
//!
//! A file in write-ahead-log mode, several processes on it, one writer at a time. Each source and each store owns one
//! connection on one thread (`connection.rs`); everything they run was compiled from the layout once (`sql/`).

mod adopt;
mod ahead;
mod append;
#[cfg(feature = "sqlx")]
mod append_sqlx;
mod check;
mod config;
mod connection;
mod cursor;
mod depth;
mod fault;
mod fence;
mod file;
mod holders;
mod ids;
mod jobs;
mod lease;
mod lock;
mod migrate;
mod open;
mod page;
mod rank;
mod reading;
mod reap;
mod reports;
mod row_ids;
mod run;
mod saved;
mod scan;
mod settling;
mod source;
mod sql;
mod store;
mod table;
mod view;

pub use append::Outbox;
#[cfg(feature = "sqlx")]
pub use append_sqlx::SqlxAppendError;
pub use check::check;
pub use config::Config;
pub use lock::Locks;
pub use migrate::{migrate, migration_sql};
pub use postrider_core::Start;
pub use postrider_core::append::{AppendError, Appended};
pub use postrider_core::finding::{Finding, Weight};
pub use source::{Hold, SqliteSource, open_source};
#[doc(hidden)]
pub use sql::{CursorStatements, LeaseStatements};
pub use store::{SqliteStore, open_store};
