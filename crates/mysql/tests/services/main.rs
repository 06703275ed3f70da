//! Services that write as the two teams' do: their own rows and the event in one transaction (A1–A3, E1, E2).
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod donation;
mod donation_service;
mod ledger;
mod ledger_service;

use postrider_core::Layout;
use postrider_mysql::{Config, migrate};
use postrider_servers::MysqlDatabase;

/// A database with a team's tables, on every server that is there.
async fn databases(layout: &Layout, tables: &str) -> Vec<MysqlDatabase> {
    let servers = [Some(postrider_servers::mariadb()), postrider_servers::mysql()];
    let mut all = Vec::new();
    for server in servers.into_iter().flatten() {
        let database = MysqlDatabase::create_blocking_on(&server);
        database.query(tables);
        let config = Config::new(&database.url(), layout.clone(), "test").unwrap();
        migrate(&config).await.unwrap();
        all.push(database);
    }
    all
}

/// The first column of every row.
fn texts(database: &MysqlDatabase, sql: &str) -> Vec<String> {
    let rows = database.query(sql);
    rows.into_iter().map(|mut row| row.swap_remove(0).unwrap_or_else(|| "NULL".into())).collect()
}

/// The only value that a query answers.
fn value(database: &MysqlDatabase, sql: &str) -> String {
    texts(database, sql).into_iter().next().unwrap_or_default()
}
