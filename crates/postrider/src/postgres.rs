//! PostgreSQL outboxes: append inside a transaction of the driver that you have.
//!
//! `postrider migrate` creates the outbox, or adopts yours by its layout. Each call is one round trip; the first of all also
//! looks at the table's columns. Nothing is sent anywhere: the event is a row of your transaction, and the relay publishes it
//! after the commit.
//!
//! ## tokio-postgres (feature `tokio-postgres`), also from a deadpool or bb8 pool
//! ```no_run
//! # async fn example(event: &postrider::Envelope, client: &mut tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
//! use postrider::Layout;
//! use postrider::postgres::Outbox;
//!
//! let outbox = Outbox::new(&Layout::built_in("native")?)?; // once, and shared
//!
//! let transaction = client.transaction().await?;
//! transaction.execute("insert into orders (id, total) values (7, 12)", &[]).await?;
//! outbox.append(&transaction, event).await?;
//! transaction.commit().await?;
//! # Ok(())
//! # }
//! ```
//! On a connection that lives long, [`Outbox::prepare`] saves the server the parsing of every insert.
//!
//! ## sqlx (feature `sqlx-postgres`)
#![cfg_attr(feature = "sqlx-postgres", doc = "```no_run")]
#![cfg_attr(not(feature = "sqlx-postgres"), doc = "```ignore")]
//! # use sqlx_core as sqlx;
//! # async fn example(event: &postrider::Envelope, outbox: &postrider::postgres::Outbox, pool: &sqlx_postgres::PgPool) -> Result<(), Box<dyn std::error::Error>> {
//! let mut transaction = pool.begin().await?;
//! sqlx::query::query("insert into orders (id, total) values (7, 12)").execute(&mut *transaction).await?;
//! outbox.append_sqlx(&mut transaction, event).await?;
//! transaction.commit().await?;
//! # Ok(())
//! # }
//! ```
//!
//! ## diesel-async (feature `diesel-async`)
#![cfg_attr(feature = "diesel-async", doc = "```no_run")]
#![cfg_attr(not(feature = "diesel-async"), doc = "```ignore")]
//! # async fn example(event: &postrider::Envelope, outbox: &postrider::postgres::Outbox, connection: &mut diesel_async::AsyncPgConnection) -> Result<(), Box<dyn std::error::Error>> {
//! use diesel_async::{AsyncConnection, RunQueryDsl};
//!
//! connection
//!     .transaction(async |connection| {
//!         diesel::sql_query("insert into orders (id, total) values (7, 12)").execute(connection).await?;
//!         outbox.append_diesel(connection, event).await?;
//!         Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
//!     })
//!     .await
//! #   .map_err(|error| error as Box<dyn std::error::Error>)
//! # }
//! ```
//!
//! ## sea-orm (feature `sea-orm`)
#![cfg_attr(feature = "sea-orm", doc = "```no_run")]
#![cfg_attr(not(feature = "sea-orm"), doc = "```ignore")]
//! # async fn example(event: &postrider::Envelope, outbox: &postrider::postgres::Outbox, connection: &sea_orm::DatabaseConnection) -> Result<(), Box<dyn std::error::Error>> {
//! use sea_orm::{ConnectionTrait, TransactionTrait};
//!
//! let transaction = connection.begin().await?;
//! transaction.execute_unprepared("insert into orders (id, total) values (7, 12)").await?;
//! outbox.append_sea_orm(&transaction, event).await?;
//! transaction.commit().await?;
//! # Ok(())
//! # }
//! ```
//!
//! ## Many events, and requests that come twice
//! ```no_run
//! # async fn example(events: &[postrider::Envelope], event: &postrider::Envelope, outbox: &postrider::postgres::Outbox, transaction: &tokio_postgres::Transaction<'_>) -> Result<(), Box<dyn std::error::Error>> {
//! outbox.append_all(transaction, events).await?; // one statement, in this order
//!
//! let appended = outbox.append_once(transaction, event, "request-4711").await?;
//! if appended.repeated {
//!     // This request was served before: nothing was written, and the ids are those of its event.
//! }
//! # Ok(())
//! # }
//! ```
//! Every driver has these three: `append_all_sqlx`, `append_once_diesel` and so on.

pub use postrider_postgres::*;
