//! The servers' own command-line client, as somebody at a terminal has it.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::mysql_node::{MARIADB_BASE, MYSQL_BASE};
use crate::{address, mysql_database, url};

/// Types SQL into `mariadb` or `mysql`, as the server has it; answers what it prints, without a heading. Panics with its
/// complaint. Blocks the thread.
#[must_use]
pub fn mysql_client(server: &str, sql: &str) -> String {
    let version = mysql_database::query(server, "select version()").unwrap_or_else(|error| panic!("{error}"));
    let is_mariadb = version[0][0].as_ref().is_some_and(|version| version.contains("MariaDB"));
    let (program, tls) = if is_mariadb {
        (PathBuf::from(address::needed(MARIADB_BASE)).join("bin/mariadb"), "--skip-ssl")
    } else {
        (PathBuf::from(address::needed(MYSQL_BASE)).join("bin/mysql"), "--ssl-mode=DISABLED")
    };
    let (login, database) = (url::login(server), url::database(server));
    let (host, port) = url::place(server).split_once(':').unwrap_or((url::place(server), "3306"));
    let (user, password) = login.split_once(':').unwrap_or((login, ""));
    let mut client = Command::new(program);
    client.args(["--no-defaults", "--batch", "--skip-column-names", "--protocol=TCP", tls]);
    client.args(["-h", host, "-P", port, "-u", user, "-e", sql, database]);
    let done = client.env("MYSQL_PWD", password).stdin(Stdio::null()).output().expect("the client starts");
    assert!(done.status.success(), "{}, of: {sql}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).into_owned()
}
