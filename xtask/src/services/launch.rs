//! Starts a server on free ports and waits until it answers.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::port;
use super::process::{LOOK_EVERY, Process};
use super::user;

const DRAWS_MAX: usize = 5;
const READY_WITHIN: Duration = Duration::from_secs(90);
const LOG_LINES_SHOWN: usize = 15;

/// Where a server lives, and how long.
pub(crate) struct Place {
    /// Its own folder: data and logs.
    pub(crate) folder: PathBuf,
    /// What was fetched, for all servers.
    pub(crate) fetched: PathBuf,
    /// Whether it ends with us.
    pub(crate) tied: bool,
}

impl Place {
    /// The folder anew, empty, and owned by who runs the server.
    pub(crate) fn clear(&self) -> Result<(), String> {
        remove(&self.folder)?;
        user::create_folder(&self.folder)
    }

    /// A command by which a server is started here; `signal` ends it when we are gone.
    pub(crate) fn server(&self, program: impl AsRef<Path>, signal: &str) -> Command {
        user::command(program.as_ref(), self.tied.then_some(signal))
    }
}

/// A server that answers.
pub(crate) struct Launched {
    pub(crate) process: Process,
    /// Held, so that it is seen to end.
    pub(crate) child: Child,
    pub(crate) ports: Vec<u16>,
}

/// Starts what `command` says for the drawn ports. It counts as started when its log says so by the word, every port
/// answers, `answers` holds, and the process is still there: somebody else may have taken a port and be answering.
pub(crate) fn launch(
    log: &Path,
    word: &str,
    ports: usize,
    mut command: impl FnMut(&[u16]) -> Result<Command, String>,
    answers: impl Fn(&[u16]) -> bool,
) -> Result<Launched, String> {
    let mut problem = String::new();
    for _ in 0..DRAWS_MAX {
        if !problem.is_empty() {
            println!("    {problem}; once more, on other ports");
        }
        let ports = port::draw(ports)?;
        let says_so = || std::fs::read(log).is_ok_and(|text| String::from_utf8_lossy(&text).contains(word));
        let ready = || says_so() && ports.iter().all(|port| port::answers(*port)) && answers(&ports);
        let child = spawn(&mut command(&ports)?, log)?;
        match wait(child, ready) {
            Ok((process, child)) => return Ok(Launched { process, child, ports }),
            Err(why) => problem = why,
        }
    }
    Err(format!("{problem}\n{}", last_lines(log)))
}

fn spawn(command: &mut Command, log: &Path) -> Result<Child, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let cannot_start = |error| format!("cannot start {program}, with its log in {}: {error}", log.display());
    // Anew: what an earlier start said must not count.
    File::create(log).map_err(cannot_start)?;
    let out = File::options().append(true).open(log).map_err(cannot_start)?;
    let err = out.try_clone().map_err(cannot_start)?;
    // In a group of its own: an interrupt at the terminal is for us, and we end our servers in order.
    command.stdin(Stdio::null()).stdout(out).stderr(err).process_group(0).spawn().map_err(cannot_start)
}

fn wait(mut child: Child, ready: impl Fn() -> bool) -> Result<(Process, Child), String> {
    let start = Instant::now();
    loop {
        let is_ready = ready();
        if let Some(status) = child.try_wait().map_err(|error| format!("cannot watch the server: {error}"))? {
            return Err(format!("the server ended with {status}"));
        }
        match Process::of(child.id()) {
            Some(process) if is_ready => return Ok((process, child)),
            _ if start.elapsed() > READY_WITHIN => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("the server did not answer within {} s", READY_WITHIN.as_secs()));
            }
            _ => std::thread::sleep(LOOK_EVERY),
        }
    }
}

/// Removes a folder, if it is there.
pub(crate) fn remove(folder: &Path) -> Result<(), String> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("cannot remove {}: {error}", folder.display()))
        }
        _ => Ok(()),
    }
}

fn last_lines(log: &Path) -> String {
    let text =
        std::fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let shown = lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..].join("\n    ");
    format!("    {}:\n    {shown}", log.display())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("postrider-launch-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn a_port_that_was_taken_meanwhile_is_drawn_again() {
        let folder = folder("taken");
        let (mut listeners, mut draws) = (Vec::new(), Vec::new());
        let launched = launch(
            &folder.join("log"),
            "ready",
            1,
            |ports| {
                // Somebody listens at the first port before the server can: it answers, and the server ends.
                listeners.push(TcpListener::bind(("127.0.0.1", ports[0])));
                draws.push(ports[0]);
                let mut command = Command::new("sh");
                command.args([
                    "-c",
                    if listeners.len() == 1 { "sleep 0.1; exit 98" } else { "echo ready; exec sleep 300" },
                ]);
                Ok(command)
            },
            |_| true,
        );
        let mut launched = launched.unwrap();
        assert_eq!(draws.len(), 2);
        assert_eq!(launched.ports, [draws[1]]);
        launched.process.end("KILL").unwrap();
        launched.child.wait().unwrap();
        remove(&folder).unwrap();
    }

    #[test]
    fn a_server_that_always_ends_is_given_up_with_its_log() {
        let folder = folder("ends");
        let mut starts = 0;
        let told = launch(
            &folder.join("log"),
            "disk",
            1,
            |_| {
                starts += 1;
                let mut command = Command::new("sh");
                command.args(["-c", "echo the disk is full; exit 3"]);
                Ok(command)
            },
            |_| true,
        );
        assert_eq!(starts, DRAWS_MAX);
        let told = told.err().unwrap();
        assert!(told.contains("exit status: 3") && told.contains("the disk is full"), "{told}");
        remove(&folder).unwrap();
    }
}
