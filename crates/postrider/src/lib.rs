//! Append events to an outbox inside your own transaction.
//!
//! An event is a plain type of your domain. The derive gives each variant the name that consumers know it by; a
//! variant without one does not compile, nor does a name off the convention `company.domain.action.v1`.
//!
#![cfg_attr(feature = "rusqlite", doc = "```")]
#![cfg_attr(not(feature = "rusqlite"), doc = "```ignore")]
//! use postrider::sqlite::{Config, Outbox, migrate};
//! use postrider::{Draft, Event, Layout, Timestamp, chance};
//!
//! #[derive(Event, serde::Serialize)]
//! #[event(aggregate = "Order", key = "order_id")]
//! #[serde(untagged)]
//! enum OrderEvent {
//!     #[event(type = "loopers.order.created.v1")]
//!     Created { order_id: u64, total: u64 },
//!     #[event(type = "loopers.order.paid.v1")]
//!     Paid { order_id: u64 },
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let file = folder.path().join("shop.db");
//! let native = Layout::built_in("native")?;
//! migrate(&Config::new(&file, native.clone(), "shop"))?;
//! let outbox = Outbox::new(&native)?;
//! let mut connection = rusqlite::Connection::open(&file)?;
//! # connection.execute_batch("create table orders (id integer primary key, total integer)")?;
//!
//! let transaction = connection.transaction()?;
//! transaction.execute("insert into orders (id, total) values (7, 12)", [])?;
//! let created = OrderEvent::Created { order_id: 7, total: 12 };
//! outbox.append(&transaction, &Draft::new(&created, "/shop").seal(Timestamp::now(), chance())?)?;
//! transaction.commit()?;
//! # let count: i64 = connection.query_row("select count(*) from outbox", [], |row| row.get(0))?;
//! # assert_eq!(count, 1);
//! # Ok(())
//! # }
//! ```
//!
//! The order and its event are there together or not at all; the relay (`postrider run`) does the rest. The enum is
//! `#[serde(untagged)]` because the type name already tells the variants apart: the payload is the fact alone.
//!
//! | feature | gives |
//! |---|---|
//! | `rusqlite` (default) | `sqlite::Outbox`, in a rusqlite transaction |
//! | `sqlx-sqlite` | the same in an sqlx transaction |
//! | `tokio-postgres` | `postgres::Outbox`, in a tokio-postgres transaction |
//! | `sqlx-postgres`, `diesel-async`, `sea-orm` | the same in a transaction of theirs |
//! | `mysql-async` | `mysql::Outbox`, in a mysql_async transaction on MySQL or MariaDB |
//! | `sqlx-mysql`, `diesel-async-mysql`, `sea-orm-mysql` | the same in a transaction of theirs |
//! | `relay` | [`relay::Relay`]: the engine of `postrider run` as a task of your service, and the file sink |
//! | `kafka` | the same with `kafka::KafkaSink`; without it no broker client is pulled in |

mod chance;
pub mod lock;
#[cfg(feature = "mysql-async")]
pub mod mysql;
#[cfg(feature = "tokio-postgres")]
pub mod postgres;

pub use chance::chance;
pub use jiff::Timestamp;
pub use postrider_core::envelope::Trace;
pub use postrider_core::{Draft, Envelope, Event, Fault, Key, Layout, Names, Text, cloudevents, limits};
pub use postrider_derive::Event;
#[cfg(feature = "relay")]
pub use postrider_file as file;
#[cfg(feature = "kafka")]
pub use postrider_kafka as kafka;
#[cfg(feature = "relay")]
pub use postrider_relay as relay;
#[cfg(feature = "rusqlite")]
pub use postrider_sqlite as sqlite;
