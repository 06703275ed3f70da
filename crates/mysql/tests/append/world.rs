//! A database with an outbox, events to append, and one way to append with each driver.

use std::collections::BTreeMap;

use diesel_async::{AsyncConnection, AsyncMysqlConnection, SimpleAsyncConnection};
use mysql_async::{Conn, TxOpts};
use postrider_core::envelope::Trace;
use postrider_core::{Envelope, Layout};
use postrider_mysql::{Appended, Config, Outbox, migrate};
use postrider_servers::MysqlDatabase;
use sea_orm::TransactionTrait;
use sqlx_core::connection::Connection;
use sqlx_mysql::MySqlConnection;

pub(crate) struct World {
    pub(crate) database: MysqlDatabase,
    pub(crate) layout: Layout,
    pub(crate) outbox: Outbox,
}

impl World {
    /// The native outbox, and a table of the application's own, on every server that is there.
    pub(crate) async fn native() -> Vec<Self> {
        let orders = "create table orders (id bigint primary key, total int)";
        let worlds = Self::of(&Layout::built_in("native").unwrap(), orders);
        for world in &worlds {
            world.migrate().await;
        }
        worlds
    }

    /// A layout over a table that the application creates.
    pub(crate) fn of(layout: &Layout, tables: &str) -> Vec<Self> {
        let servers = [Some(postrider_servers::mariadb()), postrider_servers::mysql()];
        let world = |server: String| {
            let database = MysqlDatabase::create_blocking_on(&server);
            database.query(tables);
            Self { database, layout: layout.clone(), outbox: Outbox::new(layout).unwrap() }
        };
        servers.into_iter().flatten().map(world).collect()
    }

    pub(crate) async fn migrate(&self) -> Vec<String> {
        let config = Config::new(&self.database.url(), self.layout.clone(), "test").unwrap();
        migrate(&config).await.unwrap()
    }

    pub(crate) async fn conn(&self) -> Conn {
        Conn::from_url(self.database.url()).await.unwrap()
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
            Driver::MysqlAsync => {
                let mut conn = self.conn().await;
                let mut transaction = conn.start_transaction(TxOpts::default()).await.unwrap();
                all.push(outbox.append(&mut transaction, first).await.unwrap());
                all.extend(outbox.append_all(&mut transaction, rest).await.unwrap());
                if commit {
                    transaction.commit().await.unwrap()
                } else {
                    transaction.rollback().await.unwrap()
                }
                conn.disconnect().await.unwrap();
            }
            Driver::Sqlx => {
                let mut connection = MySqlConnection::connect(&url).await.unwrap();
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
                let mut connection = AsyncMysqlConnection::establish(&url).await.unwrap();
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
            Driver::MysqlAsync => {
                let mut conn = self.conn().await;
                let mut transaction = conn.start_transaction(TxOpts::default()).await.unwrap();
                let appended = outbox.append_once(&mut transaction, envelope, key).await.unwrap();
                transaction.commit().await.unwrap();
                conn.disconnect().await.unwrap();
                appended
            }
            Driver::Sqlx => {
                let mut connection = MySqlConnection::connect(&url).await.unwrap();
                let mut transaction = connection.begin().await.unwrap();
                let appended = outbox.append_once_sqlx(&mut transaction, envelope, key).await.unwrap();
                transaction.commit().await.unwrap();
                connection.close().await.unwrap();
                appended
            }
            Driver::Diesel => {
                let mut connection = AsyncMysqlConnection::establish(&url).await.unwrap();
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
    MysqlAsync,
    Sqlx,
    Diesel,
    SeaOrm,
}

impl Driver {
    pub(crate) const ALL: [Self; 4] = [Self::MysqlAsync, Self::Sqlx, Self::Diesel, Self::SeaOrm];
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
        aggregate_id: "4711".into(),
        partition_key: None,
        sequence: None,
        trace: None,
        extensions: BTreeMap::new(),
        data: format!(
            "{{\"n\": {number}, \"says\": \"\\\"naïve\\\" 😀 \\\\ and {{braces}}, 'quotes', ?\", \"amount\": 1.50}}"
        )
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
