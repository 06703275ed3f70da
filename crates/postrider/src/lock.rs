//! A lock on a name, across all instances of a service (A3): exclusive, expiring by the database's clock, fenced.
//!
//! It is kept beside the outbox, in a table that `postrider migrate` creates: `sqlite::Locks`, `postgres::Locks` and
//! `mysql::Locks` have the same four verbs. Take it before your transaction begins, check it inside, release it after the commit.
//! A holder that was held up for longer than the lock's time learns it from the check, and rolls back; after a check that
//! succeeded nobody else gets the lock before your transaction has ended. [`patiently`] asks again while somebody else has it.
//!
#![cfg_attr(feature = "rusqlite", doc = "```")]
#![cfg_attr(not(feature = "rusqlite"), doc = "```ignore")]
//! use std::time::Duration;
//!
//! use postrider::Layout;
//! use postrider::sqlite::{Config, Locks, migrate};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let file = folder.path().join("shop.db");
//! let native = Layout::built_in("native")?;
//! migrate(&Config::new(&file, native.clone(), "shop"))?;
//! let locks = Locks::new(&native); // once, and shared
//! let mut connection = rusqlite::Connection::open(&file)?;
//! # connection.execute_batch("create table points (guest text, points integer); insert into points values ('g-1', 10)")?;
//!
//! let Some(held) = locks.take(&connection, "guest:g-1", "instance-7", Duration::from_secs(10))? else {
//!     return Err("somebody else serves this guest".into());
//! };
//! let transaction = connection.transaction()?;
//! if !locks.check(&transaction, &held)? {
//!     return Err("it took too long: somebody else has the lock by now".into()); // rolls back
//! }
//! transaction.execute("update points set points = points - 3 where guest = 'g-1'", [])?;
//! transaction.commit()?;
//! locks.release(&connection, &held)?;
//! # assert!(locks.take(&connection, "guest:g-1", "instance-8", Duration::from_secs(10))?.unwrap().fence > held.fence);
//! # Ok(())
//! # }
//! ```
//!
//! The same on MySQL and MariaDB, and with tokio-postgres without the `mut`:
#![cfg_attr(feature = "mysql-async", doc = "```")]
#![cfg_attr(not(feature = "mysql-async"), doc = "```ignore")]
//! use std::time::Duration;
//!
//! use mysql_async::{Conn, TxOpts};
//! use postrider::Layout;
//! use postrider::mysql::{Config, Locks, migrate};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! # let database = postrider_servers::MysqlDatabase::create_blocking();
//! # let url = database.url();
//! let native = Layout::built_in("native")?;
//! migrate(&Config::new(&url, native.clone(), "app")?).await?;
//! let locks = Locks::new(&native);
//! let mut conn = Conn::from_url(&url).await?;
//!
//! if let Some(held) = locks.take(&mut conn, "guest:g-1", "instance-7", Duration::from_secs(10)).await? {
//!     let mut transaction = conn.start_transaction(TxOpts::default()).await?;
//!     if locks.check(&mut transaction, &held).await? {
//!         // … your writes, and the event …
//!         transaction.commit().await?;
//!     } else {
//!         transaction.rollback().await?;
//!     }
//!     locks.release(&mut conn, &held).await?;
//! }
//! # conn.disconnect().await?;
//! # Ok(())
//! # })
//! # }
//! ```
//! With another driver, ask the text of `check_sql()` inside the transaction: a row means that the lock is held.

pub use postrider_core::lock::{Held, LockError, patiently};
