//! F6: how the adapter connects — TLS that verifies, passwords by SCRAM, a transaction pooler between.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use postrider_core::Layout;
use postrider_postgres::{Config, is_unreachable, migrate, open_source};
use postrider_servers::{Certificates, Options, PrivatePostgres};

/// A server that takes nothing but TLS and a password.
fn server(certificates: &Certificates) -> PrivatePostgres {
    let server = PrivatePostgres::start_with(&Options {
        settings: vec!["ssl = on".into(), "password_encryption = 'scram-sha-256'".into()],
        access: vec![
            "hostssl all app 127.0.0.1/32 scram-sha-256".into(),
            "hostnossl all app 127.0.0.1/32 reject".into(),
        ],
        files: vec![
            ("server.crt".into(), certificates.server.clone().into_bytes()),
            ("server.key".into(), certificates.key.clone().into_bytes()),
        ],
        ..Options::default()
    });
    server.query("create role app login superuser password 'hunter2'");
    server
}

fn config(url: &str) -> Config {
    Config::new(url, Layout::built_in("native").unwrap(), "relay").unwrap()
}

async fn connects(url: &str) -> Result<(), postrider_core::Fault> {
    migrate(&config(url)).await.map(drop)
}

/// F6: verify-full takes a certificate of the named authority for the host's name, and no other; the password is in no fault.
#[tokio::test(flavor = "multi_thread")]
async fn tls_is_verified_in_full_where_it_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let right = Certificates::of("localhost");
    let server = tokio::task::spawn_blocking({
        let right = right.clone();
        move || server(&right)
    })
    .await
    .unwrap();
    let (authority, stranger) =
        (write("ca.pem", &right.authority), write("stranger.pem", &Certificates::of("localhost").authority));
    let at =
        |host: &str, query: &str| format!("postgres://app:hunter2@{host}:{}/postgres?{query}", server.port());

    connects(&at("localhost", &format!("sslmode=verify-full&sslrootcert={authority}"))).await.unwrap();
    connects(&at("127.0.0.1", "sslmode=require")).await.unwrap();
    connects(&at("127.0.0.1", "")).await.unwrap();

    let wrong = [
        ("another authority", at("localhost", &format!("sslmode=verify-full&sslrootcert={stranger}"))),
        ("another name", at("127.0.0.1", &format!("sslmode=verify-full&sslrootcert={authority}"))),
        ("no TLS", at("127.0.0.1", "sslmode=disable")),
        ("another password", at("127.0.0.1", "sslmode=require").replace("hunter2", "hunter3")),
        ("another database", at("127.0.0.1", "sslmode=require").replace("/postgres?", "/none?")),
    ];
    for (what, url) in wrong {
        let fault = connects(&url).await.unwrap_err();
        assert!(is_unreachable(&fault), "{what}: {fault}");
        assert!(!fault.to_string().contains("hunter"), "{what}: {fault}");
        assert!(!fault.remedy.is_empty(), "{what}: {fault}");
    }
    let missing = connects(&at("localhost", "sslmode=verify-full&sslrootcert=/none.pem")).await.unwrap_err();
    assert!(missing.to_string().contains("/none.pem"), "{missing}");
}

/// F6: a server that offers no TLS, where it is asked for, is told apart from one that does not answer.
#[tokio::test]
async fn a_server_without_tls_is_named() {
    let url = postrider_servers::postgres();
    let joint = if url.contains('?') { '&' } else { '?' };
    let fault = connects(&format!("{url}{joint}sslmode=require")).await.unwrap_err();
    assert!(is_unreachable(&fault) && fault.problem.contains("offers no TLS"), "{fault}");
    assert!(fault.remedy.contains("ssl = on") && fault.remedy.contains("sslmode"), "{fault}");
}

/// A server that is not there is said to be so, with what to look at.
#[tokio::test]
async fn a_server_that_is_away_is_unreachable() {
    let fault = open_source(&config("postgres://app@127.0.0.1:1/shop")).await.err().unwrap();
    assert!(is_unreachable(&fault), "{fault}");
    assert!(fault.to_string().contains("127.0.0.1:1/shop"), "{fault}");
}
