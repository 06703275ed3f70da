//! A PostgreSQL of the test's own, to be killed and started again.

use std::fs::{File, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::process::{self, Process};
use crate::sql::session;
use crate::{Rows, address, copy, folder, keeper, own_port, query, user, wait};

const DRAWS_MAX: usize = 5;
const SETTINGS: &str = include_str!("../../../xtask/src/services/postgres.conf");

/// What a private server has beyond the usual.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The folder of the programs; the shared server's, by default.
    pub bin: Option<PathBuf>,
    /// Lines of `postgresql.conf`, such as `ssl = on`.
    pub settings: Vec<String>,
    /// Lines of `pg_hba.conf`, before those that let everybody in.
    pub access: Vec<String>,
    /// Files in its folder by name, such as `server.key`, readable for the server only.
    pub files: Vec<(String, Vec<u8>)>,
}

/// A server on a free port with data of its own. It ends, and its data go, with this value or with the process.
#[derive(Debug)]
pub struct PrivatePostgres {
    folder: PathBuf,
    bin: PathBuf,
    port: u16,
    running: Option<Child>,
}

impl PrivatePostgres {
    /// Creates and starts one; takes some seconds on a busy machine. Blocks the thread.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(&Options::default())
    }

    /// The same, with something beyond the usual.
    #[must_use]
    pub fn start_with(options: &Options) -> Self {
        let bin = options.bin.clone().unwrap_or_else(|| address::needed(address::BIN).into());
        let mut server = Self { folder: folder::create(), bin, port: 0, running: None };
        server.init(options);
        server.first_start();
        server
    }

    /// A hot standby of this server, which streams from it; `select pg_promote()` makes it a primary. Blocks the thread.
    #[must_use]
    pub fn standby(&self) -> Self {
        let mut standby = Self { folder: folder::create(), bin: self.bin.clone(), port: 0, running: None };
        let label = session(&self.url(), |session| {
            session.query("select pg_backup_start('standby', true)")?;
            copy::data(&self.data(), &standby.data());
            session.query("select labelfile from pg_backup_stop(false)")
        });
        let label = label.unwrap_or_else(|error| panic!("cannot copy the server: {error}"));
        standby.put("backup_label", label[0][0].clone().unwrap_or_default().as_bytes());
        standby.put("standby.signal", b"");
        let primary = format!("primary_conninfo = 'host=127.0.0.1 port={} user=postgres'", self.port);
        standby.configure(&[primary]);
        standby.first_start();
        standby
    }

    /// Where it is, as its superuser.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// Its port, which stays the same.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What it has logged since it was started.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read(self.log_file())
            .map_or_else(|_| String::new(), |log| String::from_utf8_lossy(&log).into_owned())
    }

    /// Runs SQL; panics with the error. Blocks the thread.
    pub fn query(&self, text: &str) -> Rows {
        query(&self.url(), text).unwrap_or_else(|error| panic!("{error}, of: {text}"))
    }

    /// SIGKILL for the server and all its processes at once, as when memory runs out. Nothing is tidied up.
    pub fn kill(&mut self) {
        let Some(mut child) = self.running.take() else { return };
        // Stopped, it neither notices what happens to its children nor makes new ones.
        process::send(child.id(), "STOP");
        let children = process::children(child.id());
        child.kill().expect("a child of ours can be killed");
        for child in &children {
            process::send(child.pid, "KILL");
        }
        child.wait().expect("a child of ours can be awaited");
        // As long as one is attached to the shared memory, the next server refuses to start.
        wait::until("the killed server's processes end", || children.iter().all(|child| !child.lives()));
    }

    /// Starts it again on the same port, after a fast stop if it still runs.
    pub fn restart(&mut self) {
        self.stop();
        // Somebody may hold the port for a moment: the address must stay the same, so wait.
        let started = wait::within_deadline(|| self.try_start(self.port));
        assert!(started, "PostgreSQL does not start again:\n{}", self.log());
    }

    /// Stops it in order; clients are sent away.
    pub fn stop(&mut self) {
        self.end("INT");
    }

    /// Stops it without tidying up, as the server does in a panic; the next start recovers.
    pub fn stop_immediate(&mut self) {
        self.end("QUIT");
    }

    fn end(&mut self, signal: &str) {
        let Some(mut child) = self.running.take() else { return };
        if let Some(process) = Process::of(child.id()) {
            process.end(signal).expect("PostgreSQL stops");
        }
        child.wait().expect("a child of ours can be awaited");
    }

    fn init(&self, options: &Options) {
        let data = self.data();
        let mut initdb = user::command(self.bin.join("initdb"), Some("KILL"));
        initdb.args(["-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C.UTF-8", "-D"]);
        plain(initdb.arg(&data)).current_dir(&self.folder).stdin(Stdio::null());
        initdb.stdout(Stdio::null()).stderr(Stdio::piped());
        let done = keeper::start(initdb).and_then(Child::wait_with_output).expect("initdb can be started");
        assert!(done.status.success(), "initdb: {}", String::from_utf8_lossy(&done.stderr));
        for (name, text) in &options.files {
            self.put(name, text);
        }
        self.configure(&[SETTINGS.to_owned()]);
        self.configure(&options.settings);
        let access = data.join("pg_hba.conf");
        let usual = std::fs::read_to_string(&access).expect("initdb writes who may connect");
        let lines = format!("{}\n{usual}", options.access.join("\n"));
        std::fs::write(&access, lines).expect("who may connect can be written");
    }

    /// Lines that count more than those before them.
    fn configure(&self, lines: &[String]) {
        let conf = OpenOptions::new().append(true).open(self.data().join("postgresql.conf"));
        writeln!(conf.expect("a configuration"), "{}", lines.join("\n")).expect("it can be written");
    }

    fn put(&self, name: &str, text: &[u8]) {
        let path = self.data().join(name);
        std::fs::write(&path, text)
            .and_then(|()| std::fs::set_permissions(&path, Permissions::from_mode(0o600)))
            .and_then(|()| {
                user::other().map_or(Ok(()), |(user, group)| chown(&path, Some(user), Some(group)))
            })
            .unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
    }

    fn first_start(&mut self) {
        for _ in 0..DRAWS_MAX {
            let port = own_port::draw();
            if self.try_start(port) {
                self.port = port;
                return;
            }
        }
        panic!("PostgreSQL does not start:\n{}", self.log());
    }

    /// Whether it has come up on this port. Its own log tells: somebody else may be answering there.
    fn try_start(&mut self, port: u16) -> bool {
        let mut command = user::command(self.bin.join("postgres"), Some("QUIT"));
        File::create(self.log_file()).expect("a log");
        let log = OpenOptions::new().append(true).open(self.log_file()).expect("a log");
        command.stdout(log.try_clone().expect("a log")).stderr(log).stdin(Stdio::null());
        plain(command.arg("-D").arg(self.data()).args(["-p", &port.to_string()])).current_dir(&self.folder);
        command.process_group(0);
        let mut child = keeper::start(command).expect("PostgreSQL can be started");
        let mut ended = false;
        let settled = wait::within_deadline(|| {
            ended = child.try_wait().expect("a child of ours can be watched").is_some();
            ended || self.log().contains("ready to accept")
        });
        if settled && !ended {
            self.running = Some(child);
            return true;
        }
        let _ = child.kill();
        let _ = child.wait();
        false
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// Where its log is, which begins anew with each start.
    #[must_use]
    pub fn log_file(&self) -> PathBuf {
        self.folder.join("log")
    }
}

impl Drop for PrivatePostgres {
    fn drop(&mut self) {
        if let Some(mut child) = self.running.take() {
            if let Some(process) = Process::of(child.id()) {
                let _ = process.end("QUIT");
            }
            let _ = child.wait();
        }
        forget_shared_memory(&self.data());
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A killed server leaves a few bytes of System V shared memory, which the next start would have removed.
fn forget_shared_memory(data: &Path) {
    let Ok(noted) = std::fs::read_to_string(data.join("postmaster.pid")) else { return };
    if let Some(id) = noted.lines().nth(6).and_then(|line| line.split_whitespace().nth(1)) {
        let _ = Command::new("ipcrm").args(["-m", id]).stderr(Stdio::null()).status();
    }
}

/// Without what the user has set for another PostgreSQL, and speaking English.
fn plain(command: &mut Command) -> &mut Command {
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PG")) {
        command.env_remove(name);
    }
    command.env("LC_ALL", "C")
}
