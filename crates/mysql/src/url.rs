//! `mysql://user:password@host:port/database?sslmode=verify-full`, and the same with `mariadb://`.

use std::time::Duration;

use mysql_async::{Opts, OptsBuilder};
use postrider_core::Fault;

use crate::config::{Connect, Tls};

/// A peer that is gone without a word is noticed by then.
const KEEPALIVE: Duration = Duration::from_secs(10);
/// Statements that a connection keeps prepared: each is compiled once from the layout.
const STATEMENTS_MAX: usize = 128;

pub(crate) fn parse(url: &str) -> Result<Connect, Fault> {
    let (base, query) = url.split_once('?').unwrap_or((url, ""));
    let (mut tls, mut root_certificate) = (Tls::Prefer, None);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("sslmode", word)) => tls = mode(word)?,
            Some(("sslrootcert", path)) => root_certificate = Some(decoded(path).into()),
            Some((name, _)) => return Err(unknown(name)),
            None => return Err(unknown(pair)),
        }
    }
    let address = base.strip_prefix("mysql://").or_else(|| base.strip_prefix("mariadb://"));
    // The driver's message may repeat what stands in the URL, the password included: it is not kept.
    let opts = address.and_then(|address| Opts::from_url(&format!("mysql://{address}")).ok());
    let opts = opts.ok_or_else(|| {
        refused(
            "it is no MySQL URL",
            "Write it like mysql://user@host:3306/database?sslmode=verify-full; a password with special characters is percent-encoded.",
        )
    })?;
    if opts.db_name().is_none_or(str::is_empty) {
        return Err(refused("it names no database", "Write it like mysql://user@host:3306/database."));
    }
    let opts = OptsBuilder::from_opts(opts)
        // What an UPDATE finds is what it counts, changed or not.
        .client_found_rows(true)
        .tcp_keepalive(Some(KEEPALIVE))
        .tcp_nodelay(true)
        // A socket would pass by the host and port that were named.
        .prefer_socket(false)
        .stmt_cache_size(STATEMENTS_MAX)
        .connect_attribute("program_name", "postrider");
    Ok(Connect { opts: opts.into(), tls, root_certificate })
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

fn unknown(name: &str) -> Fault {
    // What stands there may be the rest of a password with a question mark in it: only what looks like a name is shown.
    let is_name = name.len() <= 30 && name.bytes().all(|b| b.is_ascii_lowercase() || b"_-".contains(&b));
    let shown = if is_name { format!("\"{name}\"") } else { "something".to_owned() };
    refused(
        &format!("it asks for {shown} behind its question mark, which is unknown"),
        "Known are sslmode and sslrootcert; a password with special characters is percent-encoded.",
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
    fn both_schemes_are_taken() {
        for scheme in ["mysql", "mariadb"] {
            let url =
                format!("{scheme}://app:s%40crt@db:3307/bank?sslmode=verify-full&sslrootcert=%2Fca.pem");
            let connect = parse(&url).unwrap();
            assert_eq!(connect.shown(), "db:3307/bank");
            assert_eq!((connect.opts.user(), connect.opts.pass()), (Some("app"), Some("s@crt")));
            assert_eq!(connect.tls, Tls::VerifyFull);
            assert_eq!(connect.root_certificate.as_deref(), Some("/ca.pem".as_ref()));
        }
        let plain = parse("mysql://db/bank").unwrap();
        assert_eq!((plain.tls, plain.shown().as_str()), (Tls::Prefer, "db:3306/bank"));
    }

    #[test]
    fn what_is_unknown_is_named() {
        let fault = parse("mysql://app@db/bank?sslmode=disable&foo=bar").unwrap_err().to_string();
        assert!(fault.contains("\"foo\"") && fault.contains("sslmode") && !fault.contains("bar"), "{fault}");
        let fault = parse("mysql://app:a?Secret9@db/bank").unwrap_err().to_string();
        assert!(!fault.contains("Secret9"), "{fault}");
    }

    /// F6: a fault about a URL never shows what stands in it.
    #[test]
    fn a_url_that_is_none_is_refused_without_its_password() {
        for url in [
            "mysql://app:hunter2@db:port/bank",
            "mysql://app:hunter2@db",
            "mysql://app:hunter2@db/bank?sslmode=verify-ca",
            "mysql://app:hunter2@db/bank?unknown=1",
            "postgres://app:hunter2@db/bank",
        ] {
            let fault = parse(url).unwrap_err().to_string();
            assert!(!fault.contains("hunter2") && fault.contains("[outbox] url"), "{fault}");
        }
    }
}
