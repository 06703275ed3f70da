//! A database with an outbox, events to append, and one way to append with each driver.

use std::collections::BTreeMap;

use diesel_async::{AsyncConnection, AsyncPgConnection, SimpleAsyncConnection};
use postrider_core::envelope::Trace;
use postrider_core::{Envelope, Layout};
use postrider_postgres::{Appended, Config, Outbox, migrate};
use postrider_servers::Database;
use sea_orm::TransactionTrait;
use sqlx_core::connection::Connection;
use sqlx_postgres::PgConnection;
use tokio_postgres::{Client, NoTls};

pub(crate) struct World {
    pub(crate) database: Database,
    pub(crate) layout: Layout,
    pub(crate) outbox: Outbox,
}

impl World {
    /// The native outbox, and a table of the application's own.
    pub(crate) async fn native() -> Self {
        let world = Self::of(
            Layout::built_in("native").unwrap(),
            "create table orders (id bigint primary key, total int)",
        )
        .await;
        world.migrate().await;
        world
    }

    /// The same on another server.
    pub(crate) async fn native_on(server: &str) -> Self {
        let layout = Layout::built_in("native").unwrap();
        let outbox = Outbox::new(&layout).unwrap();
        let world = Self { database: Database::create_on(server).await, layout, outbox };
        world.migrate().await;
        world
    }

    /// A layout over a table that the application creates.
    pub(crate) async fn of(layout: Layout, tables: &str) -> Self {
        let database = Database::create().await;
        database.query(tables);
        let outbox = Outbox::new(&layout).unwrap();
        Self { database, layout, outbox }
    }

    pub(crate) async fn migrate(&self) {
        let config = Config::new(&self.database.url(), self.layout.clone(), "test").unwrap();
        migrate(&config).await.unwrap();
    }

    pub(crate) async fn client(&self) -> Client {
        let (client, connection) = tokio_postgres::connect(&self.database.url(), NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    /// The only value that a query answers.
    pub(crate) fn value(&self, sql: &str) -> String {
        self.texts(sql).into_iter().next().unwrap_or_default()
    }

    /// The first column of every row; a NULL is shown as such.
    pub(crate) fn texts(&self, sql: &str) -> Vec<String> {
        let rows = self.database.query(sql);
        rows.into_iter().map(|mut row| row.swap_remove(0).unwrap_or_else(|| "NULL".into())).collect()
    }

    /// Appends in a transaction of its own: the first event alone, the others in one statement.
    pub(crate) async fn append(&self, driver: Driver, envelopes: &[Envelope], end: End) -> Vec<Appended> {
        let (outbox, url) = (&self.outbox, self.database.url());
        let (first, rest) = envelopes.split_first().unwrap();
        let commit = end == End::Commit;
        let mut all = Vec::new();
        match driver {
            Driver::TokioPostgres => {
                let mut client = self.client().await;
                let transaction = client.transaction().await.unwrap();
                all.push(outbox.append(&transaction, first).await.unwrap());
                all.extend(outbox.append_all(&transaction, rest).await.unwrap());
                if commit {
                    transaction.commit().await.unwrap()
                } else {
                    transaction.rollback().await.unwrap()
                }
            }
            Driver::Sqlx => {
                let mut connection = PgConnection::connect(&url).await.unwrap();
                let mut transaction = connection.begin().await.unwrap();
                all.push(outbox.append_sqlx(&mut transaction, first).await.unwrap());
                all.extend(outbox.append_all_sqlx(&mut transaction, rest).await.unwrap());
                if commit {
                    transaction.commit().await.unwrap()
                } else {
                    transaction.rollback().await.unwrap()
                }
                connection.close().await.unwrap();
            }
            Driver::Diesel => {
                let mut connection = AsyncPgConnection::establish(&url).await.unwrap();
                connection.batch_execute("begin").await.unwrap();
                all.push(outbox.append_diesel(&mut connection, first).await.unwrap());
                all.extend(outbox.append_all_diesel(&mut connection, rest).await.unwrap());
                connection.batch_execute(if commit { "commit" } else { "rollback" }).await.unwrap();
            }
            Driver::SeaOrm => {
                let connection = sea_orm::Database::connect(&url).await.unwrap();
                let transaction = connection.begin().await.unwrap();
                all.push(outbox.append_sea_orm(&transaction, first).await.unwrap());
                all.extend(outbox.append_all_sea_orm(&transaction, rest).await.unwrap());
                if commit {
                    transaction.commit().await.unwrap()
                } else {
                    transaction.rollback().await.unwrap()
                }
                connection.close().await.unwrap();
            }
        }
        all
    }

    /// Appends with an idempotency key in a transaction of its own.
    pub(crate) async fn append_once(&self, driver: Driver, envelope: &Envelope, key: &str) -> Appended {
        let (outbox, url) = (&self.outbox, self.database.url());
        match driver {
            Driver::TokioPostgres => {
                let mut client = self.client().await;
                let transaction = client.transaction().await.unwrap();
                let appended = outbox.append_once(&transaction, envelope, key).await.unwrap();
                transaction.commit().await.unwrap();
                appended
            }
            Driver::Sqlx => {
                let mut connection = PgConnection::connect(&url).await.unwrap();
                let mut transaction = connection.begin().await.unwrap();
                let appended = outbox.append_once_sqlx(&mut transaction, envelope, key).await.unwrap();
                transaction.commit().await.unwrap();
                connection.close().await.unwrap();
                appended
            }
            Driver::Diesel => {
                let mut connection = AsyncPgConnection::establish(&url).await.unwrap();
                connection
                    .transaction(async |connection| {
                        Ok::<_, diesel::result::Error>(
                            outbox.append_once_diesel(connection, envelope, key).await.unwrap(),
                        )
                    })
                    .await
                    .unwrap()
            }
            Driver::SeaOrm => {
                let connection = sea_orm::Database::connect(&url).await.unwrap();
                let transaction = connection.begin().await.unwrap();
                let appended = outbox.append_once_sea_orm(&transaction, envelope, key).await.unwrap();
                transaction.commit().await.unwrap();
                connection.close().await.unwrap();
                appended
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Driver {
    TokioPostgres,
    Sqlx,
    Diesel,
    SeaOrm,
}

impl Driver {
    pub(crate) const ALL: [Self; 4] = [Self::TokioPostgres, Self::Sqlx, Self::Diesel, Self::SeaOrm];
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Commit,
    Rollback,
}

/// An event that says no more than every table can keep.
pub(crate) fn plain(number: u32) -> Envelope {
    Envelope {
        id: id(number),
        source: "/shop".into(),
        event_type: "loopers.order.created.v1".into(),
        time: "2026-01-02T03:04:05.678901Z".parse().unwrap(),
        content_type: None,
        aggregate_type: "Order".into(),
        aggregate_id: "018f3b0c-7d4e-7abc-8def-00000000000a".into(),
        partition_key: None,
        sequence: None,
        trace: None,
        extensions: BTreeMap::new(),
        data: format!("{{\"n\": {number}, \"says\": \"\\\"naïve\\\" \\\\ and {{braces}}, 'quotes'\"}}")
            .into(),
    }
}

/// An event that has everything.
pub(crate) fn full(number: u32) -> Envelope {
    Envelope {
        partition_key: Some("customer-7".into()),
        sequence: Some(i64::from(number)),
        trace: Some(Trace {
            parent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into(),
            state: Some("vendor=1".into()),
        }),
        extensions: [("tenant".into(), "ac\"me".into())].into(),
        content_type: Some("application/json".into()),
        ..plain(number)
    }
}

pub(crate) fn id(number: u32) -> postrider_core::Text {
    format!("018f3b0c-7d4e-7abc-8def-{number:012x}").into()
}
