//! A MariaDB or MySQL of the test's own, to be killed, frozen and started again.

use std::fs::{File, OpenOptions, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::mysql_node::{MARIADB_BASE, MYSQL_BASE, Make, Node, STARTED};
use crate::process::Process;
use crate::{
    Certificates, MysqlDatabase, Rows, address, folder, freeze, keeper, mysql_database, own_port, user, wait,
};

const DRAWS_MAX: usize = 5;

/// What a private server has beyond the usual.
#[derive(Clone, Debug, Default)]
pub struct MysqlOptions {
    /// Its options, such as `innodb-autoinc-lock-mode=1`.
    pub settings: Vec<String>,
    /// What it speaks TLS with; MariaDB speaks none otherwise, MySQL with a certificate of its own making.
    pub certificates: Option<Certificates>,
}

/// A server on a free port with data of its own. It ends, and its data go, with this value or with the process.
#[derive(Debug)]
pub struct PrivateMysql {
    node: Node,
    further: Vec<String>,
    port: u16,
    running: Option<Child>,
}

impl PrivateMysql {
    /// A MariaDB like [`crate::mariadb`]; takes some seconds on a busy machine. Blocks the thread.
    #[must_use]
    pub fn mariadb() -> Self {
        Self::mariadb_with(&MysqlOptions::default())
    }

    /// The same, with something beyond the usual.
    #[must_use]
    pub fn mariadb_with(options: &MysqlOptions) -> Self {
        Self::start(Make::Mariadb, address::needed(MARIADB_BASE).into(), options)
    }

    /// A MySQL like [`crate::mysql`], if there is one; takes some more seconds. Blocks the thread.
    #[must_use]
    pub fn mysql() -> Option<Self> {
        Self::mysql_with(&MysqlOptions::default())
    }

    /// The same, with something beyond the usual.
    #[must_use]
    pub fn mysql_with(options: &MysqlOptions) -> Option<Self> {
        Some(Self::start(Make::Mysql, address::find(MYSQL_BASE)?.into(), options))
    }

    /// Where it is, as a user with all rights.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_as("root", "mysql")
    }

    /// The same as another user (`name` or `name:password`), in a database.
    #[must_use]
    pub fn url_as(&self, user: &str, database: &str) -> String {
        format!("mysql://{user}@127.0.0.1:{}/{database}", self.port)
    }

    /// A database on it.
    #[must_use]
    pub fn database(&self) -> MysqlDatabase {
        MysqlDatabase::create_blocking_on(&self.url())
    }

    /// Its port, which stays the same.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its process, while it runs.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.running.as_ref().map(Child::id)
    }

    /// What it has logged since it was started.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read(self.log_file())
            .map_or_else(|_| String::new(), |log| String::from_utf8_lossy(&log).into_owned())
    }

    /// Where its log is, which begins anew with each start.
    #[must_use]
    pub fn log_file(&self) -> PathBuf {
        self.node.folder.join("log")
    }

    /// Runs SQL; panics with the error. Blocks the thread.
    pub fn query(&self, text: &str) -> Rows {
        mysql_database::query(&self.url(), text).unwrap_or_else(|error| panic!("{error}, of: {text}"))
    }

    /// SIGKILL, also where it is frozen. Nothing is tidied up: the next start recovers.
    pub fn kill(&mut self) {
        let Some(mut child) = self.running.take() else { return };
        child.kill().expect("a child of ours can be killed");
        child.wait().expect("a child of ours can be awaited");
    }

    /// Stops it in order; clients are sent away.
    pub fn stop(&mut self) {
        let Some(mut child) = self.running.take() else { return };
        if let Some(process) = Process::of(child.id()) {
            process.end("TERM").expect("the server stops");
        }
        child.wait().expect("a child of ours can be awaited");
    }

    /// Starts it again on the same port, after a stop in order if it still runs.
    pub fn restart(&mut self) {
        self.stop();
        // Somebody may hold the port for a moment: the address must stay the same, so wait.
        let started = wait::within_deadline(|| self.try_start(self.port));
        assert!(started, "the server does not start again:\n{}", self.log());
    }

    /// SIGSTOP: connections stand, and nothing is answered.
    pub fn freeze(&self) {
        freeze::freeze(self.pid().expect("a server that runs"));
    }

    /// SIGCONT.
    pub fn thaw(&self) {
        freeze::thaw(self.pid().expect("a server that runs"));
    }

    fn start(make: Make, base: PathBuf, options: &MysqlOptions) -> Self {
        let node = Node { make, base, folder: folder::create() };
        let further = options.settings.iter().map(|setting| format!("--{setting}")).collect();
        let mut server = Self { node, further, port: 0, running: None };
        server.init();
        if let Some(certificates) = &options.certificates {
            server.encrypt(certificates);
        }
        server.first_start();
        server
    }

    fn init(&self) {
        let mut init = self.node.init(|program| user::command(program, Some("KILL")));
        plain(&mut init).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let done = keeper::start(init).and_then(Child::wait_with_output).expect("data can be prepared");
        let said = [done.stdout, done.stderr].concat();
        assert!(done.status.success(), "data cannot be prepared: {}", String::from_utf8_lossy(&said));
    }

    fn encrypt(&mut self, certificates: &Certificates) {
        if self.node.make == Make::Mariadb {
            self.further.push("--ssl".to_owned());
        }
        let Certificates { authority, server, key } = certificates;
        for (option, text) in [("ssl-ca", authority), ("ssl-cert", server), ("ssl-key", key)] {
            let path = self.node.folder.join(format!("{option}.pem"));
            put(&path, text).unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
            self.further.push(format!("--{option}={}", path.display()));
        }
    }

    fn first_start(&mut self) {
        for _ in 0..DRAWS_MAX {
            let port = own_port::draw();
            if self.try_start(port) {
                self.port = port;
                return;
            }
        }
        panic!("the server does not start:\n{}", self.log());
    }

    /// Whether it has come up on this port. Its own log tells: somebody else may be answering there.
    fn try_start(&mut self, port: u16) -> bool {
        let mut command = user::command(self.node.server(), Some("KILL"));
        plain(self.node.run(&mut command, port, &self.further));
        File::create(self.log_file()).expect("a log");
        let log = OpenOptions::new().append(true).open(self.log_file()).expect("a log");
        command.stdout(log.try_clone().expect("a log")).stderr(log).stdin(Stdio::null()).process_group(0);
        let mut child = keeper::start(command).expect("the server can be started");
        let mut ended = false;
        let settled = wait::within_deadline(|| {
            ended = child.try_wait().expect("a child of ours can be watched").is_some();
            ended || self.log().contains(STARTED)
        });
        if settled && !ended {
            self.running = Some(child);
            return true;
        }
        let _ = child.kill();
        let _ = child.wait();
        false
    }
}

impl Drop for PrivateMysql {
    fn drop(&mut self) {
        if let Some(mut child) = self.running.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = std::fs::remove_dir_all(&self.node.folder);
    }
}

/// A file that only the server reads.
fn put(path: &Path, text: &str) -> std::io::Result<()> {
    std::fs::write(path, text)?;
    std::fs::set_permissions(path, Permissions::from_mode(0o600))?;
    user::other().map_or(Ok(()), |(user, group)| chown(path, Some(user), Some(group)))
}

/// Without what the user has set for another server, and speaking English.
fn plain(command: &mut Command) -> &mut Command {
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("MYSQL")) {
        command.env_remove(name);
    }
    command.env("LC_ALL", "C")
}
