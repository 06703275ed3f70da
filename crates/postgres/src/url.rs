//! `postgres://user:password@host:port/database?sslmode=verify-full`: what libpq takes, as far as it makes sense here.

use std::time::Duration;

use postrider_core::Fault;
use tokio_postgres::config::SslMode;

use crate::config::{Connect, Tls};

/// A server that does not answer is given up after this long, and tried again.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A peer that is gone without a word is noticed by then.
const KEEPALIVE: Duration = Duration::from_secs(10);
const UNANSWERED: Duration = Duration::from_secs(30);

/// What the driver takes beside what is read here.
const DRIVERS: [&str; 11] = [
    "user",
    "password",
    "dbname",
    "options",
    "application_name",
    "host",
    "hostaddr",
    "port",
    "connect_timeout",
    "target_session_attrs",
    "channel_binding",
];

pub(crate) fn parse(url: &str) -> Result<Connect, Fault> {
    let (base, query) = url.split_once('?').unwrap_or((url, ""));
    let (mut tls, mut root_certificate, mut pooled) = (Tls::Prefer, None, false);
    let mut rest: Vec<&str> = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("sslmode", word)) => tls = mode(word)?,
            Some(("sslrootcert", path)) => root_certificate = Some(decoded(path).into()),
            Some(("pooler", word)) => pooled = pooler(word)?,
            Some((name, _)) if !DRIVERS.contains(&name) => return Err(unknown(name)),
            None => return Err(unknown(pair)),
            _ => rest.push(pair),
        }
    }
    let query = if rest.is_empty() { String::new() } else { format!("?{}", rest.join("&")) };
    // The driver's message may repeat what stands in the URL, the password included: it is not kept.
    let mut postgres: tokio_postgres::Config = format!("{base}{query}").parse().map_err(|_| {
        refused("it is no PostgreSQL URL", "Write it like postgres://user@host:5432/database?sslmode=verify-full; a password with special characters is percent-encoded.")
    })?;
    if postgres.get_hosts().is_empty() {
        return Err(refused("it names no host", "Write it like postgres://user@host:5432/database."));
    }
    if postgres.get_connect_timeout().is_none() {
        postgres.connect_timeout(CONNECT_TIMEOUT);
    }
    if postgres.get_application_name().is_none() {
        postgres.application_name("postrider");
    }
    postgres.keepalives_idle(KEEPALIVE).keepalives_interval(KEEPALIVE).tcp_user_timeout(UNANSWERED);
    postgres.ssl_mode(match tls {
        Tls::Disable => SslMode::Disable,
        Tls::Prefer => SslMode::Prefer,
        Tls::Require | Tls::VerifyFull => SslMode::Require,
    });
    Ok(Connect { postgres, tls, root_certificate, pooled })
}

fn mode(word: &str) -> Result<Tls, Fault> {
    match word {
        "disable" => Ok(Tls::Disable),
        "prefer" => Ok(Tls::Prefer),
        "require" => Ok(Tls::Require),
        "verify-full" => Ok(Tls::VerifyFull),
        _ => Err(refused(
            "its sslmode is none of disable, prefer, require and verify-full",
            "Use sslmode=verify-full wherever the network is not your own; sslrootcert=/path/ca.pem names the authority.",
        )),
    }
}

fn pooler(word: &str) -> Result<bool, Fault> {
    match word {
        "transaction" => Ok(true),
        "none" => Ok(false),
        _ => Err(refused(
            "its pooler is neither transaction nor none",
            "Leave it out unless a transaction pooler stands between.",
        )),
    }
}

fn unknown(name: &str) -> Fault {
    // What stands there may be the rest of a password with a question mark in it: only what looks like a name is shown.
    let is_name = name.len() <= 30 && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    let shown = if is_name { format!("\"{name}\"") } else { "something".to_owned() };
    refused(
        &format!("it asks for {shown} behind its question mark, which is unknown"),
        &format!(
            "Known are sslmode, sslrootcert, pooler, {}; a password with special characters is percent-encoded.",
            DRIVERS[3..].join(", ")
        ),
    )
}

fn refused(problem: &str, remedy: &str) -> Fault {
    Fault::new("[outbox] url", problem, remedy)
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        match (first, hex.and_then(|two| u8::from_str_radix(two, 16).ok())) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_libpq_takes_is_taken() {
        let connect = parse("postgres://app:s%40crt@db:5433/shop?sslmode=verify-full&sslrootcert=%2Fca.pem&target_session_attrs=read-write").unwrap();
        assert_eq!(connect.shown(), "db:5433/shop");
        assert_eq!(connect.tls, Tls::VerifyFull);
        assert_eq!(connect.root_certificate.as_deref(), Some("/ca.pem".as_ref()));
        assert!(!connect.pooled);
        assert!(parse("postgresql://localhost/x?pooler=transaction").unwrap().pooled);
        assert_eq!(parse("postgres://localhost/x").unwrap().tls, Tls::Prefer);
    }

    #[test]
    fn what_is_unknown_is_named() {
        let fault = parse("postgres://app@db/shop?sslmode=disable&foo=bar").unwrap_err().to_string();
        assert!(fault.contains("\"foo\"") && fault.contains("sslmode") && !fault.contains("bar"), "{fault}");
        let fault = parse("postgres://app:a?Secret9@db/shop").unwrap_err().to_string();
        assert!(!fault.contains("Secret9"), "{fault}");
        parse("postgres://app@db/shop?connect_timeout=3&options=-c%20work_mem%3D4MB").unwrap();
    }

    /// F6: a fault about a URL never shows what stands in it.
    #[test]
    fn a_url_that_is_none_is_refused_without_its_password() {
        for url in [
            "postgres://app:hunter2@db:port/shop",
            "postgres://app:hunter2@/shop?sslmode=verify-ca",
            "postgres://app:hunter2@db/shop?unknown=1",
            "postgres://app:hunter2@db/shop?pooler=session",
            "mysql://app:hunter2@db/shop",
        ] {
            let fault = parse(url).unwrap_err().to_string();
            assert!(!fault.contains("hunter2") && fault.contains("[outbox] url"), "{fault}");
        }
    }
}
