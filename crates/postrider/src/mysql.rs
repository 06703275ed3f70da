//! MySQL and MariaDB outboxes: append inside a transaction of the driver that you have.
//!
//! `postrider migrate` creates the outbox, or adopts yours by its layout. Each call is one round trip once its statement is
//! prepared; the first of all also looks at the table's columns. Nothing is sent anywhere: the event is a row of your
//! transaction, and the relay publishes it after the commit.
//!
//! ## mysql_async (feature `mysql-async`)
#![cfg_attr(feature = "mysql-async", doc = "```")]
#![cfg_attr(not(feature = "mysql-async"), doc = "```ignore")]
//! # use postrider::{Draft, Event, Timestamp, chance};
//! # #[derive(Event, serde::Serialize)]
//! # #[event(aggregate = "Order", key = "order_id")]
//! # #[event(type = "loopers.order.created.v1")]
//! # struct Created { order_id: u64 }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! # let database = postrider_servers::MysqlDatabase::create_blocking();
//! # database.query("create table orders (id bigint primary key, total int)");
//! # let url = database.url();
//! # let layout = postrider::Layout::built_in("native")?;
//! # postrider::mysql::migrate(&postrider::mysql::Config::new(&url, layout.clone(), "app")?).await?;
//! # let event = Draft::new(&Created { order_id: 7 }, "/shop").seal(Timestamp::now(), chance())?;
//! use mysql_async::prelude::Queryable;
//! use mysql_async::{Conn, TxOpts};
//! use postrider::Layout;
//! use postrider::mysql::Outbox;
//!
//! let outbox = Outbox::new(&Layout::built_in("native")?)?; // once, and shared
//! let mut conn = Conn::from_url(&url).await?;
//!
//! let mut transaction = conn.start_transaction(TxOpts::default()).await?;
//! transaction.query_drop("insert into orders (id, total) values (7, 12)").await?;
//! outbox.append(&mut transaction, &event).await?;
//! transaction.commit().await?;
//! # conn.disconnect().await?;
//! # let written = "select (select count(*) from orders) + (select count(*) from outbox)";
//! # assert_eq!(database.query(written), [[Some("2".to_owned())]]);
//! # Ok(())
//! # })
//! # }
//! ```
//!
//! ## sqlx (feature `sqlx-mysql`)
#![cfg_attr(feature = "sqlx-mysql", doc = "```")]
#![cfg_attr(not(feature = "sqlx-mysql"), doc = "```ignore")]
//! # use postrider::{Draft, Event, Timestamp, chance};
//! # #[derive(Event, serde::Serialize)]
//! # #[event(aggregate = "Order", key = "order_id")]
//! # #[event(type = "loopers.order.created.v1")]
//! # struct Created { order_id: u64 }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! # let database = postrider_servers::MysqlDatabase::create_blocking();
//! # database.query("create table orders (id bigint primary key, total int)");
//! # let url = database.url();
//! # let layout = postrider::Layout::built_in("native")?;
//! # postrider::mysql::migrate(&postrider::mysql::Config::new(&url, layout.clone(), "app")?).await?;
//! # let event = Draft::new(&Created { order_id: 7 }, "/shop").seal(Timestamp::now(), chance())?;
//! # use sqlx_core as sqlx;
//! # let outbox = postrider::mysql::Outbox::new(&layout)?;
//! # let pool = sqlx_mysql::MySqlPool::connect(&url).await?;
//! let mut transaction = pool.begin().await?;
//! sqlx::query::query("insert into orders (id, total) values (7, 12)").execute(&mut *transaction).await?;
//! outbox.append_sqlx(&mut transaction, &event).await?;
//! transaction.commit().await?;
//! # pool.close().await;
//! # let written = "select (select count(*) from orders) + (select count(*) from outbox)";
//! # assert_eq!(database.query(written), [[Some("2".to_owned())]]);
//! # Ok(())
//! # })
//! # }
//! ```
//!
//! ## diesel-async (feature `diesel-async-mysql`), without a client library to link
#![cfg_attr(feature = "diesel-async-mysql", doc = "```")]
#![cfg_attr(not(feature = "diesel-async-mysql"), doc = "```ignore")]
//! # use postrider::{Draft, Event, Timestamp, chance};
//! # #[derive(Event, serde::Serialize)]
//! # #[event(aggregate = "Order", key = "order_id")]
//! # #[event(type = "loopers.order.created.v1")]
//! # struct Created { order_id: u64 }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! # let database = postrider_servers::MysqlDatabase::create_blocking();
//! # database.query("create table orders (id bigint primary key, total int)");
//! # let url = database.url();
//! # let layout = postrider::Layout::built_in("native")?;
//! # postrider::mysql::migrate(&postrider::mysql::Config::new(&url, layout.clone(), "app")?).await?;
//! # let event = Draft::new(&Created { order_id: 7 }, "/shop").seal(Timestamp::now(), chance())?;
//! use diesel_async::{AsyncConnection, RunQueryDsl};
//! # let outbox = postrider::mysql::Outbox::new(&layout)?;
//! # let mut connection = diesel_async::AsyncMysqlConnection::establish(&url).await?;
//!
//! connection
//!     .transaction(async |connection| {
//!         diesel::sql_query("insert into orders (id, total) values (7, 12)").execute(connection).await?;
//!         outbox.append_diesel(connection, &event).await?;
//!         Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
//!     })
//!     .await
//! #   .map_err(|error| error as Box<dyn std::error::Error>)?;
//! # let written = "select (select count(*) from orders) + (select count(*) from outbox)";
//! # assert_eq!(database.query(written), [[Some("2".to_owned())]]);
//! # Ok(())
//! # })
//! # }
//! ```
//!
//! ## sea-orm (feature `sea-orm-mysql`)
#![cfg_attr(feature = "sea-orm-mysql", doc = "```")]
#![cfg_attr(not(feature = "sea-orm-mysql"), doc = "```ignore")]
//! # use postrider::{Draft, Event, Timestamp, chance};
//! # #[derive(Event, serde::Serialize)]
//! # #[event(aggregate = "Order", key = "order_id")]
//! # #[event(type = "loopers.order.created.v1")]
//! # struct Created { order_id: u64 }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! # let database = postrider_servers::MysqlDatabase::create_blocking();
//! # database.query("create table orders (id bigint primary key, total int)");
//! # let url = database.url();
//! # let layout = postrider::Layout::built_in("native")?;
//! # postrider::mysql::migrate(&postrider::mysql::Config::new(&url, layout.clone(), "app")?).await?;
//! # let event = Draft::new(&Created { order_id: 7 }, "/shop").seal(Timestamp::now(), chance())?;
//! use sea_orm::{ConnectionTrait, TransactionTrait};
//! # let outbox = postrider::mysql::Outbox::new(&layout)?;
//! # let connection = sea_orm::Database::connect(&url).await?;
//!
//! let transaction = connection.begin().await?;
//! transaction.execute_unprepared("insert into orders (id, total) values (7, 12)").await?;
//! outbox.append_sea_orm(&transaction, &event).await?;
//! transaction.commit().await?;
//! # connection.close().await?;
//! # let written = "select (select count(*) from orders) + (select count(*) from outbox)";
//! # assert_eq!(database.query(written), [[Some("2".to_owned())]]);
//! # Ok(())
//! # })
//! # }
//! ```
//!
//! ## Many events, and requests that come twice
#![cfg_attr(feature = "mysql-async", doc = "```")]
#![cfg_attr(not(feature = "mysql-async"), doc = "```ignore")]
//! # use postrider::{Draft, Event, Timestamp, chance};
//! # #[derive(Event, serde::Serialize)]
//! # #[event(aggregate = "Order", key = "order_id")]
//! # #[event(type = "loopers.order.created.v1")]
//! # struct Created { order_id: u64 }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! # let database = postrider_servers::MysqlDatabase::create_blocking();
//! # database.query("create table orders (id bigint primary key, total int)");
//! # let url = database.url();
//! # let layout = postrider::Layout::built_in("native")?;
//! # postrider::mysql::migrate(&postrider::mysql::Config::new(&url, layout.clone(), "app")?).await?;
//! # let event = Draft::new(&Created { order_id: 7 }, "/shop").seal(Timestamp::now(), chance())?;
//! # use mysql_async::prelude::Queryable;
//! # let outbox = postrider::mysql::Outbox::new(&layout)?;
//! # let mut conn = mysql_async::Conn::from_url(&url).await?;
//! # let mut transaction = conn.start_transaction(mysql_async::TxOpts::default()).await?;
//! # let events = [Draft::new(&Created { order_id: 8 }, "/shop").seal(Timestamp::now(), chance())?];
//! outbox.append_all(&mut transaction, &events).await?; // one statement, in this order
//!
//! let appended = outbox.append_once(&mut transaction, &event, "request-4711").await?;
//! if appended.repeated {
//!     // This request was served before: nothing was written, and the ids are those of its event.
//! }
//! # assert!(!appended.repeated);
//! # assert!(outbox.append_once(&mut transaction, &event, "request-4711").await?.repeated);
//! # transaction.commit().await?;
//! # conn.disconnect().await?;
//! # let written = "select (select count(*) from orders) + (select count(*) from outbox)";
//! # assert_eq!(database.query(written), [[Some("2".to_owned())]]);
//! # Ok(())
//! # })
//! # }
//! ```
//! Every driver has these three: `append_all_sqlx`, `append_once_diesel` and so on.

pub use postrider_mysql::*;
