//! The PostgreSQL outbox: source, store, append, migrations.
//!
//! Three ways of claiming: `cursor` for append-only tables, `lease` and `hold` for status tables. Everything that runs was
//! compiled from the layout and the live table once (`sql/`), is prepared once per connection, and takes a batch. Every time
//! is the database's own.

mod absent;
mod append;
#[cfg(feature = "diesel-async")]
mod append_diesel;
#[cfg(feature = "sea-orm")]
mod append_sea_orm;
#[cfg(feature = "sqlx")]
mod append_sqlx;
mod check;
mod config;
mod cursor;
mod describe;
mod fault;
mod fence;
mod fitness;
mod hold;
mod hot;
mod lease;
mod lock;
mod migrate;
mod relation;
mod rows;
mod session;
mod source;
mod sql;
mod status;
mod store;
mod table;
mod tls;
mod url;
mod writer;
mod zone;

pub use append::{Outbox, Prepared, hint};
#[cfg(feature = "diesel-async")]
pub use append_diesel::DieselAppendError;
#[cfg(feature = "sea-orm")]
pub use append_sea_orm::SeaOrmAppendError;
#[cfg(feature = "sqlx")]
pub use append_sqlx::SqlxAppendError;
pub use check::check;
pub use config::Config;
pub use describe::{Described, DescribedColumn, Holds, describe};
pub use fault::is_unreachable;
#[doc(hidden)]
pub use hot::StatusStatements;
pub use lock::Locks;
pub use migrate::{migrate, migration_sql};
pub use postrider_core::Start;
pub use postrider_core::append::{AppendError, Appended};
pub use postrider_core::finding::{Finding, Weight};
pub use source::{Hold, PostgresSource, open_source};
pub use store::{PostgresStore, open_store};
pub use writer::Writer;
