//! PostgreSQL 18 from its Maven artifact, PostgreSQL 15 from Debian's package, and PgBouncer in front of the former.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::Started;
use super::env::Env;
use super::fetch;
use super::launch::Place;

pub(crate) const URL: &str = "POSTRIDER_TEST_POSTGRES_URL";
pub(crate) const BIN: &str = "POSTRIDER_TEST_POSTGRES_BIN";
pub(crate) const URL_15: &str = "POSTRIDER_TEST_POSTGRES15_URL";
pub(crate) const BIN_15: &str = "POSTRIDER_TEST_POSTGRES15_BIN";
pub(crate) const PGBOUNCER_URL: &str = "POSTRIDER_TEST_PGBOUNCER_URL";

const VERSION: &str = "18.6.0";
const DEBIAN_BIN: &str = "/usr/lib/postgresql/15/bin";

/// Private servers of tests have the same.
const SETTINGS: &str = include_str!("postgres.conf");

/// PostgreSQL 18.
pub(crate) fn start(place: &Place) -> Result<Started, String> {
    start_with(place, &binaries(&place.fetched)?, URL, BIN)
}

/// PostgreSQL 15.
pub(crate) fn start_15(place: &Place) -> Result<Started, String> {
    fetch::debian(&format!("{DEBIAN_BIN}/postgres"), &["postgresql-15"])?;
    start_with(place, Path::new(DEBIAN_BIN), URL_15, BIN_15)
}

/// The programs of PostgreSQL 18, which private servers of tests are made of too.
pub(crate) fn binaries(fetched: &Path) -> Result<PathBuf, String> {
    let machine = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64v8",
        other => return Err(format!("there is no PostgreSQL for {other} in Maven: set {URL} and {BIN}")),
    };
    let artifact = format!("io.zonky.test.postgres:embedded-postgres-binaries-linux-{machine}:{VERSION}");
    let jars = fetch::maven(&fetched.join(format!("postgres-jar-{VERSION}")), &[&artifact])?;
    let unpacked = fetch::once(&fetched.join(format!("postgres-{VERSION}")), |draft| {
        for (program, package) in [("unzip", "unzip"), ("xz", "xz-utils")] {
            fetch::debian(program, &[package])?;
        }
        let unpack = "set -e; unzip -q -o \"$1\"/*.jar '*.txz' -d \"$2\"; tar -xJf \"$2\"/*.txz -C \"$2\"; rm \"$2\"/*.txz";
        fetch::run(Command::new("sh").args(["-c", unpack, "sh"]).arg(&jars).arg(draft))
    })?;
    Ok(unpacked.join("bin"))
}

fn start_with(place: &Place, bin: &Path, url: &str, bin_key: &str) -> Result<Started, String> {
    place.clear()?;
    let data = place.folder.join("data");
    let mut initdb = place.server(bin.join("initdb"), "KILL");
    initdb.args(["-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C.UTF-8", "-D"]);
    fetch::run(plain(initdb.arg(&data)))?;
    std::fs::OpenOptions::new()
        .append(true)
        .open(data.join("postgresql.conf"))
        .and_then(|mut file| file.write_all(SETTINGS.as_bytes()))
        .map_err(|error| format!("cannot configure {}: {error}", data.display()))?;
    let command = |port: u16| {
        let mut command = place.server(bin.join("postgres"), "QUIT");
        plain(command.arg("-D").arg(&data).args(["-p", &port.to_string()]));
        Ok(command)
    };
    let launched = place.launch_one("ready to accept connections", command, lets_in)?;
    let mut env = Env::default();
    env.set(url, format!("postgres://postgres@127.0.0.1:{}/postgres", launched.ports[0]));
    env.set(bin_key, bin.to_string_lossy());
    Ok(Started::new(launched, "INT", env))
}

/// PgBouncer with transaction pooling, in front of the server of this URL.
pub(crate) fn start_pgbouncer(place: &Place, postgres: &str) -> Result<Started, String> {
    let port: u16 = postgres
        .strip_prefix("postgres://postgres@127.0.0.1:")
        .and_then(|rest| rest.split('/').next()?.parse().ok())
        .ok_or_else(|| {
            format!("in front of a server of your own, start it yourself and set {PGBOUNCER_URL}")
        })?;
    fetch::debian("/usr/sbin/pgbouncer", &["pgbouncer"])?;
    place.clear()?;
    place.write("users", "\"postgres\" \"\"\n")?;
    let users = place.folder.join("users");
    let command = |listen: u16| {
        place.write("pgbouncer.ini", &pgbouncer_ini(port, listen, &users))?;
        let mut command = place.server("/usr/sbin/pgbouncer", "KILL");
        command.arg("pgbouncer.ini");
        Ok(command)
    };
    let launched = place.launch_one("process up", command, lets_in)?;
    let mut env = Env::default();
    env.set(PGBOUNCER_URL, format!("postgres://postgres@127.0.0.1:{}/postgres", launched.ports[0]));
    Ok(Started::new(launched, "KILL", env))
}

/// Any database of the server; connections to those that are gone do not stay for long.
fn pgbouncer_ini(postgres: u16, port: u16, users: &Path) -> String {
    format!(
        "[databases]\n* = host=127.0.0.1 port={postgres}\n\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
         unix_socket_dir =\nauth_type = trust\nauth_file = {}\npool_mode = transaction\nmax_client_conn = 1000\n\
         default_pool_size = 20\nserver_idle_timeout = 30\nignore_startup_parameters = extra_float_digits\n",
        users.display()
    )
}

/// Without what the user has set for another PostgreSQL, and speaking English.
fn plain(command: &mut Command) -> &mut Command {
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PG")) {
        command.env_remove(name);
    }
    command.env("LC_ALL", "C")
}

/// Whether it lets a client in: it listens before it does.
fn lets_in(port: u16) -> bool {
    greet(port).is_ok_and(|answer| answer.contains(&b'Z') && answer.first() == Some(&b'R'))
}

/// The answer to a login: `R`, what the server says of itself, and `Z` once it is ready for queries; or `E`.
fn greet(port: u16) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.write_all(&login())?;
    let mut kinds = Vec::new();
    while !matches!(kinds.last(), Some(b'Z' | b'E')) {
        let mut head = [0; 5];
        stream.read_exact(&mut head)?;
        let bytes = u64::from(u32::from_be_bytes([head[1], head[2], head[3], head[4]])).saturating_sub(4);
        std::io::copy(&mut (&stream).take(bytes), &mut std::io::sink())?;
        kinds.push(head[0]);
    }
    // So that the server does not note a client that vanished.
    stream.write_all(b"X\0\0\0\x04")?;
    Ok(kinds)
}

fn login() -> Vec<u8> {
    let mut text = 196_608_u32.to_be_bytes().to_vec();
    text.extend(b"user\0postgres\0database\0postgres\0\0");
    let mut message = (text.len() as u32 + 4).to_be_bytes().to_vec();
    message.append(&mut text);
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_spelled_as_the_protocol_wants_it() {
        let login = login();
        assert_eq!(login[..8], [0, 0, 0, 41, 0, 3, 0, 0]);
        assert_eq!(login.len(), 41);
    }

    #[test]
    fn pgbouncer_is_told_both_ports() {
        let ini = pgbouncer_ini(5, 6, Path::new("/u"));
        assert!(ini.contains("port=5\n") && ini.contains("listen_port = 6\n"));
        assert!(ini.contains("pool_mode = transaction"));
    }
}
