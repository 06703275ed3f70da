//! The tools for MariaDB and MySQL, over real servers.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail tests")]

use postrider_servers::{
    Certificates, Door, MysqlDatabase, MysqlOptions, PrivateMysql, mariadb, mariadb10, mysql, mysql_client,
};

fn one(rows: &[Vec<Option<String>>]) -> &str {
    rows[0][0].as_deref().unwrap()
}

#[test]
fn optional_servers_are_what_they_are_called() {
    let version = |url: &str| {
        let rows = MysqlDatabase::create_blocking_on(url).query("select version()");
        one(&rows).to_owned()
    };
    assert!(version(&mariadb()).contains("MariaDB"));
    if let Some(url) = mariadb10() {
        assert!(version(&url).starts_with("10.11.") && version(&url).contains("MariaDB"));
    }
    if let Some(url) = mysql() {
        assert!(version(&url).starts_with("8.0."));
    }
}

/// The servers that there are, each of the test's own.
fn servers(options: &MysqlOptions) -> Vec<PrivateMysql> {
    [Some(PrivateMysql::mariadb_with(options)), PrivateMysql::mysql_with(options)]
        .into_iter()
        .flatten()
        .collect()
}

#[test]
fn a_killed_server_starts_again_with_what_was_committed() {
    for mut server in servers(&MysqlOptions::default()) {
        let url = server.url();
        let database = server.database();
        database.query("create table t (n int primary key); insert into t values (1)");
        let door = Door::before(&url);
        server.kill();
        assert!(database.try_query("select 1").is_err());
        server.restart();
        assert_eq!((server.url(), one(&database.query("select count(*) from t"))), (url, "1"));
        // Also where it stands still.
        server.freeze();
        server.kill();
        server.restart();
        server.freeze();
        server.thaw();
        assert_eq!(mysql_client(&door.url(&database.url()), "select n from t"), "1\n");
    }
}

#[test]
fn a_server_has_what_it_was_given() {
    let options = MysqlOptions {
        settings: vec!["innodb-autoinc-lock-mode=1".to_owned()],
        certificates: Some(Certificates::of("localhost")),
    };
    for server in servers(&options) {
        assert_eq!(one(&server.query("select @@innodb_autoinc_lock_mode")), "1");
        assert_eq!(one(&server.query("select @@ssl_cert like '%ssl-cert.pem'")), "1", "{}", server.log());
    }
}
