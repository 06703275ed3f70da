//! The two teams' own tables, as their requirements have them.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

/// Each of these on MariaDB, and on MySQL 8.0 where there is one: functions of a harness, with a layout and its tables.
macro_rules! on_each_server {
    ($layout:expr, $tables:expr, [$($name:ident),* $(,)?]) => {
        mod on_mariadb {
            use super::*;
            $(#[test] fn $name() { super::$name(&Harness::new($layout, $tables)); })*
        }
        mod on_mysql {
            use super::*;
            $(#[test] fn $name() {
                let Some(server) = postrider_servers::mysql() else { return };
                super::$name(&Harness::on(&server, $layout, $tables));
            })*
        }
    };
}

mod as_it_is;
#[path = "../common/mod.rs"]
mod common;
mod donation;
mod ledger;
mod locks;
mod refusals;
mod zones;
