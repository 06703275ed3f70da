//! What makes a MariaDB or a MySQL: the same for the shared servers and for the private ones of tests.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the programs of MariaDB are: a folder with `bin` and `share`.
pub(crate) const MARIADB_BASE: &str = "POSTRIDER_TEST_MARIADB_BASE";
/// The same of MySQL 8.0.
pub(crate) const MYSQL_BASE: &str = "POSTRIDER_TEST_MYSQL_BASE";
/// The same of MariaDB 10.11.
pub(crate) const MARIADB10_BASE: &str = "POSTRIDER_TEST_MARIADB10_BASE";
/// What a server logs when it listens.
pub(crate) const STARTED: &str = "ready for connections";

/// Makes the tables that MariaDB keeps its users in, where there is no program for that. Statements end with their lines.
const BOOTSTRAP: &str = "set -e; base=$1; shift; mkdir -p data; cd \"$base/share\"; \
    { echo 'create database mysql;'; echo 'use mysql;'; \
    cat mariadb_system_tables.sql mariadb_performance_tables.sql mariadb_system_tables_data.sql; } | \"$@\"";

/// Rows in the log of changes, as a relay that reads it wants them; and nothing waits for a disk: what is written outlives the
/// server, if not the machine.
const SETTINGS: &[&str] = &[
    "--bind-address=127.0.0.1",
    "--socket=server.sock",
    "--pid-file=server.pid",
    "--server-id=1",
    "--log-bin=binlog",
    "--binlog-format=ROW",
    "--max-connections=400",
    "--innodb-flush-log-at-trx-commit=2",
    "--innodb-flush-method=nosync",
    "--sync-binlog=0",
];

/// Whose server it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Make {
    Mariadb,
    Mysql,
}

/// A server's programs and its data.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) make: Make,
    /// The folder of `bin` and `share`.
    pub(crate) base: PathBuf,
    /// Where it is started; its data are in `data` below.
    pub(crate) folder: PathBuf,
}

impl Node {
    /// Prepares the data, with a user `root` without a password. `command` makes a command of a program.
    pub(crate) fn init(&self, command: impl FnOnce(&Path) -> Command) -> Command {
        let installer = self.base.join("bin/mariadb-install-db");
        let mut init = match self.make {
            Make::Mysql => {
                let mut init = command(&self.server());
                self.common(&mut init).arg("--initialize-insecure");
                init
            }
            Make::Mariadb if installer.is_file() => {
                let mut init = command(&installer);
                init.args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"]);
                init.arg(named("--datadir=", &self.data()));
                init
            }
            Make::Mariadb => {
                let mut init = command(Path::new("sh"));
                init.args(["-c", BOOTSTRAP, "sh"]).arg(&self.base).arg(self.server());
                self.common(&mut init).args(["--bootstrap", "--skip-ssl"]);
                init
            }
        };
        init.current_dir(&self.folder);
        init
    }

    /// Runs it; what `further` says counts more than the usual.
    pub(crate) fn run<'a>(&self, server: &'a mut Command, port: u16, further: &[String]) -> &'a mut Command {
        // Who starts empties its folder for temporary tables: a shared one would be emptied under the others.
        self.common(server)
            .arg(format!("--port={port}"))
            .arg(named("--tmpdir=", &self.data()))
            .args(SETTINGS);
        match self.make {
            // Making a certificate of its own takes it up to half a minute.
            Make::Mariadb => server.arg("--skip-ssl"),
            Make::Mysql => server.args(["--gtid-mode=ON", "--enforce-gtid-consistency=ON"]),
        };
        server.args(further).current_dir(&self.folder)
    }

    /// The server's program.
    pub(crate) fn server(&self) -> PathBuf {
        let names: &[&str] = match self.make {
            Make::Mariadb => &["bin/mariadbd", "sbin/mariadbd"],
            Make::Mysql => &["bin/mysqld"],
        };
        let found = names.iter().map(|name| self.base.join(name)).find(|program| program.is_file());
        found.unwrap_or_else(|| self.base.join(names[0]))
    }

    fn common<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.arg("--no-defaults").arg(named("--datadir=", &self.data()));
        match self.make {
            Make::Mysql => {
                command.arg(named("--basedir=", &self.base)).args(["--mysqlx=OFF", "--secure-file-priv=NULL"])
            }
            // Debian's knows by itself where its files are.
            Make::Mariadb if self.base == Path::new("/usr") => command,
            Make::Mariadb => {
                let share = self.base.join("share");
                command.arg(named("--basedir=", &self.base)).arg(named("--lc-messages-dir=", &share))
            }
        }
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }
}

fn named(option: &str, path: &Path) -> String {
    format!("{option}{}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(command: &Command) -> Vec<String> {
        command.get_args().map(|word| word.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn what_is_asked_for_comes_behind_the_usual() {
        for make in [Make::Mariadb, Make::Mysql] {
            let node = Node { make, base: "/b".into(), folder: "/f".into() };
            let mut command = Command::new("server");
            let words = words(node.run(&mut command, 7, &["--max-connections=9".to_owned()]));
            assert_eq!(words[..2], ["--no-defaults", "--datadir=/f/data"]);
            assert!(words.contains(&"--port=7".to_owned()), "{words:?}");
            assert_eq!(words.last().map(String::as_str), Some("--max-connections=9"));
        }
    }

    #[test]
    fn data_are_prepared_by_the_servers_own_means() {
        let node = |make| Node { make, base: "/b".into(), folder: "/f".into() };
        let mysql = node(Make::Mysql).init(|program| Command::new(program));
        assert!(words(&mysql).contains(&"--initialize-insecure".to_owned()));
        let mariadb = node(Make::Mariadb).init(|program| Command::new(program));
        assert!(words(&mariadb).contains(&"--bootstrap".to_owned()) && mariadb.get_program() == "sh");
    }
}
