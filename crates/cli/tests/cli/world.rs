//! A directory of its own for each test, and the real binary in it.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

use rusqlite::Connection;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::landing::Landing;
use crate::wait::{DEADLINE, until};

/// What a command did.
pub(crate) struct Did {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Did {
    /// Checks the exit code and hands stdout over.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, 0, "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self.stdout
    }

    /// Checks that it failed as documented: the code, one paragraph, no panic, every part said.
    #[track_caller]
    pub(crate) fn failed(&self, code: i32, said: &[&str]) {
        let told = self.stderr.trim_end();
        assert_eq!(self.code, code, "stdout: {}\nstderr: {told}", self.stdout);
        let error = told.lines().last().unwrap_or_default();
        assert!(error.starts_with("error: "), "{told}");
        assert_eq!(told.lines().filter(|line| line.starts_with("error: ")).count(), 1, "{told}");
        for part in said {
            assert!(error.contains(part), "\"{part}\" is not in: {told}");
        }
        for never in ["panicked", "backtrace", "RUST_BACKTRACE", "this is a bug"] {
            assert!(!told.contains(never), "{told}");
        }
    }
}

/// A directory, and the binary in it.
pub(crate) struct World {
    pub(crate) directory: TempDir,
    /// A database on a server, where the outbox is in one.
    pub(crate) server: Option<postrider_servers::Database>,
    /// The same on MariaDB.
    pub(crate) mysql: Option<postrider_servers::MysqlDatabase>,
    /// Where events arrive, where that is not a file.
    pub(crate) landing: Option<Landing>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap(), server: None, mysql: None, landing: None }
    }

    /// With a configuration and its tables.
    pub(crate) fn with_config(config: &str) -> Self {
        let world = Self::new();
        world.write("postrider.toml", config);
        world.run(&["migrate"]).ok();
        world
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Every event that has arrived, a line each.
    pub(crate) fn landed(&self) -> String {
        self.landing.as_ref().map_or_else(|| self.read("events.jsonl"), Landing::lines)
    }

    pub(crate) fn database(&self, name: &str) -> Connection {
        let connection = Connection::open(self.path(name)).unwrap();
        connection.busy_timeout(DEADLINE).unwrap();
        connection
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_postrider"));
        command.args(args).current_dir(self.directory.path()).stdin(Stdio::null());
        for name in ["POSTRIDER_CONFIG", "POSTRIDER_STOP_AT", "RUST_LOG", "NO_COLOR"] {
            command.env_remove(name);
        }
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Did {
        self.run_with(args, "")
    }

    pub(crate) fn run_with(&self, args: &[&str], stdin: &str) -> Did {
        finish(self.command(args), stdin.as_bytes())
    }

    /// Starts a command in the background; what it says goes to a file.
    pub(crate) fn start(&self, name: &str, args: &[&str], env: &[(&str, &str)]) -> Process {
        let log = self.path(&format!("{name}.log"));
        let mut command = self.command(args);
        command.envs(env.iter().copied()).stdout(Stdio::null()).stderr(File::create(&log).unwrap());
        Process { child: command.spawn().unwrap(), log }
    }

    /// Appends one event through the binary; answers its event id.
    pub(crate) fn append(&self, event_type: &str, key: &str, payload: &str) -> String {
        let args = ["append", "--type", event_type, "--aggregate-type", "Order", "--aggregate-id", key];
        self.run_with(&args, payload).ok().trim().to_owned()
    }
}

/// Runs a command to its end.
pub(crate) fn finish(mut command: Command, stdin: &[u8]) -> Did {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A command that refuses its arguments does not read, and closes the pipe.
    let _ = child.stdin.take().unwrap().write_all(stdin);
    let output = child.wait_with_output().unwrap();
    Did {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A command in the background; killed when the test ends.
pub(crate) struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    pub(crate) fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    #[track_caller]
    pub(crate) fn wait_until_said(&mut self, text: &str) {
        self.wait_until(&format!("\"{text}\""), |said| said.contains(text));
    }

    #[track_caller]
    pub(crate) fn wait_until(&mut self, what: &str, holds: impl Fn(&str) -> bool) {
        until(&format!("{what} in the log"), || {
            let ended = self.child.try_wait().unwrap().is_some();
            assert!(!ended, "ended before it said {what}: {}", self.said());
            holds(&self.said())
        });
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Whether it is stopped by SIGSTOP.
    pub(crate) fn stands_still(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
    }

    /// The most memory that it ever had.
    pub(crate) fn peak_kb(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim_end_matches("kB").trim().parse().unwrap()
    }

    /// `kill -9`, and waits until it is gone.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    #[track_caller]
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let mut status = None;
        until("the process to end", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
