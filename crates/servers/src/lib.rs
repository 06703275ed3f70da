//! Real servers for tests. `cargo xtask test` brings up what they need; `cargo xtask services up` does it by hand.
//!
//! - [`postgres`], [`postgres15`], [`pgbouncer`]: where the shared servers are. Take a [`Database`] of your own on them.
//!   [`kafka`], [`redis`], [`mariadb`] and [`mysql`] are there when somebody has brought them up.
//! - [`PrivatePostgres`]: a server of the test's own, to be killed and started again.
//! - [`Door`]: stands before a server, and can be closed, cut, stalled and slowed.
#![allow(clippy::disallowed_methods, reason = "a test tool waits for real servers by the real clock")]

mod address;
mod copy;
mod database;
mod door;
mod folder;
mod keeper;
mod own_port;
mod pipe;
#[allow(dead_code, reason = "shared with xtask, which uses the rest")]
#[path = "../../../xtask/src/services/port.rs"]
mod port;
mod private;
#[allow(dead_code, reason = "shared with xtask, which uses the rest")]
#[path = "../../../xtask/src/services/process.rs"]
mod process;
mod sql;
mod url;
#[allow(dead_code, reason = "shared with xtask, which uses the rest")]
#[path = "../../../xtask/src/services/user.rs"]
mod user;
mod wait;

pub use address::{kafka, mariadb, mysql, pgbouncer, postgres, postgres15, redis};
pub use database::Database;
pub use door::Door;
pub use private::{Options, PrivatePostgres};
pub use sql::{Rows, SqlError, query};
pub use wait::until;
