//! Real servers for tests. `cargo xtask test` brings up what they need; `cargo xtask services up` does it by hand.
//!
//! - [`postgres`], [`postgres15`], [`pgbouncer`], [`mariadb`], [`mariadb10`], [`mysql`], [`kafka`]: where the shared servers are. Take a
//!   [`Database`] or a [`MysqlDatabase`] of your own on them, or a `Topic` (by the feature `kafka`). [`redis`] is there when
//!   somebody has brought it up.
//! - [`PrivatePostgres`]: a server of the test's own, to be killed and started again.
//! - [`PrivateMysql`]: the same of MariaDB and MySQL, also to be frozen. [`mysql_client`] types SQL into their own client.
//! - [`PrivateKafka`]: a cluster of the test's own, to be killed, frozen, cut off and started again.
//! - `MockKafka` (by the feature `kafka`): says what no real broker can be brought to say.
//! - [`Door`]: stands before a server, and can be closed, cut, stalled and slowed.
#![allow(clippy::disallowed_methods, reason = "a test tool waits for real servers by the real clock")]

mod address;
#[cfg(feature = "kafka")]
mod admin;
mod certificates;
mod copy;
mod database;
mod door;
mod folder;
mod freeze;
mod kafka;
#[path = "../../../xtask/src/services/kafka_node.rs"]
mod kafka_node;
mod keeper;
#[cfg(feature = "kafka")]
mod mock;
mod mysql_client;
mod mysql_database;
#[allow(dead_code, reason = "shared with xtask, which uses the rest")]
#[path = "../../../xtask/src/services/mysql_node.rs"]
mod mysql_node;
mod own_port;
mod pipe;
#[allow(dead_code, reason = "shared with xtask, which uses the rest")]
#[path = "../../../xtask/src/services/port.rs"]
mod port;
mod private;
mod private_mysql;
#[allow(dead_code, reason = "shared with xtask, which uses the rest")]
#[path = "../../../xtask/src/services/process.rs"]
mod process;
mod sql;
#[cfg(feature = "kafka")]
mod topic;
mod url;
#[allow(dead_code, reason = "shared with xtask, which uses the rest")]
#[path = "../../../xtask/src/services/user.rs"]
mod user;
mod wait;

pub use address::{kafka, mariadb, mariadb10, mysql, pgbouncer, postgres, postgres15, redis};
pub use certificates::Certificates;
pub use database::Database;
pub use door::Door;
pub use kafka::{KafkaListener, KafkaOptions, PrivateKafka, kafka_tool};
#[cfg(feature = "kafka")]
pub use mock::{MockKafka, Request};
pub use mysql_client::mysql_client;
pub use mysql_database::MysqlDatabase;
pub use private::{Options, PrivatePostgres};
pub use private_mysql::{MysqlOptions, PrivateMysql};
#[cfg(feature = "kafka")]
pub use rdkafka::types::RDKafkaErrorCode as KafkaCode;
pub use sql::{Rows, SqlError, query};
#[cfg(feature = "kafka")]
pub use topic::{Partition, Record, Topic, topic_name};
pub use wait::until;
