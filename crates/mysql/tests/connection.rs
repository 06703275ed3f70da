//! TLS, logins and rights, over real servers that take nothing else.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use postrider_core::{Fault, Layout};
use postrider_mysql::{Config, is_unreachable, migrate, open_source};
use postrider_servers::{Certificates, MysqlDatabase, MysqlOptions, PrivateMysql};

const LEDGER: &str = "create table outbox_event (
    id bigint auto_increment primary key, aggregate_type varchar(50) not null, aggregate_id bigint not null,
    event_type varchar(100) not null, payload json not null, status varchar(20) not null default 'PENDING',
    retry_count int not null default 0, created_at datetime(6) not null, processed_at datetime(6))";

fn config(url: &str) -> Config {
    Config::new(url, Layout::built_in("ledger").unwrap(), "relay").unwrap()
}

fn connects(url: &str) -> Result<(), Fault> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { migrate(&config(url)).await.map(drop) })
}

/// The servers that there are, each with a certificate, a database and a user who may only come by TLS.
fn servers(certificates: &Certificates) -> Vec<(PrivateMysql, MysqlDatabase)> {
    let options = MysqlOptions { certificates: Some(certificates.clone()), ..MysqlOptions::default() };
    let servers = [Some(PrivateMysql::mariadb_with(&options)), PrivateMysql::mysql_with(&options)];
    let prepared = |server: PrivateMysql| {
        let database = server.database();
        database.query(LEDGER);
        server.query(&format!(
            "create user app identified by 'hunter2' require ssl; grant all on {}.* to app",
            database.name()
        ));
        (server, database)
    };
    servers.into_iter().flatten().map(prepared).collect()
}

/// What an operator is told: the place, something to do, and no secret.
#[track_caller]
fn told(url: &str, said: &[&str]) -> Fault {
    let fault = connects(url).unwrap_err();
    let text = fault.to_string();
    for part in said {
        assert!(text.contains(part), "\"{part}\" is not in: {text}");
    }
    assert!(!text.contains("hunter") && !fault.remedy.is_empty(), "{text}");
    fault
}

/// F6: verify-full takes a certificate of the named authority for the host's name, and no other; the password is in no fault.
#[test]
fn tls_is_verified_in_full_where_it_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let right = Certificates::of("localhost");
    let authority = write("ca.pem", &right.authority);
    let stranger = write("stranger.pem", &Certificates::of("localhost").authority);
    for (server, database) in servers(&right) {
        let at = |host: &str, query: &str| {
            format!("mysql://app:hunter2@{host}:{}/{}?{query}", server.port(), database.name())
        };
        connects(&at("localhost", &format!("sslmode=verify-full&sslrootcert={authority}"))).unwrap();
        connects(&at("127.0.0.1", "sslmode=require")).unwrap();
        connects(&at("127.0.0.1", "")).unwrap();

        for (what, host, query, said) in [
            (
                "another authority",
                "localhost",
                format!("sslmode=verify-full&sslrootcert={stranger}"),
                "invalid peer certificate",
            ),
            (
                "another name",
                "127.0.0.1",
                format!("sslmode=verify-full&sslrootcert={authority}"),
                "not valid for name",
            ),
            ("the system's authorities", "localhost", "sslmode=verify-full".to_owned(), "UnknownIssuer"),
        ] {
            let fault = told(&at(host, &query), &["certificate is not trusted", said, "sslrootcert"]);
            assert!(is_unreachable(&fault), "{what}: {fault}");
        }
        // The server tells those who come without TLS no more than that.
        let plain = told(&at("127.0.0.1", "sslmode=disable"), &["the login was refused"]);
        assert!(is_unreachable(&plain), "{plain}");
        told(&at("localhost", "sslmode=verify-full&sslrootcert=/none.pem"), &["/none.pem", "PEM"]);
        let empty = write("empty.pem", "nothing");
        told(
            &at("localhost", &format!("sslmode=verify-full&sslrootcert={empty}")),
            &["no authority is known"],
        );
    }
}

/// F6: a server that offers no TLS, where it is asked for, is told apart from one that does not answer; where it is only
/// preferred, it is done without.
#[test]
fn a_server_without_tls_is_named() {
    let database = MysqlDatabase::create_blocking();
    database.query(LEDGER);
    for mode in ["require", "verify-full"] {
        let fault =
            told(&format!("{}?sslmode={mode}", database.url()), &["offers no TLS", "ssl_cert", "sslmode"]);
        assert!(is_unreachable(&fault), "{fault}");
    }
    connects(&database.url()).unwrap();
}

/// F6, issue 6: `caching_sha2_password`, of which the server has to be shown the whole password once, and then remembers a
/// digest; over TLS, and without it by the server's key.
#[test]
fn caching_sha2_password_is_spoken_in_full_and_from_the_cache() {
    let Some(server) = PrivateMysql::mysql() else { return };
    let database = server.database();
    database.query(LEDGER);
    server.query(&format!(
        "create user sha identified with caching_sha2_password by 'hunter2'; grant all on {}.* to sha",
        database.name()
    ));
    let url = |query: &str| format!("{}?{query}", server.url_as("sha:hunter2", database.name()));
    for mode in ["sslmode=require", "sslmode=disable"] {
        // Empties the cache.
        server.query("flush privileges");
        for time in ["in full", "from the cache"] {
            connects(&url(mode)).unwrap_or_else(|fault| panic!("{mode}, {time}: {fault}"));
        }
        for time in ["in full", "from the cache"] {
            let wrong = url(mode).replace("hunter2", "hunter3");
            assert!(is_unreachable(&told(&wrong, &["the login was refused"])), "{mode}, {time}");
        }
    }
    server.query(&format!(
        "create user old identified with mysql_native_password by 'hunter2'; grant all on {0}.* to old; \
         create user rsa identified with sha256_password by 'hunter2'; grant all on {0}.* to rsa",
        database.name()
    ));
    connects(&server.url_as("old:hunter2", database.name())).unwrap();
    let other = server.url_as("rsa:hunter2", database.name());
    assert!(is_unreachable(&told(
        &other,
        &["by a method that is not known", "sha256_password", "alter user"]
    )));
}

/// F6: MariaDB's own ways of logging in.
#[test]
fn mariadbs_logins_are_spoken() {
    let database = MysqlDatabase::create_blocking();
    database.query(LEDGER);
    let user = format!("native_{}", std::process::id());
    let name = database.name();
    database.query(&format!(
        "create user {user} identified via mysql_native_password using password('hunter2'); grant all on {name}.* to {user}"
    ));
    let url = database.url().replace("root@", &format!("{user}:hunter2@"));
    connects(&url).unwrap();
    told(&url.replace("hunter2", "hunter3"), &["the login was refused"]);
    database.query(&format!("drop user {user}"));
}

/// The same of the plugin that Debian's server has; where there is none, there is nothing to test.
#[test]
fn ed25519_is_spoken() {
    let Some(server) = postrider_servers::mariadb10() else { return };
    let database = MysqlDatabase::create_blocking_on(&server);
    database.query(LEDGER);
    database.query("install soname 'auth_ed25519'");
    let user = format!("ed_{}", std::process::id());
    let name = database.name();
    database.query(&format!(
        "create user {user} identified via ed25519 using password('hunter2'); grant all on {name}.* to {user}"
    ));
    let url = database.url().replace("root@", &format!("{user}:hunter2@"));
    connects(&url).unwrap();
    told(&url.replace("hunter2", "hunter3"), &["the login was refused"]);
    database.query(&format!("drop user {user}"));
}

/// F5: who may not, and what is not there, is told with what to do, on both servers.
#[test]
fn rights_and_names_that_are_missing_are_told() {
    for server in [Some(postrider_servers::mariadb()), postrider_servers::mysql()].into_iter().flatten() {
        let database = MysqlDatabase::create_blocking_on(&server);
        database.query(LEDGER);
        let user = format!("poor_{}", std::process::id());
        let name = database.name();
        let url = database.url().replace("root@", &format!("{user}:hunter2@"));
        database.query(&format!("create user {user} identified by 'hunter2'"));
        let hidden = told(&url, &["may not use this database", name, "docs/mysql.md"]);
        assert!(is_unreachable(&hidden), "{hidden}");
        database.query(&format!("grant select on {name}.* to {user}"));
        let poor = told(&url, &["a right is missing", "1142", "docs/mysql.md"]);
        assert!(!is_unreachable(&poor), "it is not the server: {poor}");
        assert!(is_unreachable(&told(&format!("{}x", database.url()), &["no such database", "1049"])));
        database.query(&format!("drop user {user}"));
    }
}

/// F5: a replica that takes no writes is named, with the primary as the remedy.
#[test]
fn a_server_that_is_read_only_is_named() {
    let options = MysqlOptions { settings: vec!["read-only=1".to_owned()], ..MysqlOptions::default() };
    let servers = [Some(PrivateMysql::mariadb_with(&options)), PrivateMysql::mysql_with(&options)];
    for server in servers.into_iter().flatten() {
        let database = server.database();
        database.query(LEDGER);
        server.query("create user app identified by 'hunter2'");
        server.query(&format!("grant all on {}.* to app", database.name()));
        let fault = told(&server.url_as("app:hunter2", database.name()), &["read-only", "primary"]);
        assert!(is_unreachable(&fault), "{fault}");
    }
}

/// A server that is not there is said to be so, with what to look at.
#[test]
fn a_server_that_is_away_is_unreachable() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let opened = runtime.block_on(open_source(&config("mysql://app@127.0.0.1:1/bank")));
    let fault = opened.err().unwrap();
    assert!(is_unreachable(&fault) && fault.to_string().contains("127.0.0.1:1/bank"), "{fault}");
}
