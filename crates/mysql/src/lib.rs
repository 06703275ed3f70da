//! The MySQL and MariaDB outbox: source, store, migrations.
//!
//! One way of claiming so far: `lease`, for status tables. Everything that runs was compiled from the layout and the live table
//! once (`sql/`), is prepared once per connection, and takes a batch, as one JSON parameter. Every time is the database's own.

mod check;
mod config;
mod fault;
mod fence;
mod fitness;
mod lease;
mod migrate;
mod rows;
mod session;
mod source;
mod sql;
mod store;
mod table;
mod tls;
mod url;

pub use check::check;
pub use config::Config;
pub use fault::is_unreachable;
pub use migrate::{migrate, migration_sql};
pub use postrider_core::finding::{Finding, Weight};
pub use source::{Hold, MysqlSource, open_source};
pub use store::{MysqlStore, open_store};
